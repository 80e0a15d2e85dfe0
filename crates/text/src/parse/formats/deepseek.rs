//! `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>...<｜tool▁call▁end｜><｜tool▁calls▁end｜>`: DeepSeek V3, R1, V3.1.
//!
//! In a call, V3 and R1 write its type, the mark between, the name and the arguments in a fence of Markdown; V3.1 writes the name,
//! the mark between, and the arguments.

use super::super::{Block, Call, Close, Flaw, Format, Open, Tools, json, tagged::before};

const BEGIN: &str = "<｜tool▁call▁begin｜>";
const END: &str = "<｜tool▁call▁end｜>";
const BETWEEN: &str = "<｜tool▁sep｜>";

pub(super) static FORMAT: Format = Format {
    name: "deepseek",
    detect: |template| template.contains("<｜tool▁calls▁begin｜>"),
    blocks: &[Block { open: Open::Mark("<｜tool▁calls▁begin｜>"), close: Close::Marks(&["<｜tool▁calls▁end｜>"]), read }],
    silent: &[],
    within: &[BEGIN, END, BETWEEN],
    reasoning: &[],
};

fn read(text: &str, _: &Tools) -> Result<Vec<Call>, Flaw> {
    let (mut rest, mut calls) = (text.trim(), Vec::new());
    while !rest.is_empty() {
        rest = rest.strip_prefix(BEGIN).ok_or(Flaw::Malformed)?;
        let head = before(&mut rest, BETWEEN).ok_or(Flaw::Cut)?.trim();
        let body = before(&mut rest, END).ok_or(Flaw::Cut)?.trim();
        let (name, arguments) = match body.split_once("```json") {
            Some((name, fenced)) if !body.starts_with('{') => (name.trim(), fenced.trim_end().strip_suffix("```").ok_or(Flaw::Cut)?),
            _ => (head, body),
        };
        if !json::is_name(name) {
            return Err(Flaw::Malformed);
        }
        calls.push(Call { name: name.to_owned(), id: None, arguments: json::object(arguments)? });
        rest = rest.trim_start();
    }
    if calls.is_empty() { Err(Flaw::Malformed) } else { Ok(calls) }
}
