//! `<tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value></tool_call>`: GLM 4.5 to 5, Ling 3, Laguna, Spark 2.5.

use super::super::{Arguments, Begun, Block, Call, Close, Each, Flaw, Format, Open, Stream, Tools, Written, json, tagged::Pairs};

pub(super) static FORMAT: Format = Format {
    name: "glm",
    detect: |template| template.contains("<arg_key>"),
    blocks: &[Block { open: Open::Mark("<tool_call>"), close: Close::Marks(&["</tool_call>"]), read, stream: STREAM }],
    written: &[Written {
        call: "<tool_call>⟨name⟩·⟨arguments⟩</tool_call>",
        arguments: Arguments::Each(Each { open: "<arg_key>⟨key⟩</arg_key>·<arg_value>", close: PAIRS.value.1, ..Each::PLAIN }),
        ..Written::PLAIN
    }],
    ..Format::PLAIN
};

const PAIRS: Pairs = Pairs { key: ("<arg_key>", "</arg_key>"), value: ("<arg_value>", "</arg_value>") };
pub(super) const STREAM: Stream = Stream { head: None, values: Some(begun) };

/// The call in a text that may end anywhere, if its name is there.
pub(super) fn begun(text: &str, tools: &Tools) -> Vec<Begun> {
    let text = text.trim_start();
    let named = text.find(['\n', '<']).map(|at| text.split_at(at)).filter(|(name, _)| json::is_name(name.trim()));
    named.map(|(name, rest)| PAIRS.begun(name.trim().to_owned(), rest, tools)).into_iter().collect()
}

pub(super) fn read(text: &str, tools: &Tools) -> Result<Vec<Call>, Flaw> {
    let text = text.trim();
    let (name, rest) = text.split_at(text.find(['\n', '<']).unwrap_or(text.len()));
    let name = json::name(name.trim())?;
    Ok(vec![PAIRS.call(name, rest, tools)?])
}
