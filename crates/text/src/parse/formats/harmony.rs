//! OpenAI's harmony: `<|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>final<|message|>...<|return|>`, and calls as
//! `<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{...}<|call|>`, or with the addressee before the channel:
//! gpt-oss. (<https://cookbook.openai.com/articles/openai-harmony>)

use super::super::{Beginning, Beside, Block, Call, Close, Flaw, Format, Lead, Open, Stream, Tools, Written, json};

const ENDS: Close = Close::Marks(&["<|call|>", "<|end|>", "<|return|>"]);

pub(super) static FORMAT: Format = Format {
    name: "harmony",
    detect: |template| template.contains("<|channel|>") && template.contains("<|message|>"),
    blocks: &[
        Block { open: Open::Mark("<|channel|>commentary to="), close: ENDS, read, stream: STREAM },
        Block { open: Open::Mark("<|channel|>analysis to="), close: ENDS, read, stream: STREAM },
        Block { open: Open::Start(begins_with_addressee), close: ENDS, read, stream: STREAM },
    ],
    silent: &[
        "<|start|>assistant",
        "<|channel|>final<|message|>",
        "<|channel|>final <|constrain|>json<|message|>",
        "<|channel|>commentary<|message|>",
        "<|end|>",
        "<|return|>",
    ],
    within: &["<|start|>", "<|channel|>", "<|message|>", "<|constrain|>"],
    reasoning: &[("<|channel|>analysis<|message|>", "<|end|>")],
    lead: Lead::Always("<|channel|>final<|message|>"),
    again: "<|start|>assistant",
    written: &[
        Written {
            call: "·to=functions.⟨name⟩<|channel|>commentary json<|message|>⟨arguments⟩<|call|>",
            between: Some("<|start|>assistant"),
            beside: Beside::Either,
            text_end: "<|end|>",
            ..Written::PLAIN
        },
        Written {
            call: "<|channel|>commentary to=functions.⟨name⟩ <|constrain|>json<|message|>⟨arguments⟩<|call|>",
            between: Some("<|start|>assistant"),
            beside: Beside::Either,
            text_end: "<|end|>",
            ..Written::PLAIN
        },
    ],
    ..Format::PLAIN
};

/// After `<|start|>assistant`.
fn begins_with_addressee(text: &str) -> Beginning {
    if text.starts_with("to=functions.") {
        Beginning::Yes
    } else if "to=functions.".starts_with(text) {
        Beginning::Unclear
    } else {
        Beginning::No
    }
}
const STREAM: Stream = Stream {
    head: Some(|text, _| json::head_after(text, |head| Some((name_in(head.trim_end().strip_suffix("<|message|>")?), None)))),
    values: None,
};

/// The function in what comes before the arguments.
fn name_in(head: &str) -> &str {
    let head = head.trim_start();
    let head = head.strip_prefix("to=").unwrap_or(head);
    let name = head.split(|c: char| c.is_whitespace() || c == '<').next().unwrap_or_default();
    name.strip_prefix("functions.").unwrap_or(name)
}

fn read(text: &str, _: &Tools) -> Result<Vec<Call>, Flaw> {
    let (head, arguments) = text.split_once("<|message|>").ok_or(Flaw::Malformed)?;
    Ok(vec![Call { name: json::name(name_in(head))?, id: None, arguments: json::object(arguments)? }])
}
