//! `<|tool_call|>[{"name": ..., "arguments": {...}}]`: Granite 3. (Granite 4 writes as Hermes does.)

use super::super::{Block, Close, Format, Open, Written, json};

pub(super) static FORMAT: Format = Format {
    name: "granite",
    detect: |template| template.contains("<|tool_call|>"),
    blocks: &[
        Block { open: Open::Mark("<|tool_call|>"), close: Close::Brackets, read: json::calls, stream: json::STREAM },
        Block { open: Open::Mark("<tool_call>"), close: Close::Brackets, read: json::calls, stream: json::STREAM },
    ],
    written: &[Written { open: "<|tool_call|>[·", close: "·]", ..Written::LIST }],
    ..Format::PLAIN
};
