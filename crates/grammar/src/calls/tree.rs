//! Objects and lists as tags within tags.

use super::rules::Rules;
use super::schema::{Kind, Schema, TextLimits};
use crate::GrammarError;
use serde_json::{Value, json};
use std::collections::HashMap;

/// A rule for the arguments of a function: the tags of its parameters.
pub(super) fn arguments(tag: &str, schema: &Schema, rules: &mut Rules<'_>) -> Result<String, GrammarError> {
    let mut writer = Writer { tag, schema, known: HashMap::new() };
    let members = writer.members(schema.root(), rules)?;
    Ok(rules.rule(&members))
}

struct Writer<'a> {
    tag: &'a str,
    schema: &'a Schema,
    /// The rules of parts that are referred to, by the reference and what closes them.
    known: HashMap<(String, String), String>,
}

impl Writer<'_> {
    fn members(&mut self, part: &Value, rules: &mut Rules<'_>) -> Result<String, GrammarError> {
        let members = self.schema.members(part)?;
        let mut out = Vec::new();
        for (name, part, required) in &members.named {
            if name.is_empty() || name.contains(['<', '>', '/', ' ', '\n', '·', '⟨', '⟩']) {
                return Err(GrammarError::Invalid(format!("the parameter {name:?} has a name that this model cannot write")));
            }
            let element = self.element(name, part, rules)?;
            out.push(if *required { element } else { format!("({element})?") });
        }
        // The end of a tag names its begin, which no rule for any name could hold to.
        Ok(out.join(" "))
    }

    fn element(&mut self, name: &str, part: &Value, rules: &mut Rules<'_>) -> Result<String, GrammarError> {
        let open = rules.text(&[self.tag, name, ">"].concat());
        let content = self.content(part, &[self.tag, "/", name, ">"].concat(), rules)?;
        Ok(rules.rule(&format!("{open} {content}")))
    }

    /// A value and what closes it.
    fn content(&mut self, part: &Value, close: &str, rules: &mut Rules<'_>) -> Result<String, GrammarError> {
        let closed = rules.text(close);
        Ok(match self.schema.kind(part)? {
            Kind::Any => rules.raw(&TextLimits::default(), self.tag, close),
            Kind::Reference(reference) => {
                let key = (reference, close.to_owned());
                if let Some(name) = self.known.get(&key) {
                    return Ok(name.clone());
                }
                let name = rules.name("t");
                self.known.insert(key.clone(), name.clone());
                let body = self.content(self.schema.at(&key.0)?, close, rules)?;
                rules.define(&name, &body);
                name
            }
            Kind::AnyOf(parts) => {
                let all = parts.iter().map(|part| self.content(part, close, rules)).collect::<Result<Vec<_>, _>>()?;
                rules.rule(&all.join(" | "))
            }
            Kind::OneOf(values) => {
                let all = values.iter().map(|value| self.literal(value)).collect::<Result<Vec<_>, _>>()?;
                format!("({}) {closed}", all.join(" | "))
            }
            Kind::Of("string") => {
                let limits = self.schema.text_limits(part)?;
                rules.raw(&limits, self.tag, close)
            }
            Kind::Of("object") => format!("{} {closed}", self.members(part, rules)?),
            Kind::Of("array") => {
                let (items, least, most) = self.schema.items(part)?;
                let item = self.element("item", &items, rules)?;
                format!("({item}){{{least},{}}} {closed}", most.map_or(String::new(), |most| most.to_string()))
            }
            Kind::Of(kind) => {
                let value = match kind {
                    "null" => rules.json(self.schema, &json!({ "type": "null" })),
                    _ => rules.json(self.schema, part),
                };
                format!("{value} {closed}")
            }
        })
    }

    fn literal(&self, value: &Value) -> Result<String, GrammarError> {
        match value {
            Value::String(text) if text.contains(self.tag) => Err(self.schema.unsupported("a string with the mark that ends it")),
            Value::String(text) => Ok(Rules::plain(text)),
            Value::Array(_) | Value::Object(_) => Err(self.schema.unsupported("a list or an object among the values of `enum`")),
            other => Ok(Rules::plain(&other.to_string())),
        }
    }
}
