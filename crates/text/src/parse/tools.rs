//! The tools of a request, as far as reading their calls needs them.

use super::python;
use serde_json::Value;
use std::collections::HashMap;

/// The tools that a model was offered: names, and the schemas of their parameters.
#[derive(Clone, Debug, Default)]
pub struct Tools(HashMap<String, Value>);

impl Tools {
    /// From OpenAI's `tools`: `[{"type": "function", "function": {"name", "parameters"}}]`, or the functions alone. What does not
    /// look like one is passed over.
    pub fn new(tools: &Value) -> Self {
        let functions = tools.as_array().into_iter().flatten().map(|tool| tool.get("function").unwrap_or(tool));
        let named = functions.filter_map(|function| {
            let parameters = function.get("parameters").cloned().unwrap_or_default();
            Some((function.get("name")?.as_str()?.to_owned(), parameters))
        });
        Self(named.collect())
    }

    /// Whether there is a tool of this name.
    pub fn knows(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// An argument that is written without quotation marks, whatever its type. The schema says what it is; without one it is
    /// what JSON makes of it, or else a string.
    pub(crate) fn typed(&self, function: &str, parameter: &str, text: &str) -> Value {
        Self::typed_by(self.parameters(function).and_then(|schema| schema.get("properties")?.get(parameter)), text)
    }

    /// The schema of a function's parameters.
    pub(crate) fn parameters(&self, function: &str) -> Option<&Value> {
        self.0.get(function)
    }

    /// As [`typed`](Self::typed), by a schema.
    pub(crate) fn typed_by(schema: Option<&Value>, text: &str) -> Value {
        let types = schema.map(types_of).unwrap_or_default();
        let may_be_string = types.contains(&"string");
        if may_be_string && types.len() == 1 {
            return text.into();
        }
        let trimmed = text.trim();
        let value = serde_json::from_str(trimmed).ok().or_else(|| python::value(trimmed).filter(|_| !types.is_empty() && !may_be_string));
        match value {
            // Quotation marks are part of a string that is written without them.
            Some(Value::String(_)) if may_be_string || types.is_empty() => text.into(),
            // A number or word may well be meant as a string, but not where another type is named that it has.
            Some(value) if !may_be_string || types.contains(&kind(&value)) || (kind(&value) == "integer" && types.contains(&"number")) => {
                value
            }
            _ => text.into(),
        }
    }
}

/// The types that a schema allows; none if it does not say.
fn types_of(schema: &Value) -> Vec<&str> {
    let mut types: Vec<&str> = match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => vec![],
    };
    if types.is_empty() {
        let choices = ["anyOf", "oneOf"].iter().filter_map(|name| schema.get(*name)?.as_array()).flatten();
        types.extend(choices.filter_map(|choice| choice.get("type")?.as_str()));
    }
    if types.is_empty() {
        for value in schema.get("enum").and_then(Value::as_array).into_iter().flatten() {
            types.push(kind(value));
        }
    }
    types.sort_unstable();
    types.dedup();
    types
}

/// A value's type, as JSON Schema calls it.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arguments_have_the_types_of_the_schema() {
        let properties = json!({
            "s": { "type": "string" }, "i": { "type": "integer" }, "b": { "type": "boolean" }, "n": { "type": ["string", "null"] },
            "e": { "enum": ["1", "2"] }, "a": { "anyOf": [{ "type": "integer" }, { "type": "string" }] }, "o": { "type": "object" },
        });
        let tools =
            Tools::new(&json!([{ "type": "function", "function": { "name": "f", "parameters": { "properties": properties } } }, 7]));
        for (parameter, text, value) in [
            ("s", "5", json!("5")),
            ("s", " x ", json!(" x ")),
            ("s", "\"q\"", json!("\"q\"")),
            ("i", "5", json!(5)),
            ("i", "many", json!("many")),
            ("b", "True", json!(true)),
            ("n", "null", json!(null)),
            ("n", "5", json!("5")),
            ("e", "1", json!("1")),
            ("a", "1", json!(1)),
            ("a", "x", json!("x")),
            ("o", "{\"k\": [1]}", json!({ "k": [1] })),
            ("o", "{'k': None}", json!({ "k": null })),
            ("unknown", "1.5", json!(1.5)),
            ("unknown", "x y", json!("x y")),
            ("unknown", "\"q\"", json!("\"q\"")),
        ] {
            assert_eq!(tools.typed("f", parameter, text), value, "{parameter} {text}");
        }
        assert!(tools.knows("f") && !tools.knows("g"));
    }
}
