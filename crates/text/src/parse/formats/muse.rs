//! An answer is messages to someone: `to=self<|message|>` what the model thinks, `to=NAME<|message|>` a call, others to the user. A call is
//! `<atem:function_calls><atem:invoke name="NAME"><atem:parameter name="KEY">VALUE</atem:parameter></atem:invoke>...`: Muse.

use super::super::tagged::{Tag, Tags, plain};
use super::super::{Arguments, Beginning, Begun, Beside, Block, Call, Close, Each, Flaw, Format, Lead, Open, Stream, Tools, Written, json};

pub(super) static FORMAT: Format = Format {
    name: "muse",
    detect: |template| template.contains("<atem:function_calls>"),
    blocks: &[Block { open: Open::Start(begins_call), close: Close::Marks(&["<|eom|>", "<|eot|>"]), read, stream: STREAM }],
    silent: &["<|start|>assistant", "<|message|>", "to=user<|message|>", "<|eom|>", "<|eot|>"],
    reasoning: &[("to=self<|message|>", "<|eom|>")],
    lead: Lead::Always(" to=user<|message|>"),
    again: "<|start|>assistant",
    written: &[Written {
        call: " to=⟨name⟩<|message|><atem:function_calls>·<atem:invoke name=\"⟨name⟩\">·⟨arguments⟩</atem:invoke>·</atem:function_calls>",
        between: Some("<|eom|><|start|>assistant"),
        arguments: Arguments::Each(Each { open: "<atem:parameter name=\"⟨key⟩\">", close: "</atem:parameter>", ..Each::PLAIN }),
        beside: Beside::Either,
        ..Written::PLAIN
    }],
    ..Format::PLAIN
};

const TAGS: Tags = Tags {
    function: Tag { open: "<atem:invoke name=", named: ">", close: "</atem:invoke>" },
    parameter: Tag { open: "<atem:parameter name=", named: ">", close: "</atem:parameter>" },
    value: plain,
};

const HEAD_END: &str = "<|message|>";

/// A message to neither the model itself nor the user.
fn begins_call(text: &str) -> Beginning {
    let Some(rest) = text.strip_prefix("to=") else {
        return if "to=".starts_with(text) { Beginning::Unclear } else { Beginning::No };
    };
    let (name, after) = rest.split_at(rest.find('<').unwrap_or(rest.len()));
    match after {
        _ if !name.is_empty() && !json::is_name(name) => Beginning::No,
        _ if ["self", "user"].contains(&name) && !after.is_empty() => Beginning::No,
        after if after.starts_with(HEAD_END) => Beginning::Yes,
        after if HEAD_END.starts_with(after) => Beginning::Unclear,
        _ => Beginning::No,
    }
}
const STREAM: Stream = Stream { head: None, values: Some(begun) };

fn begun(text: &str, tools: &Tools) -> Vec<Begun> {
    let calls = text.split_once("<atem:function_calls>").map_or("", |(_, calls)| calls);
    TAGS.begun(calls.split("</atem:function_calls>").next().unwrap_or_default(), tools)
}

fn read(text: &str, tools: &Tools) -> Result<Vec<Call>, Flaw> {
    let (_, calls) = text.split_once("<atem:function_calls>").ok_or(Flaw::Malformed)?;
    let (calls, after) = calls.split_once("</atem:function_calls>").ok_or(Flaw::Cut)?;
    if after.trim().is_empty() { TAGS.calls(calls, tools) } else { Err(Flaw::Malformed) }
}
