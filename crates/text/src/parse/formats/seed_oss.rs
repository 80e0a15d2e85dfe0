//! `<seed:tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></seed:tool_call>`: Seed-OSS.

use super::super::tagged::{Tag, Tags, plain};
use super::super::{Block, Close, Format, Open, Stream};

pub(super) static FORMAT: Format = Format {
    name: "seed-oss",
    detect: |template| template.contains("<seed:tool_call>"),
    blocks: &[Block {
        open: Open::Mark("<seed:tool_call>"),
        close: Close::Marks(&["</seed:tool_call>"]),
        read: |text, tools| TAGS.calls(text, tools),
        stream: Stream { head: None, values: Some(|text, tools| TAGS.begun(text, tools)) },
    }],
    ..Format::PLAIN
};

/// As Qwen3-Coder's, without the line breaks.
static TAGS: Tags = Tags {
    function: Tag { open: "<function=", named: ">", close: "</function>" },
    parameter: Tag { open: "<parameter=", named: ">", close: "</parameter>" },
    value: plain,
};
