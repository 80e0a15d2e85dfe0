//! `<tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value></tool_call>`: GLM 4.5 to 5, Ling 3, Laguna, Spark 2.5.

use super::super::{Block, Call, Close, Flaw, Format, Open, Tools, json, tagged::Pairs};

pub(super) static FORMAT: Format = Format {
    name: "glm",
    detect: |template| template.contains("<arg_key>"),
    blocks: &[Block { open: Open::Mark("<tool_call>"), close: Close::Marks(&["</tool_call>"]), read }],
    ..Format::PLAIN
};

static PAIRS: Pairs = Pairs { key: ("<arg_key>", "</arg_key>"), value: ("<arg_value>", "</arg_value>") };

pub(super) fn read(text: &str, tools: &Tools) -> Result<Vec<Call>, Flaw> {
    let text = text.trim();
    let (name, rest) = text.split_at(text.find(['\n', '<']).unwrap_or(text.len()));
    let name = json::name(name.trim())?;
    let arguments = PAIRS.arguments(rest, &name, tools)?;
    Ok(vec![Call { name, id: None, arguments }])
}
