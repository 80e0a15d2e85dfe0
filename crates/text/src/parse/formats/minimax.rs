//! `<minimax:tool_call><invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke></minimax:tool_call>`: MiniMax M2.

use super::super::tagged::{Tag, Tags, plain};
use super::super::{Arguments, Block, Close, Each, Format, Open, Stream, Written};

pub(super) static FORMAT: Format = Format {
    name: "minimax",
    detect: |template| template.contains("<minimax:tool_call>"),
    blocks: &[Block {
        open: Open::Mark("<minimax:tool_call>"),
        close: Close::Marks(&["</minimax:tool_call>"]),
        read: |text, tools| TAGS.calls(text, tools),
        stream: Stream { head: None, values: Some(|text, tools| TAGS.begun(text, tools)) },
    }],
    written: &[Written {
        open: "<minimax:tool_call>·",
        call: "<invoke name=\"⟨name⟩\">·⟨arguments⟩</invoke>",
        close: "·</minimax:tool_call>",
        arguments: Arguments::Each(Each { open: "<parameter name=\"⟨key⟩\">", close: "</parameter>", ..Each::PLAIN }),
        ..Written::PLAIN
    }],
    ..Format::PLAIN
};

static TAGS: Tags = Tags {
    function: Tag { open: "<invoke name=", named: ">", close: "</invoke>" },
    parameter: Tag { open: "<parameter name=", named: ">", close: "</parameter>" },
    value: plain,
};
