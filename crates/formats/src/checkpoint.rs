use crate::{Metadata, Result, Tensor};
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Which naming and storage conventions a checkpoint follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A GGUF file: ggml's tensor names, `metadata` holds the file's key-value pairs.
    Gguf,
    /// A Hugging Face directory: `config.json` in `config`, safetensors.
    HuggingFace,
}

/// An opened model: tensors by name and what the files say about them.
#[derive(Debug)]
pub struct Checkpoint {
    /// The conventions.
    pub source: Source,
    /// The file (the first of a split) or directory.
    pub path: PathBuf,
    /// GGUF key-value pairs; empty for a directory.
    pub metadata: Metadata,
    /// `config.json`; empty for GGUF.
    pub config: Map<String, Value>,
    /// `generation_config.json`, where there is one.
    pub generation_config: Map<String, Value>,
    /// Tensors by name.
    pub tensors: BTreeMap<String, Tensor>,
}

impl Checkpoint {
    /// Opens a GGUF file (any part of a split), or a directory with safetensors and `config.json` (or one GGUF).
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Err(crate::Error::invalid(path, "not implemented"))
    }
    /// A tensor by its name in the file.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }
    /// The text of a file that lies beside the weights (`tokenizer.json`, `chat_template.jinja`, ...): `None` where the
    /// directory has none, or the checkpoint is a GGUF file. `name` is a plain file name; links that leave the folder are refused.
    pub fn sidecar(&self, name: &str) -> Result<Option<String>> {
        let _ = name;
        Ok(None)
    }
}
