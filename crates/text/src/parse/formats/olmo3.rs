//! `<function_calls>`, calls in Python's form, one a line, `</function_calls>`: OLMo 3.

use super::super::{Arguments, Block, Close, Format, Open, Stream, Written, python, written::PYTHON};

pub(super) static FORMAT: Format = Format {
    name: "olmo3",
    detect: |template| template.contains("<function_calls>"),
    blocks: &[Block {
        open: Open::Mark("<function_calls>"),
        close: Close::Marks(&["</function_calls>"]),
        read: python::calls,
        stream: Stream::WHOLE,
    }],
    written: &[Written {
        open: "<function_calls>·",
        call: "⟨name⟩(⟨arguments⟩)",
        between: Some("\n"),
        close: "·</function_calls>",
        arguments: Arguments::Keywords(&PYTHON),
        ..Written::PLAIN
    }],
    ..Format::PLAIN
};
