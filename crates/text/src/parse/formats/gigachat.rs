//! `function call<|role_sep|>` or `<|function_call|>`, and a call in JSON: GigaChat 3.

use super::super::{Block, Close, Format, Open, json};

pub(super) static FORMAT: Format = Format {
    name: "gigachat",
    detect: |template| (template.contains("<|role_sep|>") && template.contains("function call")) || template.contains("<|function_call|>"),
    blocks: &[
        Block {
            open: Open::Mark("<|message_sep|>\n\nfunction call<|role_sep|>\n"),
            close: Close::Brackets,
            read: json::calls,
            stream: json::STREAM,
        },
        Block { open: Open::Mark("function call<|role_sep|>\n"), close: Close::Brackets, read: json::calls, stream: json::STREAM },
        Block { open: Open::Mark("<|function_call|>"), close: Close::Brackets, read: json::calls, stream: json::STREAM },
    ],
    ..Format::PLAIN
};
