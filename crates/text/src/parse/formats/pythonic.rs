//! The whole answer is `[f(a=1, b='x'), g()]`: Llama 3.2 and 4 where their templates ask for it, ToolACE.

use super::super::{Arguments, Beside, Block, Close, Format, Open, Stream, Written, json, python, written::PYTHON};

pub(super) static FORMAT: Format = Format {
    name: "pythonic",
    detect: |template| template.contains("func_name1(") || template.contains("<|python_start|>"),
    blocks: &[
        Block { open: Open::Start(python::begins_call), close: Close::Brackets, read: python::bare_calls, stream: Stream::WHOLE },
        Block { open: Open::Start(json::begins_call), close: Close::Brackets, read: json::bare_calls, stream: json::BARE_STREAM },
        Block {
            open: Open::Mark("<|python_start|>"),
            close: Close::Marks(&["<|python_end|>"]),
            read: python::bare_calls,
            stream: Stream::WHOLE,
        },
    ],
    written: &[Written {
        open: "[",
        call: "⟨name⟩(⟨arguments⟩)",
        between: Some(",·"),
        close: "]",
        arguments: Arguments::Keywords(&PYTHON),
        beside: Beside::Either,
        ..Written::PLAIN
    }],
    ..Format::PLAIN
};
