//! `<｜DSML｜function_calls><｜DSML｜invoke name="NAME"><｜DSML｜parameter name="KEY" string="true">VALUE...`: DeepSeek V3.2 and, with
//! `tool_calls`, V4.

use super::super::tagged::{Tag, Tags, plain};
use super::super::{Arguments, Block, Close, Each, Format, Open, Stream, Written};

pub(super) static FORMAT: Format = Format {
    name: "deepseek-dsml",
    detect: |template| template.contains("｜DSML｜"),
    blocks: &[
        Block {
            open: Open::Mark("<｜DSML｜function_calls>"),
            close: Close::Marks(&["</｜DSML｜function_calls>"]),
            read: |text, tools| TAGS.calls(text, tools),
            stream: Stream { head: None, values: Some(|text, tools| TAGS.begun(text, tools)) },
        },
        Block {
            open: Open::Mark("<｜DSML｜tool_calls>"),
            close: Close::Marks(&["</｜DSML｜tool_calls>"]),
            read: |text, tools| TAGS.calls(text, tools),
            stream: Stream { head: None, values: Some(|text, tools| TAGS.begun(text, tools)) },
        },
    ],
    written: &[
        Written {
            when: |template| template.contains("function_calls>"),
            open: "<｜DSML｜function_calls>·",
            close: "·</｜DSML｜function_calls>",
            ..WRITTEN
        },
        Written {
            when: |template| !template.contains("function_calls>"),
            open: "<｜DSML｜tool_calls>·",
            close: "·</｜DSML｜tool_calls>",
            ..WRITTEN
        },
    ],
    ..Format::PLAIN
};

const TAGS: Tags = Tags {
    function: Tag { open: "<｜DSML｜invoke name=", named: ">", close: "</｜DSML｜invoke>" },
    parameter: Tag { open: "<｜DSML｜parameter name=", named: ">", close: "</｜DSML｜parameter>" },
    value: plain,
};

const WRITTEN: Written = Written {
    call: "<｜DSML｜invoke name=\"⟨name⟩\">·⟨arguments⟩</｜DSML｜invoke>",
    arguments: Arguments::Each(Each {
        open: "<｜DSML｜parameter name=\"⟨key⟩\" string=\"⟨kind⟩\">",
        close: TAGS.parameter.close,
        kind: |kind| if kind == "string" { "true" } else { "false" },
        ..Each::PLAIN
    }),
    ..Written::PLAIN
};
