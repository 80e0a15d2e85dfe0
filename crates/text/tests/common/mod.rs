//! Where tests find what is too large for the repository.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use onebit_formats::{Checkpoint, Meta, Metadata, Source, Texts};
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file in the folder `shared` beside the repository (or `ONEBIT_SHARED`).
pub fn shared(name: &str) -> Option<PathBuf> {
    let folder = env::var_os("ONEBIT_SHARED").map_or_else(|| repository().join("../shared"), PathBuf::from);
    present(folder.join(name))
}

/// A published vocabulary's file, as `tools/fetch-tokenizers.sh` leaves it (in `ONEBIT_TOKENIZERS`, or `target/tokenizers`).
pub fn published(name: &str) -> Option<PathBuf> {
    let folder = env::var_os("ONEBIT_TOKENIZERS").map_or_else(|| repository().join("target/tokenizers"), PathBuf::from);
    present(folder.join(name))
}

fn present(path: PathBuf) -> Option<PathBuf> {
    if !path.exists() {
        eprintln!("SKIPPED: {} is not there (tools/fetch-tokenizers.sh fetches vocabularies)", path.display());
        return None;
    }
    Some(path)
}

/// A file of this crate's `tests/data`.
pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

pub fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

pub fn json(path: &Path) -> Value {
    serde_json::from_str(&read(path)).unwrap()
}

pub fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as u32).collect()
}

/// A vocabulary of `gguf.json` as a GGUF file has it.
pub fn gguf(entry: &Value) -> Checkpoint {
    let list = |value: &Value| value.as_array().unwrap().clone();
    let texts = |value: &Value| {
        let mut texts = Texts::default();
        list(value).iter().for_each(|text| texts.push(text.as_str().unwrap().as_bytes()));
        Meta::Texts(texts)
    };
    let integers = |value: &Value| Meta::Integers(list(value).iter().map(|v| v.as_i64().unwrap()).collect());
    let mut pairs = BTreeMap::from([
        ("tokenizer.ggml.model".to_owned(), Meta::Text(entry["model"].as_str().unwrap().to_owned())),
        ("tokenizer.ggml.tokens".to_owned(), texts(&entry["tokens"])),
        ("tokenizer.ggml.token_type".to_owned(), integers(&entry["kinds"])),
    ]);
    for (key, value) in entry["more"].as_object().unwrap() {
        let meta = match value {
            Value::Bool(yes) => Meta::Bool(*yes),
            Value::Number(n) => Meta::Unsigned(n.as_u64().unwrap()),
            _ if key == "scores" => Meta::Floats(list(value).iter().map(|v| v.as_f64().unwrap() as f32).collect()),
            _ => integers(value),
        };
        pairs.insert(format!("tokenizer.ggml.{key}"), meta);
    }
    metadata_only(pairs)
}

/// A GGUF file of these pairs, without tensors.
pub fn metadata_only(pairs: BTreeMap<String, Meta>) -> Checkpoint {
    Checkpoint {
        source: Source::Gguf,
        path: "test.gguf".into(),
        metadata: Metadata { path: "test.gguf".into(), pairs },
        config: Map::new(),
        generation_config: Map::new(),
        tensors: BTreeMap::new(),
    }
}

/// The vocabularies of `vocabularies.json`.
pub fn vocabularies() -> Vec<Value> {
    json(&data("vocabularies.json")).as_array().unwrap().clone()
}

/// A folder with a vocabulary.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn empty() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
    /// With the files of an entry of `vocabularies.json`.
    pub fn of(entry: &Value) -> Self {
        let folder = Self::empty();
        for (name, contents) in entry["files"].as_object().unwrap() {
            fs::write(folder.path().join(name), contents.as_str().unwrap()).unwrap();
        }
        for (name, contents) in entry["binary"].as_object().unwrap() {
            fs::write(folder.path().join(name), base64(contents.as_str().unwrap())).unwrap();
        }
        folder
    }
    pub fn path(&self) -> &Path {
        self.0.path()
    }
    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path().join(name)).unwrap()
    }
    /// As a checkpoint without tensors.
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            source: Source::HuggingFace,
            path: self.path().to_owned(),
            metadata: Metadata { path: self.path().to_owned(), pairs: BTreeMap::new() },
            config: Map::new(),
            generation_config: Map::new(),
            tensors: BTreeMap::new(),
        }
    }
}

/// The bytes of a text in base 64.
fn base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0u32, 0);
    for digit in text.bytes().filter(|&b| b != b'=') {
        bits = bits << 6 | DIGITS.iter().position(|&d| d == digit).unwrap() as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}
