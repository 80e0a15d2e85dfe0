//! For templates without marks that are known: `<tool_call>` in its forms, and an answer that is a call of a known tool in JSON.

use super::super::{Beside, Block, Close, Format, Open, Written, json, written::JSON_CALL};
use super::hermes;

pub(super) static FORMAT: Format = Format {
    name: "generic",
    detect: |_| true,
    blocks: &[
        Block { open: Open::Mark("<tool_call>"), close: Close::Marks(&["</tool_call>"]), read: hermes::read, stream: hermes::STREAM },
        Block { open: Open::Start(json::begins_call), close: Close::Brackets, read: json::bare_calls, stream: json::BARE_STREAM },
    ],
    written: &[Written { call: JSON_CALL, between: Some("·"), beside: Beside::Either, ..Written::PLAIN }],
    ..Format::PLAIN
};
