//! JSON of model files, read strictly: one value, no key twice, and nothing built that a limit does not bound.

use crate::{Error, Result, bytes::quote};
use serde::{
    Deserialize,
    de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};
use std::{borrow::Cow, collections::HashSet, fmt, path::Path};

/// The most bytes of a file that is built as a tree of values; each of its bytes may take 16 in memory. Known `config.json` have up to 200 kB.
const TREE_LIMIT: usize = 4 << 20;
/// The most bytes of one string.
const STRING_LIMIT: usize = 4 << 20;

/// Parses `text` as an object. Python's `NaN`, `Infinity` and `-Infinity`, which some `config.json` hold, become strings of that name.
pub(crate) fn object(path: &Path, text: &str) -> Result<Map<String, Value>> {
    if text.len() > TREE_LIMIT {
        return Err(Error::invalid(path, format!("has {} bytes; the limit is {TREE_LIMIT}", text.len())));
    }
    let text = quote_non_finite(text);
    let mut de = serde_json::Deserializer::from_str(&text);
    let value = Strict.deserialize(&mut de).and_then(|v| de.end().map(|()| v)).map_err(|e| not_json(path, &text, e))?;
    match value {
        Value::Object(map) => Ok(map),
        _ => Err(Error::invalid(path, "should hold a JSON object")),
    }
}

/// Parses `text` as a `T`, which does not build more than its own limits allow.
pub(crate) fn typed<'a, T: Deserialize<'a>>(path: &Path, text: &'a str) -> Result<T> {
    long_string(path, text)?;
    serde_json::from_str(text).map_err(|e| not_json(path, text, e))
}

/// An error of serde_json, or what the file is in truth.
fn not_json(path: &Path, text: &str, error: serde_json::Error) -> Error {
    if let Some(what) = crate::probe::mistaken(text.as_bytes()) {
        return Error::invalid(path, what);
    }
    // The message may hold a whole string of the file.
    let message = error.to_string();
    let mut short: String = message.chars().take(300).collect();
    if short.len() < message.len() {
        short.push('…');
    }
    Error::invalid(path, format!("JSON: {short}"))
}

/// Refuses a string literal above [`STRING_LIMIT`]: messages of serde_json quote what they did not expect.
fn long_string(path: &Path, text: &str) -> Result<()> {
    let mut quotes = text.bytes().enumerate().filter(|(_, b)| *b == b'"').map(|(i, _)| i);
    let mut last = 0;
    // Whatever lies between two quotation marks is at least as long as a string without escaped ones.
    let long = quotes.any(|at| at - std::mem::replace(&mut last, at) > STRING_LIMIT) || text.len() - last > STRING_LIMIT;
    match long {
        true => {
            Err(Error::invalid(path, format!("JSON: more than {STRING_LIMIT} bytes without a quotation mark; strings may not be so long")))
        }
        false => Ok(()),
    }
}

/// An object whose values are strings, as `__metadata__` and `weight_map` are, in order; at most `MOST` of them.
pub(crate) struct Pairs<'a, const MOST: usize>(pub(crate) Vec<(Cow<'a, str>, Cow<'a, str>)>);

/// A string, borrowed where it has no escapes.
#[derive(Deserialize)]
pub(crate) struct Text<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

impl<'de, const MOST: usize> Deserialize<'de> for Pairs<'de, MOST> {
    fn deserialize<D: Deserializer<'de>>(de: D) -> Result<Self, D::Error> {
        struct PairsVisitor<const MOST: usize>;
        impl<'de, const MOST: usize> Visitor<'de> for PairsVisitor<MOST> {
            type Value = Pairs<'de, MOST>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of strings")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<'de, MOST>, A::Error> {
                let mut pairs = Vec::new();
                let mut names = HashSet::new();
                while let Some((Text(name), Text(value))) = map.next_entry()? {
                    if pairs.len() == MOST {
                        return Err(A::Error::custom(format_args!("more than {MOST} keys in one object")));
                    }
                    if !names.insert(name.clone()) {
                        return Err(twice(&name));
                    }
                    pairs.push((name, value));
                }
                Ok(Pairs(pairs))
            }
        }
        de.deserialize_map(PairsVisitor::<MOST>)
    }
}

/// The error of a key that an object has twice.
pub(crate) fn twice<E: serde::de::Error>(key: &str) -> E {
    E::custom(format_args!("key {} appears twice in one object", quote(key.as_bytes())))
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
                return Err(twice(&key));
            }
            let value = map.next_value_seed(Strict)?;
            out.insert(key, value);
        }
        Ok(out.into())
    }
}
