//! `function call<|role_sep|>` or `<|function_call|>`, and a call in JSON: GigaChat 3.

use super::super::{Beside, Block, Close, Format, Open, Written, json, written::JSON_CALL};

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
    written: &[
        Written {
            when: |template| template.contains("<|function_call|>"),
            call: "<|function_call|>{·\"name\"·:·\"⟨name⟩\"·,·\"arguments\"·:·⟨arguments⟩·}",
            ..Written::PLAIN
        },
        Written { open: "function call<|role_sep|>\n", beside: Beside::Either, ..OLDER },
        // Its template writes an empty text first.
        Written { open: "<|message_sep|>\n\nfunction call<|role_sep|>\n", ..OLDER },
    ],
    ..Format::PLAIN
};

const OLDER: Written =
    Written { when: |template| !template.contains("<|function_call|>"), call: JSON_CALL, between: None, ..Written::PLAIN };
