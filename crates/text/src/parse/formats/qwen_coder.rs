//! `<tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>`: Qwen3-Coder, Qwen 3.5, Nemotron 3.

use super::super::tagged::{Tag, Tags, on_own_lines};
use super::super::{Arguments, Begun, Block, Call, Close, Each, Flaw, Format, Open, Stream, Tools, Written};
use super::hermes;

pub(super) static FORMAT: Format = Format {
    name: "qwen-coder",
    detect: |template| template.contains("<function=") && template.contains("<parameter="),
    blocks: &[
        Block { open: Open::Mark("<tool_call>"), close: Close::Marks(&["</tool_call>"]), read: hermes::read, stream: hermes::STREAM },
        // The models at times forget the first tag.
        Block {
            open: Open::Mark("<function="),
            close: Close::Marks(&["</tool_call>"]),
            read: read_bare,
            stream: Stream { head: None, values: Some(begun_bare) },
        },
    ],
    written: &[Written {
        call: "<tool_call>·<function=⟨name⟩>·⟨arguments⟩</function>·</tool_call>",
        arguments: Arguments::Each(Each { open: "<parameter=⟨key⟩>\n", close: "\n</parameter>", ..Each::PLAIN }),
        ..Written::PLAIN
    }],
    ..Format::PLAIN
};

pub(super) static TAGS: Tags = Tags {
    function: Tag { open: "<function=", named: ">", close: "</function>" },
    parameter: Tag { open: "<parameter=", named: ">", close: "</parameter>" },
    value: on_own_lines,
};

fn begun_bare(text: &str, tools: &Tools) -> Vec<Begun> {
    TAGS.begun(&format!("<function={text}"), tools)
}

fn read_bare(text: &str, tools: &Tools) -> Result<Vec<Call>, Flaw> {
    TAGS.calls(&format!("<function={text}"), tools)
}
