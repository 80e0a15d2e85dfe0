//! Calls that are written with tags: a function's name and, one by one, its parameters.

use super::{Call, Flaw, Tools, json};
use serde_json::{Map, Value};

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
    /// What of the text between a parameter's tags is its value.
    pub(super) value: fn(&str) -> &str,
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
            let name = json::name(attributes(before(rest, self.function.named).ok_or(Flaw::Cut)?).0)?;
            let mut arguments = Map::new();
            loop {
                *rest = rest.trim_start();
                if let Some(after) = rest.strip_prefix(self.function.close) {
                    *rest = after;
                    return Ok(Call { name, id: None, arguments });
                }
                *rest = rest.strip_prefix(self.parameter.open).ok_or(if rest.is_empty() { Flaw::Cut } else { Flaw::Malformed })?;
                let head = before(rest, self.parameter.named).ok_or(Flaw::Cut)?;
                let value = (self.value)(before(rest, self.parameter.close).ok_or(Flaw::Cut)?);
                // Some say the type, where the schema need not.
                let (key, more) = attributes(head);
                let is_string = [" string=\"true\"", " type=\"string\""].contains(&more);
                let value = if is_string { value.into() } else { tools.typed(&name, key, value) };
                arguments.insert(key.to_owned(), value);
            }
        })
    }
}

/// The name that a tag begins with, and its further attributes.
fn attributes(text: &str) -> (&str, &str) {
    let text = text.trim();
    text.strip_prefix('"').map_or((text, ""), |quoted| quoted.split_once('"').unwrap_or((quoted, "")))
}

/// A value as it stands.
pub(super) fn plain(text: &str) -> &str {
    text
}

/// A value on lines of its own: a line break before and after it is not part of it.
pub(super) fn on_own_lines(text: &str) -> &str {
    let text = text.strip_prefix('\n').unwrap_or(text);
    text.strip_suffix('\n').unwrap_or(text)
}

/// Keys and values in turn, each between marks of their own.
pub(super) struct Pairs {
    pub(super) key: (&'static str, &'static str),
    pub(super) value: (&'static str, &'static str),
}

impl Pairs {
    /// The arguments of a function, and nothing but space around them.
    pub(super) fn arguments(&self, text: &str, function: &str, tools: &Tools) -> Result<Map<String, Value>, Flaw> {
        let (mut rest, mut arguments) = (text.trim_start(), Map::new());
        while !rest.is_empty() {
            rest = rest.strip_prefix(self.key.0).ok_or(Flaw::Malformed)?;
            let key = before(&mut rest, self.key.1).ok_or(Flaw::Cut)?.trim();
            rest = rest.trim_start();
            rest = rest.strip_prefix(self.value.0).ok_or(if rest.is_empty() { Flaw::Cut } else { Flaw::Malformed })?;
            let value = before(&mut rest, self.value.1).ok_or(Flaw::Cut)?;
            arguments.insert(key.to_owned(), tools.typed(function, key, value));
            rest = rest.trim_start();
        }
        Ok(arguments)
    }
}
