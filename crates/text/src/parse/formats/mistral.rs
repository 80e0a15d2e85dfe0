//! `[TOOL_CALLS][{"name": ..., "arguments": {...}, "id": ...}]`, and since 2025 `[TOOL_CALLS]NAME[CALL_ID]ID[ARGS]{...}`, once for
//! each call: Mistral, Mixtral, Devstral, Magistral.

use super::super::{Block, Call, Close, Flaw, Format, Open, Stream, Tools, Written, json};

pub(super) static FORMAT: Format = Format {
    name: "mistral",
    detect: |template| template.contains("[TOOL_CALLS]"),
    blocks: &[Block { open: Open::Mark("[TOOL_CALLS]"), close: Close::Brackets, read, stream: STREAM }],
    within: &["[CALL_ID]", "[ARGS]"],
    written: &[
        Written {
            when: |template| !template.contains("[ARGS]"),
            open: "[TOOL_CALLS]·[·",
            call: "{·\"name\"·:·\"⟨name⟩\"·,·\"arguments\"·:·⟨arguments⟩·,·\"id\"·:·\"⟨id⟩\"·}",
            close: "·]",
            id: ID,
            ..Written::LIST
        },
        Written {
            when: |template| template.contains("[CALL_ID]"),
            call: "[TOOL_CALLS]⟨name⟩[CALL_ID]⟨id⟩[ARGS]⟨arguments⟩",
            between: Some(""),
            id: ID,
            ..Written::PLAIN
        },
        Written {
            when: |template| template.contains("[ARGS]") && !template.contains("[CALL_ID]"),
            call: "[TOOL_CALLS]⟨name⟩[ARGS]⟨arguments⟩",
            between: Some(""),
            ..Written::PLAIN
        },
    ],
    ..Format::PLAIN
};
/// The ids that the templates ask for.
const ID: &str = "[a-zA-Z0-9]{9}";

/// Not those in an array, as their ids come last, and the template wants them back.
const STREAM: Stream = Stream { head: Some(|text, _| json::head_after(text, name_in)), values: None };

/// What comes before the arguments: a name, and perhaps an id.
fn name_in(text: &str) -> Option<(&str, Option<&str>)> {
    let text = text.trim_end().trim_end_matches("[ARGS]");
    let (name, id) = text.split_once("[CALL_ID]").map_or((text, None), |(name, id)| (name, Some(id.trim())));
    Some((name.trim(), id))
}

fn read(text: &str, tools: &Tools) -> Result<Vec<Call>, Flaw> {
    let text = text.trim();
    if text.starts_with(['[', '{']) {
        return json::calls(text, tools);
    }
    let (head, arguments) = text.split_at(text.find('{').ok_or(Flaw::Cut)?);
    let (name, id) = name_in(head).ok_or(Flaw::Malformed)?;
    Ok(vec![Call { name: json::name(name)?, id: id.map(str::to_owned), arguments: json::object(arguments)? }])
}
