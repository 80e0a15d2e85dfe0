//! `<｜DSML｜function_calls><｜DSML｜invoke name="NAME"><｜DSML｜parameter name="KEY" string="true">VALUE...`: DeepSeek V3.2 and, with
//! `tool_calls`, V4.

use super::super::tagged::{Tag, Tags, plain};
use super::super::{Block, Close, Format, Open, Stream};

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
    ..Format::PLAIN
};

static TAGS: Tags = Tags {
    function: Tag { open: "<｜DSML｜invoke name=", named: ">", close: "</｜DSML｜invoke>" },
    parameter: Tag { open: "<｜DSML｜parameter name=", named: ">", close: "</｜DSML｜parameter>" },
    value: plain,
};
