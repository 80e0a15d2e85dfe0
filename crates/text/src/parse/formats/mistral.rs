//! `[TOOL_CALLS][{"name": ..., "arguments": {...}, "id": ...}]`, and since 2025 `[TOOL_CALLS]NAME[CALL_ID]ID[ARGS]{...}`, once for
//! each call: Mistral, Mixtral, Devstral, Magistral.

use super::super::{Block, Call, Close, Flaw, Format, Open, Tools, json};

pub(super) static FORMAT: Format = Format {
    name: "mistral",
    detect: |template| template.contains("[TOOL_CALLS]"),
    blocks: &[Block { open: Open::Mark("[TOOL_CALLS]"), close: Close::Brackets, read }],
    within: &["[CALL_ID]", "[ARGS]"],
    ..Format::PLAIN
};

fn read(text: &str, tools: &Tools) -> Result<Vec<Call>, Flaw> {
    let text = text.trim();
    if text.starts_with(['[', '{']) {
        return json::calls(text, tools);
    }
    let (head, arguments) = text.split_at(text.find('{').ok_or(Flaw::Cut)?);
    let head = head.trim_end().trim_end_matches("[ARGS]");
    let (name, id) = match head.split_once("[CALL_ID]") {
        Some((name, id)) => (name, Some(id.trim().to_owned())),
        None => (head, None),
    };
    Ok(vec![Call { name: json::name(name.trim())?, id, arguments: json::object(arguments)? }])
}
