//! Calls that are written with tags: a function's name and, one by one, its parameters.

use super::{Call, Flaw, Tools, json};
use serde_json::Map;

/// Takes what is before `end` off the text.
pub(super) fn before<'a>(text: &mut &'a str, end: &str) -> Option<&'a str> {
    let (first, rest) = text.split_once(end)?;
    *text = rest;
    Some(first)
}

/// Calls one after another, each after `open`, and nothing but space around them. `one` takes a call off the text after its mark.
pub(super) fn each(text: &str, open: &str, mut one: impl FnMut(&mut &str) -> Result<Call, Flaw>) -> Result<Vec<Call>, Flaw> {
    let (mut rest, mut calls) = (text.trim(), Vec::new());
    while !rest.is_empty() {
        rest = rest.strip_prefix(open).ok_or(Flaw::Malformed)?;
        calls.push(one(&mut rest)?);
        rest = rest.trim_start();
    }
    if calls.is_empty() { Err(Flaw::Malformed) } else { Ok(calls) }
}

/// The tags of a format. A name lies between `function` and the mark after it, a value between that and the closing tag.
pub(super) struct Tags {
    pub(super) function: Tag,
    pub(super) parameter: Tag,
    /// One line break before and after a value is not part of it.
    pub(super) own_lines: bool,
}

/// `open`, a name, `named`, what it holds, `close`.
pub(super) struct Tag {
    pub(super) open: &'static str,
    pub(super) named: &'static str,
    pub(super) close: &'static str,
}

impl Tags {
    /// All calls in the text, and nothing but space around them.
    pub(super) fn calls(&self, text: &str, tools: &Tools) -> Result<Vec<Call>, Flaw> {
        each(text, self.function.open, |rest| {
            let name = json::name(unquoted(before(rest, self.function.named).ok_or(Flaw::Cut)?))?;
            let mut arguments = Map::new();
            loop {
                *rest = rest.trim_start();
                if let Some(after) = rest.strip_prefix(self.function.close) {
                    *rest = after;
                    return Ok(Call { name, id: None, arguments });
                }
                *rest = rest.strip_prefix(self.parameter.open).ok_or(if rest.is_empty() { Flaw::Cut } else { Flaw::Malformed })?;
                let head = before(rest, self.parameter.named).ok_or(Flaw::Cut)?;
                let mut value = before(rest, self.parameter.close).ok_or(Flaw::Cut)?;
                if self.own_lines {
                    value = value.strip_prefix('\n').unwrap_or(value);
                    value = value.strip_suffix('\n').unwrap_or(value);
                }
                // `name" string="true` says the type where the schema need not.
                let (key, is_string) = match head.split_once("\" string=\"") {
                    Some((key, is_string)) => (unquoted(key), unquoted(is_string) == "true"),
                    None => (unquoted(head), false),
                };
                let value = if is_string { value.into() } else { tools.typed(&name, key, value) };
                arguments.insert(key.to_owned(), value);
            }
        })
    }
}

fn unquoted(text: &str) -> &str {
    let text = text.trim();
    text.strip_prefix('"').unwrap_or(text).trim_end_matches('"')
}
