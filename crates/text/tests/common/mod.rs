//! Where tests find what is too large for the repository.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use serde_json::Value;
use std::{
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
