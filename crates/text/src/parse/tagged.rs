//! Calls that are written with tags: a function's name and, one by one, its parameters.

use super::{Begun, Call, Flaw, Tools, json};
use serde_json::Value;

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
        let mut begun = Vec::new();
        self.read(text, tools, &mut begun)?;
        let call = |Begun { name, arguments, .. }| Call { name, id: None, arguments: arguments.into_iter().collect() };
        if begun.is_empty() { Err(Flaw::Malformed) } else { Ok(begun.into_iter().map(call).collect()) }
    }

    /// The calls in a text that may end anywhere.
    pub(super) fn begun(&self, text: &str, tools: &Tools) -> Vec<Begun> {
        let mut begun = Vec::new();
        // What is wrong, or not there yet, is seen when the block is complete.
        let _ = self.read(text, tools, &mut begun);
        begun
    }

    fn read(&self, text: &str, tools: &Tools, out: &mut Vec<Begun>) -> Result<(), Flaw> {
        let mut rest = text.trim();
        while !rest.is_empty() {
            rest = rest.strip_prefix(self.function.open).ok_or(Flaw::Malformed)?;
            let name = json::name(attributes(before(&mut rest, self.function.named).ok_or(Flaw::Cut)?).0)?;
            out.push(Begun { name, arguments: Vec::new(), is_complete: false });
            let Some(call) = out.last_mut() else { continue };
            loop {
                rest = rest.trim_start();
                if let Some(after) = rest.strip_prefix(self.function.close) {
                    rest = after.trim_start();
                    call.is_complete = true;
                    break;
                }
                rest = rest.strip_prefix(self.parameter.open).ok_or(if rest.is_empty() { Flaw::Cut } else { Flaw::Malformed })?;
                let head = before(&mut rest, self.parameter.named).ok_or(Flaw::Cut)?;
                let value = (self.value)(before(&mut rest, self.parameter.close).ok_or(Flaw::Cut)?);
                // Some say the type, where the schema need not.
                let (key, more) = attributes(head);
                let is_string = [" string=\"true\"", " type=\"string\""].contains(&more);
                let value = if is_string { value.into() } else { tools.typed(&call.name, key, value) };
                call.arguments.push((key.to_owned(), value));
            }
        }
        Ok(())
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
    /// The arguments of a function, and nothing but space around them. What was read before a flaw is in `out` as well.
    pub(super) fn read(&self, text: &str, function: &str, tools: &Tools, out: &mut Vec<(String, Value)>) -> Result<(), Flaw> {
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            rest = rest.strip_prefix(self.key.0).ok_or(Flaw::Malformed)?;
            let key = before(&mut rest, self.key.1).ok_or(Flaw::Cut)?.trim();
            rest = rest.trim_start();
            rest = rest.strip_prefix(self.value.0).ok_or(if rest.is_empty() { Flaw::Cut } else { Flaw::Malformed })?;
            let value = before(&mut rest, self.value.1).ok_or(Flaw::Cut)?;
            out.push((key.to_owned(), tools.typed(function, key, value)));
            rest = rest.trim_start();
        }
        Ok(())
    }

    pub(super) fn call(&self, name: String, text: &str, tools: &Tools) -> Result<Call, Flaw> {
        let mut arguments = Vec::new();
        self.read(text, &name, tools, &mut arguments)?;
        Ok(Call { name, id: None, arguments: arguments.into_iter().collect() })
    }

    /// A call in a text that may end anywhere.
    pub(super) fn begun(&self, name: String, text: &str, tools: &Tools) -> Begun {
        let mut arguments = Vec::new();
        let _ = self.read(text, &name, tools, &mut arguments);
        Begun { name, arguments, is_complete: false }
    }
}
