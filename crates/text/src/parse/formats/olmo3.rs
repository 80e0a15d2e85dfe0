//! `<function_calls>`, calls in Python's form, one a line, `</function_calls>`: OLMo 3.

use super::super::{Block, Close, Format, Open, Stream, python};

pub(super) static FORMAT: Format = Format {
    name: "olmo3",
    detect: |template| template.contains("<function_calls>"),
    blocks: &[Block {
        open: Open::Mark("<function_calls>"),
        close: Close::Marks(&["</function_calls>"]),
        read: python::calls,
        stream: Stream::WHOLE,
    }],
    ..Format::PLAIN
};
