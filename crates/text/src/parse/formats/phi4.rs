//! `<|tool_call|>[{"name": ..., "arguments": {...}}]<|/tool_call|>`, or `functools[...]`: Phi-4 mini.

use super::super::{Block, Close, Format, Open, Written, json};

pub(super) static FORMAT: Format = Format {
    name: "phi4",
    detect: |template| template.contains("<|/tool_call|>") || template.contains("functools"),
    blocks: &[
        Block { open: Open::Mark("<|tool_call|>"), close: Close::Marks(&["<|/tool_call|>"]), read: json::calls, stream: json::STREAM },
        Block { open: Open::Mark("functools"), close: Close::Brackets, read: json::calls, stream: json::STREAM },
    ],
    written: &[
        Written {
            when: |template| template.contains("<|/tool_call|>"),
            open: "<|tool_call|>[·",
            close: "·]<|/tool_call|>",
            ..Written::LIST
        },
        Written { when: |template| !template.contains("<|/tool_call|>"), open: "functools[·", close: "·]", ..Written::LIST },
    ],
    ..Format::PLAIN
};
