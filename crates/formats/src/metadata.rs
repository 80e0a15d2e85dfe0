//! What a GGUF file says about its model: typed key-value pairs.

use crate::{Error, Result};
use std::{collections::BTreeMap, path::PathBuf};

/// One metadata value.
#[derive(Clone, Debug, PartialEq)]
pub enum Meta {
    /// An unsigned integer of any width.
    Unsigned(u64),
    /// A signed integer of any width.
    Signed(i64),
    /// A float of either width.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A string.
    Text(String),
    /// An array of integers of any width.
    Integers(Vec<i64>),
    /// An array of floats of either width.
    Floats(Vec<f32>),
    /// An array of truth values.
    Bools(Vec<bool>),
    /// An array of byte strings, as the file has them (vocabularies may hold invalid UTF-8).
    Texts(Texts),
}

/// An array of byte strings, held in one piece: vocabularies have hundreds of thousands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Texts {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Texts {
    /// None yet, with room for `n`.
    pub fn with_capacity(n: usize) -> Self {
        Self { bytes: Vec::new(), ends: Vec::with_capacity(n) }
    }
    /// Adds one string.
    ///
    /// # Panics
    /// When all strings together pass 4 GiB. The file reader's limit for a header lies far below.
    pub fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(u32::try_from(self.bytes.len()).expect("strings of one array pass 4 GiB"));
    }
    /// Number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
    /// String number `i`.
    pub fn get(&self, i: usize) -> Option<&[u8]> {
        let end = *self.ends.get(i)? as usize;
        let start = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        Some(&self.bytes[start..end])
    }
    /// All of them in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|i| self.get(i).unwrap_or_default())
    }
}

/// The key-value pairs of a GGUF file. Empty for a Hugging Face directory.
///
/// The typed getters give `Ok(None)` for an absent key and an error that names file and key for a value of another type.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    /// Where the pairs come from, for messages.
    pub path: PathBuf,
    /// The pairs.
    pub pairs: BTreeMap<String, Meta>,
}

impl Metadata {
    /// The raw value.
    pub fn get(&self, key: &str) -> Option<&Meta> {
        self.pairs.get(key)
    }
    fn wrong(&self, key: &str, want: &str, got: &Meta) -> Error {
        Error::invalid(&self.path, format!("metadata `{key}` should be {want}, but is {}", got.kind()))
    }
    /// A non-negative integer.
    pub fn unsigned(&self, key: &str) -> Result<Option<u64>> {
        match self.get(key) {
            None => Ok(None),
            Some(Meta::Unsigned(v)) => Ok(Some(*v)),
            Some(Meta::Signed(v)) if *v >= 0 => Ok(Some(*v as u64)),
            Some(other) => Err(self.wrong(key, "a non-negative integer", other)),
        }
    }
    /// A float; integers are accepted.
    pub fn float(&self, key: &str) -> Result<Option<f64>> {
        match self.get(key) {
            None => Ok(None),
            Some(Meta::Float(v)) => Ok(Some(*v)),
            Some(Meta::Unsigned(v)) => Ok(Some(*v as f64)),
            Some(Meta::Signed(v)) => Ok(Some(*v as f64)),
            Some(other) => Err(self.wrong(key, "a number", other)),
        }
    }
    /// A truth value.
    pub fn bool(&self, key: &str) -> Result<Option<bool>> {
        match self.get(key) {
            None => Ok(None),
            Some(Meta::Bool(v)) => Ok(Some(*v)),
            Some(other) => Err(self.wrong(key, "true or false", other)),
        }
    }
    /// A string.
    pub fn text(&self, key: &str) -> Result<Option<&str>> {
        match self.get(key) {
            None => Ok(None),
            Some(Meta::Text(v)) => Ok(Some(v)),
            Some(other) => Err(self.wrong(key, "a string", other)),
        }
    }
    /// An array of strings.
    pub fn texts(&self, key: &str) -> Result<Option<&Texts>> {
        match self.get(key) {
            None => Ok(None),
            Some(Meta::Texts(v)) => Ok(Some(v)),
            Some(other) => Err(self.wrong(key, "an array of strings", other)),
        }
    }
    /// An array of integers.
    pub fn integers(&self, key: &str) -> Result<Option<&[i64]>> {
        match self.get(key) {
            None => Ok(None),
            Some(Meta::Integers(v)) => Ok(Some(v)),
            Some(other) => Err(self.wrong(key, "an array of integers", other)),
        }
    }
    /// An array of floats.
    pub fn floats(&self, key: &str) -> Result<Option<&[f32]>> {
        match self.get(key) {
            None => Ok(None),
            Some(Meta::Floats(v)) => Ok(Some(v)),
            Some(other) => Err(self.wrong(key, "an array of floats", other)),
        }
    }
}

impl Meta {
    /// What kind of value this is, in words.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unsigned(_) | Self::Signed(_) => "an integer",
            Self::Float(_) => "a float",
            Self::Bool(_) => "true or false",
            Self::Text(_) => "a string",
            Self::Integers(_) => "an array of integers",
            Self::Floats(_) => "an array of floats",
            Self::Bools(_) => "an array of truth values",
            Self::Texts(_) => "an array of strings",
        }
    }
}
