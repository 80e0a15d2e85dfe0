//! `<tool_calls:opensource><tool_call:opensource>NAME<tool_sep:opensource><arg_key:opensource>KEY</arg_key:opensource>...`: Hunyuan 3. Each
//! mark has the same suffix, which the template adds.

use super::super::tagged::{Pairs, before, each};
use super::super::{Arguments, Begun, Block, Call, Close, Each, Flaw, Format, Open, Stream, Tools, Written, json};

const BEGIN: &str = "<tool_call:opensource>";
const END: &str = "</tool_call:opensource>";
const NAMED: &str = "<tool_sep:opensource>";

pub(super) static FORMAT: Format = Format {
    name: "hunyuan",
    detect: |template| template.contains("<tool_sep") && template.contains(":opensource"),
    blocks: &[Block {
        open: Open::Mark("<tool_calls:opensource>"),
        close: Close::Marks(&["</tool_calls:opensource>"]),
        read,
        stream: STREAM,
    }],
    within: &[BEGIN, END, NAMED, PAIRS.key.0, PAIRS.key.1, PAIRS.value.0, PAIRS.value.1],
    reasoning: &[("<think:opensource>", "</think:opensource>")],
    written: &[Written {
        open: "<tool_calls:opensource>·",
        call: "<tool_call:opensource>⟨name⟩<tool_sep:opensource>·⟨arguments⟩</tool_call:opensource>",
        close: "·</tool_calls:opensource>",
        arguments: Arguments::Each(Each {
            open: "<arg_key:opensource>⟨key⟩</arg_key:opensource>·<arg_value:opensource>",
            close: PAIRS.value.1,
            ..Each::PLAIN
        }),
        ..Written::PLAIN
    }],
    ..Format::PLAIN
};

const PAIRS: Pairs =
    Pairs { key: ("<arg_key:opensource>", "</arg_key:opensource>"), value: ("<arg_value:opensource>", "</arg_value:opensource>") };
const STREAM: Stream = Stream { head: None, values: Some(begun) };

/// The calls in a text that may end anywhere.
fn begun(text: &str, tools: &Tools) -> Vec<Begun> {
    let (mut rest, mut calls) = (text, Vec::new());
    while let Some(after) = rest.trim_start().strip_prefix(BEGIN) {
        let Some((name, after)) = after.split_once(NAMED).filter(|(name, _)| json::is_name(name.trim())) else { break };
        let (arguments, end) = after.split_once(END).map_or((after, None), |(arguments, end)| (arguments, Some(end)));
        calls.push(Begun { is_complete: end.is_some(), ..PAIRS.begun(name.trim().to_owned(), arguments, tools) });
        rest = end.unwrap_or_default();
    }
    calls
}

fn read(text: &str, tools: &Tools) -> Result<Vec<Call>, Flaw> {
    each(text, BEGIN, |rest| {
        let name = json::name(before(rest, NAMED).ok_or(Flaw::Cut)?.trim())?;
        PAIRS.call(name, before(rest, END).ok_or(Flaw::Cut)?, tools)
    })
}
