//! `<|open|>tools<|sep|><|open|>call tool="NAME" index="1"<|sep|><|open|>argument key="KEY" type="TYPE"<|sep|>VALUE<|close|>argument<|sep|>
//! ...`, and an answer in parts (`think`, `response`) that are marked alike: Kimi K3.

use super::super::tagged::{Tag, Tags, plain};
use super::super::{Block, Close, Format, Lead, Open, Stream};

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
    ..Format::PLAIN
};

static TAGS: Tags = Tags {
    function: Tag { open: "<|open|>call tool=", named: "<|sep|>", close: "<|close|>call<|sep|>" },
    parameter: Tag { open: "<|open|>argument key=", named: "<|sep|>", close: "<|close|>argument<|sep|>" },
    value: plain,
};
