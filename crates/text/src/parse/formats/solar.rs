//! `<|tool_calls|><|tool_call:begin|>ID<|tool_call:name|>NAME<|tool_call:args|>{...}<|tool_call:end|><|calls|>`: Solar Open.

use super::super::{
    Block, Call, Close, Flaw, Format, Open, Tools, json,
    tagged::{before, each},
};

const BEGIN: &str = "<|tool_call:begin|>";
const NAME: &str = "<|tool_call:name|>";
const ARGUMENTS: &str = "<|tool_call:args|>";
const END: &str = "<|tool_call:end|>";

pub(super) static FORMAT: Format = Format {
    name: "solar",
    detect: |template| template.contains(BEGIN),
    blocks: &[Block { open: Open::Mark("<|tool_calls|>"), close: Close::Marks(&["<|calls|>"]), read }],
    silent: &["<|content|>"],
    within: &[BEGIN, NAME, ARGUMENTS, END],
    reasoning: &[("<|think|>", "<|end|>")],
    ..Format::PLAIN
};

fn read(text: &str, _: &Tools) -> Result<Vec<Call>, Flaw> {
    each(text, BEGIN, |rest| {
        let id = before(rest, NAME).ok_or(Flaw::Cut)?.trim();
        let name = before(rest, ARGUMENTS).ok_or(Flaw::Cut)?.trim();
        let arguments = json::object(before(rest, END).ok_or(Flaw::Cut)?)?;
        Ok(Call { name: json::name(name)?, id: Some(id.to_owned()).filter(|id| !id.is_empty()), arguments })
    })
}
