//! `<tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value></tool_call>`: GLM 4.5 to 5.

use super::super::{Block, Call, Close, Flaw, Format, Open, Tools, json, tagged::before};
use serde_json::Map;

pub(super) static FORMAT: Format = Format {
    name: "glm",
    detect: |template| template.contains("<arg_key>"),
    blocks: &[Block { open: Open::Mark("<tool_call>"), close: Close::Marks(&["</tool_call>"]), read }],
    ..Format::PLAIN
};

pub(super) fn read(text: &str, tools: &Tools) -> Result<Vec<Call>, Flaw> {
    let text = text.trim();
    let (name, mut rest) = text.split_at(text.find(['\n', '<']).unwrap_or(text.len()));
    let name = json::name(name.trim())?;
    let mut arguments = Map::new();
    rest = rest.trim_start();
    while !rest.is_empty() {
        rest = rest.strip_prefix("<arg_key>").ok_or(Flaw::Malformed)?;
        let key = before(&mut rest, "</arg_key>").ok_or(Flaw::Cut)?.trim();
        rest = rest.trim_start();
        rest = rest.strip_prefix("<arg_value>").ok_or(if rest.is_empty() { Flaw::Cut } else { Flaw::Malformed })?;
        let value = before(&mut rest, "</arg_value>").ok_or(Flaw::Cut)?;
        arguments.insert(key.to_owned(), tools.typed(&name, key, value));
        rest = rest.trim_start();
    }
    Ok(vec![Call { name, id: None, arguments }])
}
