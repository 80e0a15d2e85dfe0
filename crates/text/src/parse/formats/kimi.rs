//! `<|tool_calls_section_begin|><|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{...}<|tool_call_end|>...`: Kimi K2.

use super::super::{
    Block, Call, Close, Flaw, Format, Open, Tools, json,
    tagged::{before, each},
};

const BEGIN: &str = "<|tool_call_begin|>";
const ARGUMENTS: &str = "<|tool_call_argument_begin|>";
const END: &str = "<|tool_call_end|>";

pub(super) static FORMAT: Format = Format {
    name: "kimi",
    detect: |template| template.contains("<|tool_calls_section_begin|>"),
    blocks: &[Block { open: Open::Mark("<|tool_calls_section_begin|>"), close: Close::Marks(&["<|tool_calls_section_end|>"]), read }],
    within: &[BEGIN, ARGUMENTS, END],
    ..Format::PLAIN
};

/// The id names the function, and the template writes it back, so it is kept.
fn read(text: &str, _: &Tools) -> Result<Vec<Call>, Flaw> {
    each(text, BEGIN, |rest| {
        let id = before(rest, ARGUMENTS).ok_or(Flaw::Cut)?.trim();
        let name = id.rsplit_once(':').map_or(id, |(name, _)| name);
        let name = name.strip_prefix("functions.").unwrap_or(name);
        let arguments = json::object(before(rest, END).ok_or(Flaw::Cut)?)?;
        Ok(Call { name: json::name(name)?, id: Some(id.to_owned()), arguments })
    })
}
