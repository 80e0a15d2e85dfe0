//! `<tool_calls:opensource><tool_call:opensource>NAME<tool_sep:opensource><arg_key:opensource>KEY</arg_key:opensource>...`: Hunyuan 3. Each
//! mark has the same suffix, which the template adds.

use super::super::tagged::{Pairs, before, each};
use super::super::{Block, Call, Close, Flaw, Format, Open, Tools, json};

const BEGIN: &str = "<tool_call:opensource>";
const END: &str = "</tool_call:opensource>";
const NAMED: &str = "<tool_sep:opensource>";

pub(super) static FORMAT: Format = Format {
    name: "hunyuan",
    detect: |template| template.contains("<tool_sep") && template.contains(":opensource"),
    blocks: &[Block { open: Open::Mark("<tool_calls:opensource>"), close: Close::Marks(&["</tool_calls:opensource>"]), read }],
    within: &[BEGIN, END, NAMED, PAIRS.key.0, PAIRS.key.1, PAIRS.value.0, PAIRS.value.1],
    reasoning: &[("<think:opensource>", "</think:opensource>")],
    ..Format::PLAIN
};

const PAIRS: Pairs =
    Pairs { key: ("<arg_key:opensource>", "</arg_key:opensource>"), value: ("<arg_value:opensource>", "</arg_value:opensource>") };

fn read(text: &str, tools: &Tools) -> Result<Vec<Call>, Flaw> {
    each(text, BEGIN, |rest| {
        let name = json::name(before(rest, NAMED).ok_or(Flaw::Cut)?.trim())?;
        let arguments = PAIRS.arguments(before(rest, END).ok_or(Flaw::Cut)?, &name, tools)?;
        Ok(Call { name, id: None, arguments })
    })
}
