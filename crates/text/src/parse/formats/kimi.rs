//! `<|tool_calls_section_begin|><|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{...}<|tool_call_end|>...`: Kimi K2.

use super::super::{
    Block, Call, Close, Flaw, Format, Open, Stream, Tools, Written, json,
    tagged::{before, each},
};

const BEGIN: &str = "<|tool_call_begin|>";
const ARGUMENTS: &str = "<|tool_call_argument_begin|>";
const END: &str = "<|tool_call_end|>";

pub(super) static FORMAT: Format = Format {
    name: "kimi",
    detect: |template| template.contains("<|tool_calls_section_begin|>"),
    blocks: &[Block {
        open: Open::Mark("<|tool_calls_section_begin|>"),
        close: Close::Marks(&["<|tool_calls_section_end|>"]),
        read,
        stream: STREAM,
    }],
    within: &[BEGIN, ARGUMENTS, END],
    written: &[Written {
        open: "<|tool_calls_section_begin|>",
        call: "<|tool_call_begin|>functions.⟨name⟩:⟨id⟩<|tool_call_argument_begin|>⟨arguments⟩<|tool_call_end|>",
        close: "<|tool_calls_section_end|>",
        ..Written::PLAIN
    }],
    ..Format::PLAIN
};
const STREAM: Stream = Stream { head: Some(|text, _| json::head_after(text, name_in)), values: None };

/// The name and id of the last call that begins in a text.
fn name_in(text: &str) -> Option<(&str, Option<&str>)> {
    let id = text.trim_end().strip_suffix(ARGUMENTS)?.rsplit_once(BEGIN)?.1.trim();
    Some((name_of(id), Some(id)))
}

fn name_of(id: &str) -> &str {
    let name = id.rsplit_once(':').map_or(id, |(name, _)| name);
    name.strip_prefix("functions.").unwrap_or(name)
}

/// The id names the function, and the template writes it back, so it is kept.
fn read(text: &str, _: &Tools) -> Result<Vec<Call>, Flaw> {
    each(text, BEGIN, |rest| {
        let id = before(rest, ARGUMENTS).ok_or(Flaw::Cut)?.trim();
        let arguments = json::object(before(rest, END).ok_or(Flaw::Cut)?)?;
        Ok(Call { name: json::name(name_of(id))?, id: Some(id.to_owned()), arguments })
    })
}
