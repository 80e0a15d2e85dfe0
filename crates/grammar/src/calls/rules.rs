//! Rules as they are gathered.

use super::schema::{Schema, TextLimits};
use crate::answer::{Tokens, mark};
use crate::lark::{escaped, quoted, regex};
use crate::source::with_escapes;
use onebit_text::parse::written::{Piece, pieces};
use serde_json::Value;
use std::fmt::Write;

/// Rules in Lark's notation, and what texts need to become some.
pub(super) struct Rules<'a> {
    tokens: Tokens<'a>,
    out: String,
    count: usize,
}

impl<'a> Rules<'a> {
    pub(super) fn new(tokens: Tokens<'a>) -> Self {
        Self { tokens, out: String::from("CALL_SPACE: /[ ]|\\n{1,2}[ ]{0,4}/\n"), count: 0 }
    }

    pub(super) fn finish(self) -> String {
        self.out
    }

    /// A rule of its own; gives its name.
    pub(super) fn rule(&mut self, body: &str) -> String {
        let name = self.name("c");
        self.define(&name, body);
        name
    }

    /// A name for a rule that is defined later, so that it may refer to itself.
    pub(super) fn name(&mut self, prefix: &str) -> String {
        self.count += 1;
        format!("{prefix}_{}", self.count)
    }

    pub(super) fn define(&mut self, name: &str, body: &str) {
        let body = if body.trim().is_empty() { "\"\"" } else { body };
        let _ = writeln!(self.out, "{name}: {body}");
    }

    /// A terminal of its own.
    pub(super) fn terminal(&mut self, body: &str) -> String {
        let name = self.name("C");
        self.define(&name, body);
        name
    }

    /// A JSON value of a part of a schema.
    pub(super) fn json(&mut self, schema: &Schema, part: &Value) -> String {
        let value = with_escapes(schema.stand_alone(part), !schema.strict);
        self.rule(&format!("%json {value}"))
    }

    /// A text with `·`, of which special tokens are tokens.
    pub(super) fn text(&self, text: &str) -> String {
        let mut out = Vec::new();
        for piece in pieces(text) {
            match piece {
                Piece::Text(text) => {
                    let (text, ended) = self.before_end(text);
                    out.push(mark(text, self.tokens.special));
                    if ended {
                        break;
                    }
                }
                Piece::Space => out.push("CALL_SPACE?".into()),
                Piece::Slot(_) => {}
            }
        }
        out.join(" ")
    }

    /// The text before a token that ends answers, and whether there is one: what comes after it is never written.
    fn before_end<'t>(&self, text: &'t str) -> (&'t str, bool) {
        let ends =
            self.tokens.special.iter().filter(|(_, id)| self.tokens.ends.contains(id)).filter_map(|(name, _)| text.find(name.as_str()));
        ends.min().map_or((text, false), |at| (&text[..at], true))
    }

    /// Whether the answer ends within this text.
    pub(super) fn ends_in(&self, text: &str) -> bool {
        self.before_end(text).1
    }

    /// A call, or the rest of one.
    pub(super) fn call(&self, text: &str, name: &str, arguments: &str, id: &str) -> String {
        let named = text.replace("⟨name⟩", name);
        let mut out = Vec::new();
        let mut rest = named.as_str();
        while let Some(at) = ["⟨arguments⟩", "⟨id⟩"].iter().filter_map(|slot| rest.find(slot)).min() {
            out.push(self.text(&rest[..at]));
            match rest[at..].strip_prefix("⟨id⟩") {
                Some(after) => {
                    out.push(regex(id));
                    rest = after;
                }
                None => {
                    out.push(arguments.to_owned());
                    rest = &rest[at + "⟨arguments⟩".len()..];
                }
            }
        }
        out.push(self.text(rest));
        out.join(" ")
    }

    /// A text of which each character counts, written as it is, and the mark that ends it; `forbidden` is not in it.
    pub(super) fn raw(&mut self, limits: &TextLimits, forbidden: &str, close: &str) -> String {
        let mut body = String::from("/(?s:.*)/");
        for limit in &limits.terminals {
            let _ = write!(body, " & {limit}");
        }
        let _ = write!(body, " & ~{}", regex(&format!("(?s:.*){}(?s:.*)", escaped(forbidden))));
        let close = self.text(close);
        match close.split_once('"').filter(|(before, _)| before.is_empty()).and_then(|(_, rest)| literal(rest)) {
            // One lexeme, as the beginning of the mark may be part of the text.
            Some((first, rest)) => {
                let text = self.terminal(&format!("({body}) \"{first}\""));
                format!("{text} {rest}")
            }
            None => {
                let text = self.terminal(&format!("({body}) & /(?s:.+)/"));
                let text = if limits.needs_text { text } else { format!("({text})?") };
                format!("{text} {close}")
            }
        }
    }

    /// Members one after another with `separator` between them, those that are required and those that are not; `more` may follow.
    pub(super) fn members(&mut self, members: &[(String, bool)], separator: &str, more: Option<&str>) -> String {
        let mut rest = more.map_or(String::new(), |more| format!("({separator} {more})*"));
        let mut first = more.map_or(String::new(), |more| format!("({more} {rest})?"));
        for (member, required) in members.iter().rev() {
            let after = self.rule(&rest);
            let here = format!("{member} {after}");
            if *required {
                first = self.rule(&here);
                rest = format!("{separator} {member} {after}");
            } else {
                let later = self.rule(&first);
                first = self.rule(&format!("{here} | {later}"));
                rest = format!("({separator} {member})? {after}");
            }
        }
        first
    }

    /// A literal text that is no mark.
    pub(super) fn plain(text: &str) -> String {
        quoted(text)
    }
}

/// A literal up to its quotation mark, and what follows.
fn literal(text: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some((&text[..at], &text[at + 1..])),
            _ => {}
        }
    }
    None
}
