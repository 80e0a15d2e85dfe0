//! `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`: Hermes, Qwen 2.5 and 3, Granite 4, SmolLM3, and many more.

use super::super::{Block, Call, Close, Flaw, Format, Open, Tools, json};
use super::{glm, qwen_coder};

pub(super) static FORMAT: Format = Format {
    name: "hermes",
    detect: |template| template.contains("<tool_call>"),
    blocks: &[Block { open: Open::Mark("<tool_call>"), close: Close::Marks(&["</tool_call>"]), read }],
    ..Format::PLAIN
};

/// Models that were trained on several forms mix them, so all that have these marks are read.
pub(super) fn read(text: &str, tools: &Tools) -> Result<Vec<Call>, Flaw> {
    match text.trim_start() {
        text if text.starts_with("<function=") => qwen_coder::TAGS.calls(text, tools),
        text if text.starts_with(['{', '[']) => json::calls(text, tools),
        text if text.contains("<arg_key>") => glm::read(text, tools),
        _ => Err(Flaw::Malformed),
    }
}
