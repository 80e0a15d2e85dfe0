//! Reads a request's JSON within bounds, and takes its fields one by one so that none is overlooked.

use crate::error::ApiError;
use crate::options::Limits;
use serde_json::{Map, Value};
use std::fmt::Display;
use std::ops::RangeInclusive;

/// The object that a body holds.
///
/// The text is measured before anything is built from it: a value costs some 32 bytes of memory but as little as 2 bytes of
/// text, so a bound on the body alone would not do.
pub(crate) fn object(body: &[u8], limits: &Limits) -> Result<Fields, ApiError> {
    measure(body, limits)?;
    let text = std::str::from_utf8(body)
        .map_err(|e| ApiError::bad_request(format!("The body is not UTF-8: byte {} is wrong", e.valid_up_to())))?;
    let parsed: Result<Object, _> = serde_json::from_str(text);
    match parsed {
        Ok(Object(fields)) => Ok(Fields { fields }),
        Err(error) => Err(ApiError::bad_request(format!("The body is not the JSON object that was expected: {error}"))),
    }
}

/// Counts what the text would become, without building it. Wrong JSON passes; the parser will say so.
fn measure(body: &[u8], limits: &Limits) -> Result<(), ApiError> {
    let (mut values, mut depth, mut in_string, mut escaped) = (1usize, 0usize, false, false);
    for byte in body {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => {
                depth += 1;
                values += 1;
                if depth > limits.depth {
                    return Err(ApiError::bad_request(format!("The body's JSON is nested more than {} levels deep", limits.depth)));
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' => values += 1,
            _ => {}
        }
    }
    if values > limits.values {
        return Err(ApiError::too_large(format!("The body's JSON has {values} values; {} are allowed", limits.values)));
    }
    Ok(())
}

/// An object in which no member comes twice (at its top; within, the last one counts).
struct Object(Map<String, Value>);

impl<'de> serde::Deserialize<'de> for Object {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Object;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut access: A) -> Result<Object, A::Error> {
                let mut fields = Map::new();
                while let Some((name, value)) = access.next_entry::<String, Value>()? {
                    if fields.contains_key(&name) {
                        return Err(serde::de::Error::custom(format_args!("the member `{name}` comes twice")));
                    }
                    fields.insert(name, value);
                }
                Ok(Object(fields))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

/// The fields of a request that are not yet taken. `null` counts as absent everywhere, as OpenAI's API has it.
#[derive(Debug)]
pub(crate) struct Fields {
    fields: Map<String, Value>,
}

impl Fields {
    /// Takes a field of any type.
    pub(crate) fn value(&mut self, name: &str) -> Option<Value> {
        // From this the list of all parameters is made (`tests/parameters.rs`).
        tracing::trace!(target: "onebit_server::fields", name, "looked for");
        // `shift_remove` would keep the order of the rest, in quadratic time over many fields.
        self.fields.swap_remove(name).filter(|v| !v.is_null())
    }

    /// Looks at a field without taking it.
    pub(crate) fn peek(&self, name: &str) -> Option<&Value> {
        self.fields.get(name).filter(|v| !v.is_null())
    }

    /// Puts a field there, in place of what has its name.
    pub(crate) fn put(&mut self, name: &str, value: Value) {
        self.fields.insert(name.to_owned(), value);
    }

    /// Takes a boolean.
    pub(crate) fn boolean(&mut self, name: &str) -> Result<Option<bool>, ApiError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Bool(b)) => Ok(Some(b)),
            Some(other) => Err(wrong_type(name, "a boolean", &other)),
        }
    }

    /// Takes a string.
    pub(crate) fn string(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(s)) => Ok(Some(s)),
            Some(other) => Err(wrong_type(name, "a string", &other)),
        }
    }

    /// Takes a number within `range`.
    pub(crate) fn number(&mut self, name: &str, range: RangeInclusive<f32>) -> Result<Option<f32>, ApiError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let number = value.as_f64().ok_or_else(|| wrong_type(name, "a number", &value))? as f32;
        if !range.contains(&number) {
            return Err(out_of_range(name, &value, range.start(), range.end()));
        }
        Ok(Some(number))
    }

    /// Takes an integer within `range`. `3.0` is one.
    pub(crate) fn integer(&mut self, name: &str, range: RangeInclusive<i64>) -> Result<Option<i64>, ApiError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let integer = as_integer(&value).ok_or_else(|| wrong_type(name, "an integer", &value))?;
        match i64::try_from(integer) {
            Ok(i) if range.contains(&i) => Ok(Some(i)),
            _ => Err(out_of_range(name, &value, range.start(), range.end())),
        }
    }

    /// Takes fields that change nothing in the answer.
    pub(crate) fn pass_over(&mut self, names: &[&str]) {
        for name in names {
            if let Some(value) = self.value(name) {
                tracing::debug!(name, kind = kind_of(&value), "passed over a field that does not change the answer");
            }
        }
    }

    /// Takes a field of which only some values are supported; any other is refused with `why`.
    pub(crate) fn only(&mut self, name: &str, allowed: impl Fn(&Value) -> bool, why: &str) -> Result<(), ApiError> {
        match self.value(name) {
            Some(value) if !allowed(&value) => Err(ApiError::unsupported(name, format!("`{name}` is not supported: {why}"))),
            _ => Ok(()),
        }
    }

    /// Refuses what is left.
    pub(crate) fn finish(self) -> Result<(), ApiError> {
        match self.fields.into_iter().find(|(_, value)| !value.is_null()) {
            None => Ok(()),
            Some((name, _)) => {
                let name = shorten(&name);
                Err(ApiError::bad_request(format!("Unrecognized request argument supplied: {name}")).of(name).coded("unknown_parameter"))
            }
        }
    }
}

/// The integer that a JSON number is, be it written `3` or `3.0`.
pub(crate) fn as_integer(value: &Value) -> Option<i128> {
    match value {
        Value::Number(n) => {
            let whole = n.as_i64().map(i128::from).or_else(|| n.as_u64().map(i128::from));
            // Within 2^53 every whole f64 is exact; what lies beyond is out of every range anyway.
            whole.or_else(|| n.as_f64().filter(|f| f.fract() == 0.0).map(|f| f.clamp(-1e30, 1e30) as i128))
        }
        _ => None,
    }
}

/// A value's type, as JSON calls it.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// 400 for a value of the wrong type.
pub(crate) fn wrong_type(param: &str, expected: &str, found: &Value) -> ApiError {
    let message = format!("Invalid type for `{param}`: expected {expected}, but got {} instead", kind_of(found));
    ApiError::bad_request(message).of(param).coded("invalid_type")
}

/// 400 for a number outside its range.
pub(crate) fn out_of_range(param: &str, found: &Value, low: impl Display, high: impl Display) -> ApiError {
    ApiError::invalid(param, format!("Invalid value for `{param}`: {found} is not within {low} and {high}"))
}

/// 400 for more entries than allowed.
pub(crate) fn too_many(param: &str, found: usize, limit: usize) -> ApiError {
    ApiError::invalid(param, format!("`{param}` has {found} entries; {limit} are allowed"))
}

/// At most 64 characters of what a client sent, for a message.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(64) {
        None => text.to_string(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(text: &str) -> Result<Fields, ApiError> {
        object(text.as_bytes(), &Limits { values: 20, depth: 4, ..Limits::default() })
    }

    #[test]
    fn refuses_what_is_not_one_object() {
        for (text, part) in [
            ("", "line 1 column 0"),
            ("nul", "line 1"),
            ("[1]", "expected an object"),
            ("{\"a\":\n 1,}", "line 2 column 4"),
            ("{\"a\":NaN}", "column 6"),
            ("{\"a\":1e999}", "number out of range"),
            ("{\"a\":1} {}", "trailing characters"),
            ("{\"a\":1,\"b\":2,\"a\":3}", "`a` comes twice"),
            ("{\"a\":[[[[1]]]]}", "4 levels"),
            ("{\"a\":\"\\ud800\"}", "hex escape"),
            ("{\"a\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]}", "20 are allowed"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.message.contains(part), "{text}: {}", error.message);
        }
        assert!(object(b"{\"a\":\"\xff\"}", &Limits::default()).expect_err("bytes").message.contains("byte 6"));
    }

    #[test]
    fn brackets_in_strings_do_not_count() {
        let text = format!("{{\"a\":\"{}\\\"[[[\"}}", "[,{".repeat(1000));
        assert!(parse(&text).is_ok());
    }

    #[test]
    fn takes_typed_fields() {
        let mut f = parse(r#"{"a":true,"b":"x","c":0.5,"d":3.0,"e":null,"f":[1]}"#).expect("valid");
        assert_eq!(f.boolean("a"), Ok(Some(true)));
        assert_eq!(f.string("b"), Ok(Some("x".into())));
        assert_eq!(f.number("c", 0.0..=1.0), Ok(Some(0.5)));
        assert_eq!(f.integer("d", 1..=3), Ok(Some(3)));
        assert_eq!(f.boolean("e"), Ok(None));
        let error = f.finish().expect_err("f is left");
        assert_eq!((error.param.as_deref(), error.code), (Some("f"), Some("unknown_parameter")));
    }

    #[test]
    fn refuses_wrong_types_and_ranges_by_name() {
        for value in [json!("1"), json!([1]), json!({}), json!(true), json!(1.5), json!(0), json!(4), json!(1u64 << 63), json!(1e300)] {
            let mut f = parse(&json!({ "n": value }).to_string()).expect("valid");
            let error = f.integer("n", 1..=3).expect_err("out of range or type");
            assert_eq!(error.param.as_deref(), Some("n"), "{value}");
        }
        let mut f = parse(r#"{"t":1e308}"#).expect("valid");
        assert_eq!(f.number("t", 0.0..=2.0).expect_err("infinite as f32").code, Some("invalid_value"));
    }
}
