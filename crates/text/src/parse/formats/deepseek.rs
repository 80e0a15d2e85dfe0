//! `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>...<｜tool▁call▁end｜><｜tool▁calls▁end｜>`: DeepSeek V3, R1, V3.1.
//!
//! In a call, V3 and R1 write its type, the mark between, the name and the arguments in a fence of Markdown; V3.1 writes the name,
//! the mark between, and the arguments.

use super::super::{
    Block, Call, Close, Flaw, Format, Open, Stream, Tools, Written, json,
    tagged::{before, each},
};

const BEGIN: &str = "<｜tool▁call▁begin｜>";
const END: &str = "<｜tool▁call▁end｜>";
const BETWEEN: &str = "<｜tool▁sep｜>";

pub(super) static FORMAT: Format = Format {
    name: "deepseek",
    detect: |template| template.contains("<｜tool▁calls▁begin｜>"),
    blocks: &[Block {
        open: Open::Mark("<｜tool▁calls▁begin｜>"), close: Close::Marks(&["<｜tool▁calls▁end｜>"]), read, stream: STREAM
    }],
    within: &[BEGIN, END, BETWEEN],
    written: &[
        Written {
            when: |template| template.contains("```json"),
            open: "<｜tool▁calls▁begin｜>",
            call: "<｜tool▁call▁begin｜>function<｜tool▁sep｜>⟨name⟩\n```json\n⟨arguments⟩\n```<｜tool▁call▁end｜>",
            close: "<｜tool▁calls▁end｜>",
            ..Written::PLAIN
        },
        Written {
            when: |template| !template.contains("```json"),
            open: "<｜tool▁calls▁begin｜>",
            call: "<｜tool▁call▁begin｜>⟨name⟩<｜tool▁sep｜>⟨arguments⟩<｜tool▁call▁end｜>",
            close: "<｜tool▁calls▁end｜>",
            ..Written::PLAIN
        },
    ],
    ..Format::PLAIN
};
const STREAM: Stream = Stream { head: Some(|text, _| json::head_after(text, name_in)), values: None };

/// The name of the last call that begins in a text.
fn name_in(text: &str) -> Option<(&str, Option<&str>)> {
    let (head, rest) = text.rsplit_once(BEGIN)?.1.split_once(BETWEEN)?;
    let name = rest.trim().strip_suffix("```json").unwrap_or(if rest.trim().is_empty() { head } else { "" });
    Some((name.trim(), None))
}

fn read(text: &str, _: &Tools) -> Result<Vec<Call>, Flaw> {
    each(text, BEGIN, |rest| {
        let head = before(rest, BETWEEN).ok_or(Flaw::Cut)?.trim();
        let body = before(rest, END).ok_or(Flaw::Cut)?.trim();
        let (name, arguments) = match body.split_once("```json") {
            Some((name, fenced)) if !body.starts_with('{') => (name.trim(), fenced.trim_end().strip_suffix("```").ok_or(Flaw::Cut)?),
            _ => (head, body),
        };
        Ok(Call { name: json::name(name)?, id: None, arguments: json::object(arguments)? })
    })
}
