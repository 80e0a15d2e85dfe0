//! `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`: Hermes, Qwen 2.5 and 3, Granite 4, SmolLM3, and many more.

use super::super::{Begun, Block, Call, Close, Flaw, Format, Open, Stream, Tools, Written, json};
use super::{glm, qwen_coder};

pub(super) static FORMAT: Format = Format {
    name: "hermes",
    detect: |template| template.contains("<tool_call>"),
    blocks: &[Block { open: Open::Mark("<tool_call>"), close: Close::Marks(&["</tool_call>"]), read, stream: STREAM }],
    written: &[Written {
        call: "<tool_call>·{·\"name\"·:·\"⟨name⟩\"·,·\"arguments\"·:·⟨arguments⟩·}·</tool_call>", ..Written::PLAIN
    }],
    ..Format::PLAIN
};
pub(super) const STREAM: Stream = Stream { head: Some(json::head), values: Some(begun) };

fn begun(text: &str, tools: &Tools) -> Vec<Begun> {
    match text.trim_start() {
        text if text.starts_with("<function=") => qwen_coder::TAGS.begun(text, tools),
        text if text.contains("<arg_key>") => glm::begun(text, tools),
        _ => Vec::new(),
    }
}

/// Models that were trained on several forms mix them, so all that have these marks are read.
pub(super) fn read(text: &str, tools: &Tools) -> Result<Vec<Call>, Flaw> {
    match text.trim_start() {
        text if text.starts_with("<function=") => qwen_coder::TAGS.calls(text, tools),
        text if text.starts_with(['{', '[']) => json::calls(text, tools),
        text if text.contains("<arg_key>") => glm::read(text, tools),
        _ => Err(Flaw::Malformed),
    }
}
