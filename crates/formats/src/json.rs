//! JSON of a model's folder, read strictly: one value, an object, no key twice.

use crate::{Error, Result};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::{borrow::Cow, fmt, path::Path};

/// Parses `text` as an object. Python's `NaN`, `Infinity` and `-Infinity`, which some `config.json` hold, become strings of that name.
pub(crate) fn object(path: &Path, text: &str) -> Result<Map<String, Value>> {
    let text = quote_non_finite(text);
    let mut de = serde_json::Deserializer::from_str(&text);
    let value = Strict.deserialize(&mut de).and_then(|v| de.end().map(|()| v)).map_err(|e| not_json(path, &text, e))?;
    match value {
        Value::Object(map) => Ok(map),
        _ => Err(Error::invalid(path, "should hold a JSON object")),
    }
}

/// An error of serde_json, or what the file is in truth.
pub(crate) fn not_json(path: &Path, text: &str, error: serde_json::Error) -> Error {
    match crate::probe::mistaken(text.as_bytes()) {
        Some(what) => Error::invalid(path, what),
        None => Error::invalid(path, format!("JSON: {error}")),
    }
}

/// Puts quotes around the non-finite numbers that Python's json module writes; text inside strings stays as it is.
fn quote_non_finite(text: &str) -> Cow<'_, str> {
    const WORDS: [&str; 3] = ["-Infinity", "Infinity", "NaN"];
    if !WORDS[1..].iter().any(|w| text.contains(w)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 32);
    let (mut rest, mut in_string) = (text, false);
    while let Some(c) = rest.chars().next() {
        if in_string && c == '\\' {
            let n = 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
            out.push_str(&rest[..n]);
            rest = &rest[n..];
            continue;
        }
        if c == '"' {
            in_string = !in_string;
        } else if !in_string && let Some(word) = WORDS.iter().find(|w| rest.starts_with(**w)) {
            out.push('"');
            out.push_str(word);
            out.push('"');
            rest = &rest[word.len()..];
            continue;
        }
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    Cow::Owned(out)
}

/// Builds a [`Value`], refusing a key that an object has twice (serde_json alone keeps the last).
struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, de: D) -> Result<Value, D::Error> {
        de.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(v.into())
    }
    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(v.into())
    }
    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(v.into())
    }
    fn visit_f64<E>(self, v: f64) -> Result<Value, E> {
        Ok(Number::from_f64(v).map_or(Value::Null, Value::Number))
    }
    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(v.into())
    }
    fn visit_string<E>(self, v: String) -> Result<Value, E> {
        Ok(v.into())
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut out = Vec::new();
        while let Some(v) = seq.next_element_seed(Strict)? {
            out.push(v);
        }
        Ok(out.into())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut out = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if out.contains_key(&key) {
                return Err(A::Error::custom(format_args!("key {} appears twice in one object", crate::bytes::quote(key.as_bytes()))));
            }
            let value = map.next_value_seed(Strict)?;
            out.insert(key, value);
        }
        Ok(out.into())
    }
}
