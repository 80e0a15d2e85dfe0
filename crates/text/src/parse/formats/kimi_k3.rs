//! `<|open|>tools<|sep|><|open|>call tool="NAME" index="1"<|sep|><|open|>argument key="KEY" type="TYPE"<|sep|>VALUE<|close|>argument<|sep|>
//! ...`, and an answer in parts (`think`, `response`) that are marked alike: Kimi K3.

use super::super::tagged::{Tag, Tags, plain};
use super::super::{Arguments, Beside, Block, Close, Each, Format, Lead, Open, Stream, Written};

pub(super) static FORMAT: Format = Format {
    name: "kimi-k3",
    detect: |template| template.contains("<|open|>") && template.contains("<|close|>"),
    blocks: &[Block {
        open: Open::Mark("<|open|>tools<|sep|>"),
        close: Close::Marks(&["<|close|>tools<|sep|>"]),
        read: |text, tools| TAGS.calls(text, tools),
        stream: Stream { head: None, values: Some(|text, tools| TAGS.begun(text, tools)) },
    }],
    silent: &["<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>", "<|end_of_msg|>"],
    reasoning: &[("<|open|>think<|sep|>", "<|close|>think<|sep|>")],
    lead: Lead::Always("<|open|>response<|sep|>"),
    written: &[
        Written { open: "<|open|>tools<|sep|>", beside: Beside::Before("<|close|>response<|sep|>"), ..WRITTEN },
        // An empty text first.
        Written { open: "<|open|>response<|sep|><|close|>response<|sep|><|open|>tools<|sep|>", beside: Beside::Either, ..WRITTEN },
    ],
    ..Format::PLAIN
};

static TAGS: Tags = Tags {
    function: Tag { open: "<|open|>call tool=", named: "<|sep|>", close: "<|close|>call<|sep|>" },
    parameter: Tag { open: "<|open|>argument key=", named: "<|sep|>", close: "<|close|>argument<|sep|>" },
    value: plain,
};

const WRITTEN: Written = Written {
    call: "<|open|>call tool=\"⟨name⟩\" index=\"⟨id⟩\"<|sep|>⟨arguments⟩<|close|>call<|sep|>",
    between: Some(""),
    close: "<|close|>tools<|sep|><|close|>message<|sep|>",
    arguments: Arguments::Each(Each {
        open: "<|open|>argument key=\"⟨key⟩\" type=\"⟨kind⟩\"<|sep|>",
        close: "<|close|>argument<|sep|>",
        after: "",
        kind: |kind| match kind {
            "integer" | "number" => "number",
            "string" => "string",
            "boolean" => "boolean",
            "array" => "array",
            "object" => "object",
            _ => "null",
        },
        ..Each::PLAIN
    }),
    text_end: "<|close|>response<|sep|><|close|>message<|sep|>",
    ..Written::PLAIN
};
