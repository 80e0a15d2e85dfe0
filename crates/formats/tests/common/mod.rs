//! What the tests share.
#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used, reason = "a test's; each file uses some of it")]

pub mod counting;

use std::path::{Path, PathBuf};

/// A file of `tests/data`.
pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// The folder `shared` beside the repository, or where `ONEBIT_SHARED` says.
pub fn shared() -> Option<PathBuf> {
    let beside = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared"));
    let dir = std::env::var_os("ONEBIT_SHARED").map_or_else(beside, PathBuf::from);
    let found = dir.join("fixtures/data").is_dir();
    if !found {
        eprintln!("SKIPPED: no fixtures in {}", dir.display());
    }
    found.then_some(dir)
}

/// The message that opening `path` fails with; it must begin with a path of the same folder.
pub fn refusal(path: &Path) -> String {
    match onebit_formats::Checkpoint::open(path) {
        Ok(_) => panic!("{} opened", path.display()),
        Err(e) => e.to_string(),
    }
}

/// GGUF bytes in the making, without any of the writer's checks.
#[derive(Clone, Debug, Default)]
pub struct Raw(pub Vec<u8>);

impl Raw {
    /// Magic, version 3 and counts.
    pub fn head(tensors: u64, pairs: u64) -> Self {
        Self(b"GGUF".to_vec()).u32(3).u64(tensors).u64(pairs)
    }
    pub fn u32(mut self, v: u32) -> Self {
        self.0.extend(v.to_le_bytes());
        self
    }
    pub fn u64(mut self, v: u64) -> Self {
        self.0.extend(v.to_le_bytes());
        self
    }
    pub fn bytes(mut self, v: &[u8]) -> Self {
        self.0.extend(v);
        self
    }
    /// A string with its length.
    pub fn text(self, v: impl AsRef<[u8]>) -> Self {
        let v = v.as_ref();
        self.u64(v.len() as u64).bytes(v)
    }
    /// A pair of type `kind`, with the value's raw bytes.
    pub fn pair(self, key: &str, kind: u32, value: &[u8]) -> Self {
        self.text(key).u32(kind).bytes(value)
    }
    /// A tensor's description; `dims` innermost first, as in the file.
    pub fn tensor(self, name: &str, dims: &[u64], kind: u32, offset: u64) -> Self {
        let with_dims = dims.iter().fold(self.text(name).u32(dims.len() as u32), |r, d| r.u64(*d));
        with_dims.u32(kind).u64(offset)
    }
    /// Padding to 32 and then `n` bytes of data.
    pub fn data(mut self, n: usize) -> Self {
        self.0.resize(self.0.len().next_multiple_of(32) + n, 0);
        self
    }
}

/// A safetensors file: the header's length, `header`, and `n` bytes of data.
pub fn safetensors(header: &str, n: usize) -> Vec<u8> {
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend(header.as_bytes());
    out.resize(out.len() + n, 0);
    out
}
