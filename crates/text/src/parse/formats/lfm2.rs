//! `<|tool_call_start|>[f(a=1, b='x')]<|tool_call_end|>`, or with JSON within: LFM2 and 2.5, whose
//! template writes strings without escapes.

use super::super::{Arguments, Block, Close, Format, Open, Stream, Written, json, python, written::PYTHON};

pub(super) static FORMAT: Format = Format {
    name: "lfm2",
    detect: |template| template.contains("<|tool_call_start|>") || template.contains("<|tool_list_start|>"),
    blocks: &[Block {
        open: Open::Mark("<|tool_call_start|>"),
        close: Close::Marks(&["<|tool_call_end|>"]),
        read: |text, tools| {
            if text.trim_start().starts_with("[{") { json::calls(text, tools) } else { python::calls_without_escapes(text, tools) }
        },
        stream: Stream::WHOLE,
    }],
    written: &[Written {
        open: "<|tool_call_start|>[",
        call: "⟨name⟩(⟨arguments⟩)",
        between: Some(",·"),
        close: "]<|tool_call_end|>",
        arguments: Arguments::Keywords(&PYTHON),
        ..Written::PLAIN
    }],
    ..Format::PLAIN
};
