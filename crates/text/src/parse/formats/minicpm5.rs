//! `<function name="NAME"><param name="KEY">VALUE</param></function>`, where values with marks of XML are CDATA: MiniCPM5.

use super::super::tagged::{Tag, Tags};
use super::super::{Arguments, Block, Call, Close, Each, Flaw, Format, Open, Stream, Tools, Written, written::PYTHON};

pub(super) static FORMAT: Format = Format {
    name: "minicpm5",
    detect: |template| template.contains("<function name=\"") && template.contains("<param name=\""),
    blocks: &[Block { open: Open::Mark(TAGS.function.open), close: Close::Marks(&[TAGS.function.close]), read, stream: STREAM }],
    written: &[Written {
        call: "<function name=\"⟨name⟩\">⟨arguments⟩</function>",
        arguments: Arguments::Each(Each {
            open: "<param name=\"⟨key⟩\">",
            close: TAGS.parameter.close,
            after: "",
            wrapped: Some(("<&\n", "<![CDATA[", "]]>")),
            others: Some(&PYTHON),
            ..Each::PLAIN
        }),
        ..Written::PLAIN
    }],
    ..Format::PLAIN
};

const TAGS: Tags = Tags {
    function: Tag { open: "<function name=", named: ">", close: "</function>" },
    parameter: Tag { open: "<param name=", named: ">", close: "</param>" },
    value: |text| text.strip_prefix("<![CDATA[").and_then(|text| text.strip_suffix("]]>")).unwrap_or(text),
};
const STREAM: Stream = Stream { head: None, values: Some(|text, tools| TAGS.begun(&[TAGS.function.open, text].concat(), tools)) };

fn read(text: &str, tools: &Tools) -> Result<Vec<Call>, Flaw> {
    TAGS.calls(&[TAGS.function.open, text, TAGS.function.close].concat(), tools)
}
