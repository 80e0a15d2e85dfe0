//! Writes a grammar in the notation of Lark.

use super::shape::{Shape, runs};
use super::{Expr, Rules};
use crate::lark::{quoted, regex};
use std::fmt::Write;

/// `rN` are rules, `RN` the same as terminals, `TN` parts of rules that are terminals.
pub(super) fn lark(rules: &Rules, shape: &Shape) -> String {
    let mut writer = Writer { rules, shape, out: String::new(), terminals: Vec::new() };
    let start = writer.part(&Expr::Rule(rules.root));
    let mut whole = format!("start: {start}\n");
    for (i, body) in rules.bodies.iter().enumerate() {
        if writer.has_terminals(&Expr::Rule(i)) {
            let body = writer.terminal(body);
            let _ = writeln!(writer.out, "R{i}: {body}");
        } else {
            let body = writer.part(body);
            let _ = writeln!(writer.out, "r{i}: {body}");
        }
    }
    whole.push_str(&writer.out);
    for (i, text) in writer.terminals.iter().enumerate() {
        let _ = writeln!(whole, "T{i}: {text}");
    }
    whole
}

struct Writer<'a> {
    rules: &'a Rules,
    shape: &'a Shape,
    out: String,
    terminals: Vec<String>,
}

impl Writer<'_> {
    /// Whether what is regular of this is written as terminals.
    fn has_terminals(&self, expr: &Expr) -> bool {
        self.shape.is_regular(expr) && (self.shape.is_predictive || self.shape.is_regular(&Expr::Rule(self.rules.root)))
    }

    /// A part of a rule.
    fn part(&mut self, expr: &Expr) -> String {
        if self.has_terminals(expr) {
            return self.lexeme(expr);
        }
        match expr {
            Expr::Text(text) if text.is_empty() => "\"\"".into(),
            Expr::Text(text) => text.chars().map(|c| quoted(&c.to_string())).collect::<Vec<_>>().join(" "),
            Expr::One(set) => regex(&set.class()),
            Expr::Rule(rule) => format!("r{rule}"),
            Expr::Token(id, is_this) => format!("<[{}{id}]>", if *is_this { "" } else { "^" }),
            Expr::Sequence(list) => {
                let mut parts = Vec::new();
                for (run, _) in runs(list, self.shape) {
                    let items = &list[run];
                    match items {
                        _ if self.has_terminals(&Expr::Sequence(items.to_vec())) => {
                            parts.push(self.lexeme(&Expr::Sequence(items.to_vec())))
                        }
                        items => parts.extend(items.iter().map(|item| self.part(item)).collect::<Vec<_>>()),
                    }
                }
                if parts.is_empty() { "\"\"".into() } else { format!("({})", parts.join(" ")) }
            }
            Expr::Choice(list) => format!("({})", list.iter().map(|item| self.part(item)).collect::<Vec<_>>().join(" | ")),
            Expr::Repeat(_, _, Some(0)) => "\"\"".into(),
            Expr::Repeat(item, least, most) => format!("({}){}", self.part(item), operator(*least, *most)),
        }
    }

    /// A terminal of its own that is not empty, or nothing where it may be empty.
    fn lexeme(&mut self, expr: &Expr) -> String {
        let text = self.terminal(expr);
        self.terminals.push(format!("({text}) & /(?s:.+)/"));
        let name = format!("T{}", self.terminals.len() - 1);
        if self.shape.may_be_empty(expr) { format!("({name})?") } else { name }
    }

    fn terminal(&self, expr: &Expr) -> String {
        match expr {
            Expr::Text(text) => quoted(text),
            Expr::One(set) => regex(&set.class()),
            Expr::Rule(rule) => format!("R{rule}"),
            // Rules with tokens are no terminals.
            Expr::Token(..) => String::new(),
            Expr::Sequence(list) if list.is_empty() => "\"\"".into(),
            Expr::Sequence(list) => format!("({})", list.iter().map(|item| self.terminal(item)).collect::<Vec<_>>().join(" ")),
            Expr::Choice(list) => format!("({})", list.iter().map(|item| self.terminal(item)).collect::<Vec<_>>().join(" | ")),
            Expr::Repeat(_, _, Some(0)) => "\"\"".into(),
            Expr::Repeat(item, least, most) => format!("({}){}", self.terminal(item), operator(*least, *most)),
        }
    }
}

fn operator(least: u32, most: Option<u32>) -> String {
    match (least, most) {
        (0, None) => "*".into(),
        (1, None) => "+".into(),
        (0, Some(1)) => "?".into(),
        (least, None) => format!("{{{least},}}"),
        (least, Some(most)) => format!("{{{least},{most}}}"),
    }
}
