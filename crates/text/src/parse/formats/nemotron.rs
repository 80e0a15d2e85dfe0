//! `<TOOLCALL>[{"name": ..., "arguments": {...}}]</TOOLCALL>`: Nemotron Nano 2, Llama-Nemotron.

use super::super::{Block, Close, Format, Open, Written, json};

pub(super) static FORMAT: Format = Format {
    name: "nemotron",
    detect: |template| template.contains("<TOOLCALL>"),
    blocks: &[Block { open: Open::Mark("<TOOLCALL>"), close: Close::Marks(&["</TOOLCALL>"]), read: json::calls, stream: json::STREAM }],
    written: &[Written { open: "<TOOLCALL>[·", close: "·]</TOOLCALL>", ..Written::LIST }],
    ..Format::PLAIN
};
