//! `<tool_calls>[{"name": ..., "arguments": {...}}]</tool_calls>`, or one call a line: Apriel, MiniMax M1.

use super::super::{Block, Close, Format, Open, Written, json};

pub(super) static FORMAT: Format = Format {
    name: "apriel",
    detect: |template| template.contains("<tool_calls>[") || (template.contains("<tool_calls>") && !template.contains("<tool_call>")),
    blocks: &[Block { open: Open::Mark("<tool_calls>"), close: Close::Marks(&["</tool_calls>"]), read: json::calls, stream: json::STREAM }],
    silent: &["[END FINAL RESPONSE]"],
    written: &[
        Written {
            when: |template| template.contains("<tool_calls>["), open: "<tool_calls>[·", close: "·]</tool_calls>", ..Written::LIST
        },
        Written {
            when: |template| !template.contains("<tool_calls>["),
            open: "<tool_calls>\n",
            between: Some("\n"),
            close: "\n</tool_calls>",
            ..Written::LIST
        },
    ],
    ..Format::PLAIN
};
