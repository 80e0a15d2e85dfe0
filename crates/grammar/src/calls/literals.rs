//! Values that are not quite JSON: Python's literals, Gemma's objects.

use super::rules::Rules;
use super::schema::{Kind, Schema, TextLimits};
use crate::GrammarError;
use crate::lark::{escaped, quoted, regex};
use onebit_text::parse::written::Literals;
use serde_json::{Value, json};
use std::collections::HashMap;

/// Between members.
const COMMA: &str = "\",\" CALL_SPACE?";

/// `key=value`, with commas between.
pub(super) fn keywords(literals: &Literals, schema: &Schema, rules: &mut Rules<'_>) -> Result<String, GrammarError> {
    let members = schema.members(schema.root())?;
    let mut writer = Writer::new(literals, schema);
    let mut entries = Vec::with_capacity(members.named.len());
    for (name, part, required) in &members.named {
        if !is_word(name) {
            return Err(GrammarError::Invalid(format!("the parameter {name:?} has a name that this model cannot write")));
        }
        let value = writer.value(part, rules)?;
        entries.push((format!("{} {value}", quoted(&format!("{name}="))), *required));
    }
    let more = match &members.more {
        None => None,
        Some(part) => Some(format!("/[A-Za-z_][A-Za-z0-9_]{{0,63}}=/ {}", writer.value(part, rules)?)),
    };
    Ok(rules.members(&entries, COMMA, more.as_deref()))
}

/// An object of values.
pub(super) fn object(literals: &Literals, schema: &Schema, rules: &mut Rules<'_>) -> Result<String, GrammarError> {
    let mut writer = Writer::new(literals, schema);
    writer.object(schema.root(), rules)
}

fn is_word(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

/// Writes values in one notation.
pub(super) struct Writer<'a> {
    literals: &'a Literals,
    schema: &'a Schema,
    /// The rules of parts that are referred to, and, under an empty name, of any value.
    known: HashMap<String, String>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(literals: &'a Literals, schema: &'a Schema) -> Self {
        Self { literals, schema, known: HashMap::new() }
    }

    /// A rule for the values that a part of the schema allows.
    pub(super) fn value(&mut self, part: &Value, rules: &mut Rules<'_>) -> Result<String, GrammarError> {
        match self.schema.kind(part)? {
            Kind::Any => self.any(rules),
            Kind::Reference(reference) => {
                if let Some(name) = self.known.get(&reference) {
                    return Ok(name.clone());
                }
                let name = rules.name("v");
                self.known.insert(reference.clone(), name.clone());
                let body = self.value(self.schema.at(&reference)?, rules)?;
                rules.define(&name, &body);
                Ok(name)
            }
            Kind::AnyOf(parts) => {
                let all = parts.iter().map(|part| self.value(part, rules)).collect::<Result<Vec<_>, _>>()?;
                Ok(rules.rule(&all.join(" | ")))
            }
            Kind::OneOf(values) => {
                let all = values.iter().map(|value| self.literal(value, rules)).collect::<Result<Vec<_>, _>>()?;
                Ok(rules.rule(&all.join(" | ")))
            }
            Kind::Of("string") => {
                let limits = self.schema.text_limits(part)?;
                Ok(self.text(&limits, rules))
            }
            Kind::Of("null") => Ok(self.word(0)),
            Kind::Of("boolean") => Ok(format!("({} | {})", self.word(1), self.word(2))),
            Kind::Of("array") => self.list(part, rules),
            Kind::Of("object") => self.object(part, rules),
            Kind::Of(_) => Ok(rules.json(self.schema, part)),
        }
    }

    fn word(&self, which: usize) -> String {
        format!("({})", self.literals.words[which].iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" | "))
    }

    fn any(&mut self, rules: &mut Rules<'_>) -> Result<String, GrammarError> {
        if let Some(name) = self.known.get("") {
            return Ok(name.clone());
        }
        let name = rules.name("v");
        self.known.insert(String::new(), name.clone());
        let mut all = Vec::new();
        for kind in ["string", "number", "boolean", "null", "array", "object"] {
            all.push(self.value(&json!({ "type": kind }), rules)?);
        }
        rules.define(&name, &all.join(" | "));
        Ok(name)
    }

    fn text(&self, limits: &TextLimits, rules: &mut Rules<'_>) -> String {
        let mut all = Vec::new();
        for quote in self.literals.quotes {
            if !self.literals.escapes {
                all.push(format!("{} {}", rules.text(quote), rules.raw(limits, quote, quote)));
                continue;
            }
            let not = escaped(quote);
            let body = if limits.terminals.is_empty() {
                regex(&format!(r#"(?:[^{not}\\]|\\[nrt\\'"])*"#))
            } else {
                // Without escapes what is written is what is meant.
                [regex(&format!(r"[^{not}\\]*"))].iter().chain(&limits.terminals).cloned().collect::<Vec<_>>().join(" & ")
            };
            all.push(rules.terminal(&format!("{} ({body}) {}", quoted(quote), quoted(quote))));
        }
        format!("({})", all.join(" | "))
    }

    fn list(&mut self, part: &Value, rules: &mut Rules<'_>) -> Result<String, GrammarError> {
        let (items, least, most) = self.schema.items(part)?;
        let item = self.value(&items, rules)?;
        let (before, after) = (least.saturating_sub(1), most.map(|most| most.saturating_sub(1)));
        let more = match after {
            None => format!("({COMMA} {item}){{{before},}}"),
            Some(after) => format!("({COMMA} {item}){{{before},{after}}}"),
        };
        let all = match (least, most) {
            (_, Some(0)) => String::new(),
            (0, _) => format!("({item} {more})?"),
            _ => format!("{item} {more}"),
        };
        Ok(rules.rule(&format!("\"[\" {all} \"]\"")))
    }

    pub(super) fn object(&mut self, part: &Value, rules: &mut Rules<'_>) -> Result<String, GrammarError> {
        let mut members = self.schema.members(part)?;
        if self.literals.sorted {
            members.named.sort_by_key(|(name, ..)| name.to_lowercase());
        }
        let mut entries = Vec::with_capacity(members.named.len());
        for (name, part, required) in &members.named {
            let key = self.key(name, rules)?;
            let value = self.value(part, rules)?;
            entries.push((format!("{key} \":\" CALL_SPACE? {value}"), *required));
        }
        let more = match &members.more {
            None => None,
            Some(part) => {
                let key = if self.literals.quoted_keys {
                    self.text(&TextLimits::default(), rules)
                } else {
                    "/[A-Za-z_][A-Za-z0-9_-]{0,63}/".into()
                };
                Some(format!("{key} \":\" CALL_SPACE? {}", self.value(part, rules)?))
            }
        };
        let members = rules.members(&entries, COMMA, more.as_deref());
        Ok(rules.rule(&format!("\"{{\" {members} \"}}\"")))
    }

    fn key(&self, name: &str, rules: &Rules<'_>) -> Result<String, GrammarError> {
        match self.literals.quoted_keys {
            true => self.string(name, rules),
            false if is_word(name) => Ok(quoted(name)),
            false => Err(GrammarError::Invalid(format!("the member {name:?} has a name that this model cannot write"))),
        }
    }

    /// A value as it is written.
    pub(super) fn literal(&self, value: &Value, rules: &Rules<'_>) -> Result<String, GrammarError> {
        Ok(match value {
            Value::Null => self.word(0),
            Value::Bool(true) => self.word(1),
            Value::Bool(false) => self.word(2),
            Value::Number(number) => quoted(&number.to_string()),
            Value::String(text) => self.string(text, rules)?,
            Value::Array(list) => {
                let all = list.iter().map(|value| self.literal(value, rules)).collect::<Result<Vec<_>, _>>()?;
                format!("(\"[\" {} \"]\")", all.join(&format!(" {COMMA} ")))
            }
            Value::Object(map) => {
                let member = |(name, value): (&String, &Value)| {
                    Ok(format!("{} \":\" CALL_SPACE? {}", self.key(name, rules)?, self.literal(value, rules)?))
                };
                let all = map.iter().map(member).collect::<Result<Vec<_>, GrammarError>>()?;
                format!("(\"{{\" {} \"}}\")", all.join(&format!(" {COMMA} ")))
            }
        })
    }

    fn string(&self, text: &str, rules: &Rules<'_>) -> Result<String, GrammarError> {
        let mut all = Vec::new();
        for quote in self.literals.quotes {
            if self.literals.escapes {
                let mut out = String::from(*quote);
                for c in text.chars() {
                    match c {
                        '\n' => out.push_str("\\n"),
                        '\r' => out.push_str("\\r"),
                        '\t' => out.push_str("\\t"),
                        '\\' => out.push_str("\\\\"),
                        c if quote.contains(c) => out.extend(['\\', c]),
                        c => out.push(c),
                    }
                }
                all.push(quoted(&(out + quote)));
            } else if text.contains(quote) {
                return Err(self.schema.unsupported("a string with the mark that ends it"));
            } else {
                let mark = rules.text(quote);
                let text = if text.is_empty() { String::new() } else { quoted(text) };
                all.push(format!("{mark} {text} {mark}"));
            }
        }
        Ok(format!("({})", all.join(" | ")))
    }
}
