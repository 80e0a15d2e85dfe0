//! The whole answer is `{"name": ..., "parameters": {...}}`, perhaps after `<|python_tag|>`; several have a `;` between them. Built-in
//! tools are called as `NAME.call(key="value")`: Llama 3.1 to 3.3.

use super::super::{Beside, Block, Call, Close, Flaw, Format, Open, Tools, Written, json, python};

pub(super) static FORMAT: Format = Format {
    name: "llama3",
    detect: |template| template.contains("<|start_header_id|>") || template.contains("<|python_tag|>"),
    blocks: &[
        Block { open: Open::Mark("<|python_tag|>"), close: Close::Marks(&["<|eom_id|>", "<|eot_id|>"]), read, stream: json::STREAM },
        Block { open: Open::Start(json::begins_call), close: Close::Brackets, read: json::bare_calls, stream: json::BARE_STREAM },
    ],
    written: &[Written {
        call: "{·\"name\"·:·\"⟨name⟩\"·,·\"parameters\"·:·⟨arguments⟩·}",
        between: Some(";·"),
        beside: Beside::Either,
        ..Written::PLAIN
    }],
    ..Format::PLAIN
};

fn read(text: &str, tools: &Tools) -> Result<Vec<Call>, Flaw> {
    if text.trim_start().starts_with('{') {
        return json::calls(text, tools);
    }
    let mut calls = python::calls(text, tools)?;
    calls.iter_mut().for_each(|call| call.name = call.name.trim_end_matches(".call").to_owned());
    if calls.iter().all(|call| tools.knows(&call.name)) { Ok(calls) } else { Err(Flaw::Malformed) }
}
