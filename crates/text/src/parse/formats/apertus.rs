//! `<|tools_prefix|>[{"NAME": {...}}]<|tools_suffix|>`: Apertus.

use super::super::{Block, Close, Format, Open, Stream, Written, json};

pub(super) static FORMAT: Format = Format {
    name: "apertus",
    detect: |template| template.contains("<|tools_prefix|>"),
    blocks: &[Block {
        open: Open::Mark("<|tools_prefix|>"),
        close: Close::Marks(&["<|tools_suffix|>"]),
        read: json::keyed_calls,
        stream: Stream { head: Some(json::keyed_head), values: None },
    }],
    reasoning: &[("<|inner_prefix|>", "<|inner_suffix|>")],
    written: &[Written {
        open: "<|tools_prefix|>[·", call: "{·\"⟨name⟩\"·:·⟨arguments⟩·}", close: "·]<|tools_suffix|>", ..Written::LIST
    }],
    ..Format::PLAIN
};
