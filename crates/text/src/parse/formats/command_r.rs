//! `<|START_ACTION|>[{"tool_call_id": "0", "tool_name": ..., "parameters": {...}}]<|END_ACTION|>` and, in older models,
//! `Action:` with a fence of Markdown: Command R7B and A, Command R.

use super::super::{Beside, Block, Close, Format, Lead, Open, Written, json};

pub(super) static FORMAT: Format = Format {
    name: "command-r",
    detect: |template| template.contains("<|START_ACTION|>") || (template.contains("Action:") && template.contains("```json")),
    blocks: &[
        Block { open: Open::Mark("<|START_ACTION|>"), close: Close::Marks(&["<|END_ACTION|>"]), read: json::calls, stream: json::STREAM },
        Block { open: Open::Mark("Action: ```json"), close: Close::Marks(&["```"]), read: json::calls, stream: json::STREAM },
        Block { open: Open::Mark("Action:```json"), close: Close::Marks(&["```"]), read: json::calls, stream: json::STREAM },
    ],
    silent: &["<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"],
    lead: Lead::Perhaps("<|START_RESPONSE|>"),
    written: &[
        Written {
            when: |template| template.contains("<|START_ACTION|>"),
            open: "<|START_ACTION|>[·",
            call: "{·\"tool_call_id\"·:·\"⟨id⟩\"·,·\"tool_name\"·:·\"⟨name⟩\"·,·\"parameters\"·:·⟨arguments⟩·}",
            close: "·]<|END_ACTION|>",
            beside: Beside::Either,
            text_end: "<|END_RESPONSE|>",
            ..Written::LIST
        },
        Written {
            when: |template| !template.contains("<|START_ACTION|>"),
            open: "Action: ```json·[·",
            call: "{·\"tool_name\"·:·\"⟨name⟩\"·,·\"parameters\"·:·⟨arguments⟩·}",
            close: "·]·```",
            beside: Beside::Either,
            ..Written::LIST
        },
    ],
    ..Format::PLAIN
};
