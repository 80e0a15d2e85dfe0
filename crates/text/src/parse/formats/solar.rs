//! `<|tool_calls|><|tool_call:begin|>ID<|tool_call:name|>NAME<|tool_call:args|>{...}<|tool_call:end|><|calls|>`: Solar Open.

use super::super::{
    Block, Call, Close, Flaw, Format, Lead, Open, Stream, Tools, Written, json,
    tagged::{before, each},
};

const BEGIN: &str = "<|tool_call:begin|>";
const NAME: &str = "<|tool_call:name|>";
const ARGUMENTS: &str = "<|tool_call:args|>";
const END: &str = "<|tool_call:end|>";

pub(super) static FORMAT: Format = Format {
    name: "solar",
    detect: |template| template.contains(BEGIN),
    blocks: &[Block { open: Open::Mark("<|tool_calls|>"), close: Close::Marks(&["<|calls|>"]), read, stream: STREAM }],
    silent: &["<|content|>"],
    within: &[BEGIN, NAME, ARGUMENTS, END],
    reasoning: &[("<|think|>", "<|end|>")],
    lead: Lead::Perhaps("<|content|>"),
    written: &[Written {
        open: "<|tool_calls|>",
        call: "<|tool_call:begin|>⟨id⟩<|tool_call:name|>⟨name⟩<|tool_call:args|>⟨arguments⟩<|tool_call:end|>",
        between: Some(""),
        close: "<|calls|>",
        id: "[a-zA-Z0-9_-]{1,32}",
        ..Written::PLAIN
    }],
    ..Format::PLAIN
};
const STREAM: Stream = Stream { head: Some(|text, _| json::head_after(text, name_in)), values: None };

/// The name and id of the last call that begins in a text.
fn name_in(text: &str) -> Option<(&str, Option<&str>)> {
    let (id, name) = text.trim_end().strip_suffix(ARGUMENTS)?.rsplit_once(BEGIN)?.1.split_once(NAME)?;
    Some((name.trim(), Some(id.trim()).filter(|id| !id.is_empty())))
}

fn read(text: &str, _: &Tools) -> Result<Vec<Call>, Flaw> {
    each(text, BEGIN, |rest| {
        let id = before(rest, NAME).ok_or(Flaw::Cut)?.trim();
        let name = before(rest, ARGUMENTS).ok_or(Flaw::Cut)?.trim();
        let arguments = json::object(before(rest, END).ok_or(Flaw::Cut)?)?;
        Ok(Call { name: json::name(name)?, id: Some(id.to_owned()).filter(|id| !id.is_empty()), arguments })
    })
}
