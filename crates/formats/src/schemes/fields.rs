//! Settings of a scheme, as `config.json` holds them.

use crate::{Error, Result};
use serde_json::{Map, Value};
use std::path::Path;

/// An object of `config.json`, with its path for messages.
#[derive(Clone)]
pub(super) struct Fields<'a> {
    path: &'a Path,
    at: String,
    object: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// The object `value` that stands under `at` in the file `path`.
    pub(super) fn new(path: &'a Path, at: &str, value: &'a Value) -> Result<Self> {
        match value.as_object() {
            Some(object) => Ok(Self { path, at: at.into(), object }),
            None => Err(Error::invalid(path, format!("`{at}` is {}, but should be an object", shown(value)))),
        }
    }
    /// An error about the field `key`.
    pub(super) fn wrong(&self, key: &str, what: &str) -> Error {
        Error::invalid(self.path, format!("`{}.{key}` {what}", self.at))
    }
    fn get(&self, key: &str) -> Option<&'a Value> {
        self.object.get(key).filter(|v| !v.is_null())
    }
    /// Whether the field is there, and not null.
    pub(super) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }
    /// A string.
    pub(super) fn text(&self, key: &str) -> Result<Option<&'a str>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| self.wrong(key, &format!("is {}, but should be a string", shown(value))))
    }
    /// A string out of `known`; `default` where there is none.
    pub(super) fn word(&self, key: &str, known: &[&'static str], default: &'static str) -> Result<&'static str> {
        let Some(word) = self.text(key)? else { return Ok(default) };
        match known.iter().find(|k| k.eq_ignore_ascii_case(word)) {
            Some(word) => Ok(word),
            None => Err(self.wrong(key, &format!("is `{}`, which is not known; known are {}", short(word), known.join(", ")))),
        }
    }
    /// A truth value.
    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.wrong(key, &format!("is {}, but should be true or false", shown(value))))
    }
    /// A whole number.
    pub(super) fn number(&self, key: &str) -> Result<Option<i64>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_i64().map(Some).ok_or_else(|| self.wrong(key, &format!("is {}, but should be a whole number", shown(value))))
    }
    /// A whole number out of `known`.
    pub(super) fn bits(&self, key: &str, known: &[u32]) -> Result<u32> {
        let Some(n) = self.number(key)? else { return Err(self.wrong(key, "is missing")) };
        known.iter().copied().find(|k| i64::from(*k) == n).ok_or_else(|| {
            let known: Vec<String> = known.iter().map(u32::to_string).collect();
            self.wrong(key, &format!("is {n}; known are {}", known.join(", ")))
        })
    }
    /// The size of a group, where -1 stands for the whole row: `None`.
    pub(super) fn group(&self, key: &str) -> Result<Option<usize>> {
        match self.number(key)? {
            None => Err(self.wrong(key, "is missing")),
            Some(-1) => Ok(None),
            Some(n) if (1..=1 << 24).contains(&n) => Ok(Some(n as usize)),
            Some(n) => Err(self.wrong(key, &format!("is {n}; -1 and from 1 to {} are allowed", 1 << 24))),
        }
    }
    /// Two positive numbers, such as the sides of a block.
    pub(super) fn pair(&self, key: &str) -> Result<Option<[usize; 2]>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let numbers: Option<Vec<usize>> = value
            .as_array()
            .map(|a| a.iter().filter_map(Value::as_u64).filter(|n| (1..=1 << 24).contains(n)).map(|n| n as usize).collect());
        match (numbers.as_deref(), value.as_array().map(Vec::len)) {
            (Some(&[a, b]), Some(2)) => Ok(Some([a, b])),
            _ => Err(self.wrong(key, &format!("is {}, but should be two positive numbers", shown(value)))),
        }
    }
    /// An object.
    pub(super) fn object(&self, key: &str) -> Result<Option<Fields<'a>>> {
        self.get(key).map(|value| Fields::new(self.path, &format!("{}.{key}", self.at), value)).transpose()
    }
    /// Keys, in order.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.object.keys().map(String::as_str)
    }
    /// Refuses what would change the meaning of the weights: anything but null, false, and what is empty.
    pub(super) fn nothing(&self, key: &str) -> Result<()> {
        let empty = |v: &Value| match v {
            Value::Bool(b) => !b,
            Value::String(s) => s.is_empty(),
            Value::Array(a) => a.is_empty(),
            Value::Object(o) => o.is_empty(),
            _ => false,
        };
        match self.get(key).filter(|v| !empty(v)) {
            None => Ok(()),
            Some(value) => Err(self.wrong(key, &format!("is {}, which is not known how to read", shown(value)))),
        }
    }
    /// Whether the field is there with something in it.
    pub(super) fn filled(&self, key: &str) -> bool {
        self.nothing(key).is_err()
    }
}

/// A text, shortened for messages.
pub(super) fn short(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into(),
    }
}

fn shown(value: &Value) -> String {
    short(&value.to_string())
}
