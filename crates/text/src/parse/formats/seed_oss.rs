//! `<seed:tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></seed:tool_call>`: Seed-OSS.

use super::super::tagged::{Tag, Tags, plain};
use super::super::{Arguments, Block, Close, Each, Format, Open, Stream, Written, written::PYTHON};

pub(super) static FORMAT: Format = Format {
    name: "seed-oss",
    detect: |template| template.contains("<seed:tool_call>"),
    blocks: &[Block {
        open: Open::Mark("<seed:tool_call>"),
        close: Close::Marks(&["</seed:tool_call>"]),
        read: |text, tools| TAGS.calls(text, tools),
        stream: Stream { head: None, values: Some(|text, tools| TAGS.begun(text, tools)) },
    }],
    written: &[Written {
        call: "<seed:tool_call>·<function=⟨name⟩>·⟨arguments⟩</function>·</seed:tool_call>",
        arguments: Arguments::Each(Each {
            open: "<parameter=⟨key⟩>",
            close: "</parameter>",
            // Its template writes lists and objects so.
            others: Some(&PYTHON),
            ..Each::PLAIN
        }),
        ..Written::PLAIN
    }],
    ..Format::PLAIN
};

/// As Qwen3-Coder's, without the line breaks.
static TAGS: Tags = Tags {
    function: Tag { open: "<function=", named: ">", close: "</function>" },
    parameter: Tag { open: "<parameter=", named: ">", close: "</parameter>" },
    value: plain,
};
