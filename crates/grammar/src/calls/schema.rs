//! What of a JSON Schema is read for values that are not written as JSON.

use crate::GrammarError;
use crate::lark::regex;
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// A schema with the definitions that its parts refer to.
pub(super) struct Schema {
    root: Value,
    /// What cannot be enforced is refused.
    pub(super) strict: bool,
}

/// Keywords that say nothing about values.
const SILENT: &[&str] = &[
    "title",
    "description",
    "default",
    "examples",
    "example",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$comment",
    "$schema",
    "$id",
    "$defs",
    "definitions",
    "x-guidance",
];

/// What a part of a schema allows.
#[derive(Debug, PartialEq)]
pub(super) enum Kind {
    /// Anything.
    Any,
    /// One of these values.
    OneOf(Vec<Value>),
    /// What one of these parts allows.
    AnyOf(Vec<Value>),
    /// What another part, by its pointer, allows.
    Reference(String),
    /// A value of one type.
    Of(&'static str),
}

const TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "null", "array", "object"];

impl Schema {
    pub(super) fn new(root: &Value, strict: bool) -> Self {
        Self { root: root.clone(), strict }
    }

    pub(super) fn root(&self) -> &Value {
        &self.root
    }

    /// A part as a schema of its own, with what it may refer to.
    pub(super) fn stand_alone(&self, part: &Value) -> Value {
        let mut part = part.clone();
        if let (Value::Object(part), Value::Object(root)) = (&mut part, &self.root) {
            for name in ["$defs", "definitions"] {
                if let Some(definitions) = root.get(name) {
                    part.entry(name).or_insert(definitions.clone());
                }
            }
        }
        part
    }

    /// The part at a reference within the schema.
    pub(super) fn at(&self, reference: &str) -> Result<&Value, GrammarError> {
        let pointer = reference.strip_prefix('#').filter(|rest| rest.is_empty() || rest.starts_with('/'));
        pointer
            .and_then(|pointer| self.root.pointer(pointer))
            .ok_or_else(|| GrammarError::Invalid(format!("`$ref` to `{reference}`: there is no such part of the schema")))
    }

    /// As [`at`](Self::at), over references that lead to others.
    pub(super) fn resolved<'a>(&'a self, part: &'a Value) -> Result<&'a Value, GrammarError> {
        let (mut part, mut seen) = (part, HashSet::new());
        while let Some(reference) = part.get("$ref").and_then(Value::as_str) {
            if !seen.insert(reference) {
                return Err(GrammarError::Invalid(format!("`$ref` to `{reference}` leads to itself")));
            }
            part = self.at(reference)?;
        }
        Ok(part)
    }

    /// What a part allows; keywords that only narrow values of a type are the caller's.
    pub(super) fn kind(&self, part: &Value) -> Result<Kind, GrammarError> {
        let map = match part {
            Value::Bool(true) => return Ok(Kind::Any),
            Value::Object(map) => map,
            _ => return Err(self.unsupported("a part that allows nothing")),
        };
        if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
            self.only(map, &["$ref"])?;
            return Ok(Kind::Reference(reference.to_owned()));
        }
        if let Some(value) = map.get("const") {
            return Ok(Kind::OneOf(vec![value.clone()]));
        }
        if let Some(Value::Array(values)) = map.get("enum") {
            let allowed = values.iter().filter(|value| map.get("type").is_none_or(|types| is_of(value, types)));
            return Ok(Kind::OneOf(allowed.cloned().collect()));
        }
        for name in ["anyOf", "oneOf"] {
            if let Some(Value::Array(parts)) = map.get(name) {
                self.only(map, &[name, "type"])?;
                if name == "oneOf" && self.strict && !self.are_apart(parts) {
                    return Err(GrammarError::Invalid("`oneOf` whose parts may both hold cannot be enforced: use `anyOf`".into()));
                }
                return Ok(Kind::AnyOf(parts.clone()));
            }
        }
        if let Some(Value::Array(parts)) = map.get("allOf") {
            self.only(map, &["allOf", "type"])?;
            match &parts[..] {
                [one] => return self.kind(one),
                _ if self.strict => return Err(self.unsupported("allOf")),
                _ => return Ok(Kind::Any),
            }
        }
        match map.get("type") {
            Some(Value::String(name)) => TYPES
                .iter()
                .find(|known| *known == name)
                .map(|known| Kind::Of(known))
                .ok_or_else(|| GrammarError::Invalid(format!("`type` is `{name}`; it must be one of {}", TYPES.join(", ")))),
            Some(Value::Array(names)) => {
                let alone = |name: &Value| {
                    let mut one = map.clone();
                    one.insert("type".into(), name.clone());
                    Value::Object(one)
                };
                Ok(Kind::AnyOf(names.iter().map(alone).collect()))
            }
            _ if map.contains_key("properties") => Ok(Kind::Of("object")),
            _ if map.contains_key("items") => Ok(Kind::Of("array")),
            _ => {
                self.only(map, &[])?;
                Ok(Kind::Any)
            }
        }
    }

    /// Whether no value is of two of these parts, as far as their types tell.
    fn are_apart(&self, parts: &[Value]) -> bool {
        let mut seen = HashSet::new();
        parts.iter().all(|part| {
            let kind = self.resolved(part).ok().and_then(|part| self.kind(part).ok());
            matches!(kind, Some(Kind::Of(name)) if seen.insert(if name == "integer" { "number" } else { name }))
        })
    }

    /// Refuses keywords that are not enforced, if they must be.
    pub(super) fn only(&self, map: &Map<String, Value>, known: &[&str]) -> Result<(), GrammarError> {
        let unknown = map.keys().find(|name| !SILENT.contains(&name.as_str()) && !known.contains(&name.as_str()));
        match unknown.filter(|_| self.strict) {
            Some(name) => Err(self.unsupported(name)),
            None => Ok(()),
        }
    }

    pub(super) fn unsupported(&self, keyword: &str) -> GrammarError {
        GrammarError::Invalid(format!("`{keyword}` cannot be enforced in the way in which this model writes calls"))
    }

    /// What narrows a string that is written as it is.
    pub(super) fn text_limits(&self, part: &Value) -> Result<TextLimits, GrammarError> {
        let Value::Object(map) = part else { return Ok(TextLimits::default()) };
        self.only(map, &["type", "minLength", "maxLength", "pattern"])?;
        let mut limits = Vec::new();
        let mut needs_text = false;
        let (least, most) = (number(map, "minLength"), number(map, "maxLength"));
        if least.is_some() || most.is_some() {
            needs_text = least.is_some_and(|least| least > 0);
            let most = most.map_or(String::new(), |most| most.to_string());
            limits.push(regex(&format!("(?s:.{{{},{most}}})", least.unwrap_or(0))));
        }
        if let Some(pattern) = map.get("pattern").and_then(Value::as_str) {
            let (start, end) = (pattern.starts_with('^'), pattern.ends_with('$') && !pattern.ends_with("\\$"));
            if (start || end) && pattern.contains('|') && self.strict {
                return Err(self.unsupported("pattern"));
            }
            let inner = pattern.strip_prefix('^').unwrap_or(pattern);
            let inner = if end { inner.strip_suffix('$').unwrap_or(inner) } else { inner };
            needs_text = true;
            let any = |bound: bool| if bound { "" } else { "(?s:.*)" };
            limits.push(regex(&format!("{}(?:{inner}){}", any(start), any(end))));
        }
        Ok(TextLimits { terminals: limits, needs_text })
    }

    /// The members of an object, in order, with their schemas and whether they are required; and the schema of further members, where
    /// there may be any: there are none beside named ones unless those have no names at all.
    pub(super) fn members(&self, part: &Value) -> Result<Members, GrammarError> {
        let Value::Object(map) = part else { return Ok(Members { named: vec![], more: Some(json!({})) }) };
        self.only(map, &["type", "properties", "required", "additionalProperties"])?;
        let required: HashSet<&str> =
            map.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let properties = map.get("properties").and_then(Value::as_object);
        let named: Vec<(String, Value, bool)> = properties
            .into_iter()
            .flatten()
            .map(|(name, schema)| (name.clone(), schema.clone(), required.contains(name.as_str())))
            .collect();
        if let Some(missing) = required.iter().find(|name| properties.is_none_or(|p| !p.contains_key(**name))) {
            return Err(GrammarError::Invalid(format!("`required` names `{missing}`, which is none of the `properties`")));
        }
        let more = match map.get("additionalProperties") {
            Some(Value::Bool(false)) => None,
            Some(Value::Object(schema)) if named.is_empty() => Some(Value::Object(schema.clone())),
            _ if properties.is_none() => Some(json!({})),
            _ => None,
        };
        Ok(Members { named, more })
    }

    /// The schema of a list's values, and how many there may be.
    pub(super) fn items(&self, part: &Value) -> Result<(Value, u64, Option<u64>), GrammarError> {
        let Value::Object(map) = part else { return Ok((json!({}), 0, None)) };
        self.only(map, &["type", "items", "minItems", "maxItems"])?;
        Ok((map.get("items").cloned().unwrap_or_else(|| json!({})), number(map, "minItems").unwrap_or(0), number(map, "maxItems")))
    }
}

/// What narrows a string.
#[derive(Clone, Default)]
pub(super) struct TextLimits {
    /// Terminals, all of which it has to be.
    pub(super) terminals: Vec<String>,
    /// It is not the empty text; also where a pattern would allow that.
    pub(super) needs_text: bool,
}

/// The members of an object.
pub(super) struct Members {
    pub(super) named: Vec<(String, Value, bool)>,
    pub(super) more: Option<Value>,
}

fn number(map: &Map<String, Value>, name: &str) -> Option<u64> {
    map.get(name).and_then(Value::as_u64)
}

/// Whether a value is of one of these types.
fn is_of(value: &Value, types: &Value) -> bool {
    let is = |name: &str| match value {
        Value::Null => name == "null",
        Value::Bool(_) => name == "boolean",
        Value::Number(n) => name == "number" || (name == "integer" && !n.is_f64()),
        Value::String(_) => name == "string",
        Value::Array(_) => name == "array",
        Value::Object(_) => name == "object",
    };
    match types {
        Value::String(name) => is(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).any(is),
        _ => true,
    }
}
