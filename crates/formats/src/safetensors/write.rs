//! Writes safetensors.

use super::{HEADER_LIMIT, METADATA, PREFIX, read::dtype};
use crate::{DataWriter, Error, Result, bytes::quote, layout::product};
use onebit_quants::WeightType;
use serde_json::{Map, json};
use std::path::{Path, PathBuf};

/// A safetensors file in the making: texts and tensors are declared first, then [`begin`](Self::begin) writes the header
/// and gives a [`DataWriter`] for the tensors' bytes, in the order of declaration.
///
/// The format has no padding between tensors: declare those with wider values first, so that all lie on multiples of their width.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    texts: Map<String, serde_json::Value>,
    header: Map<String, serde_json::Value>,
    tensors: Vec<(String, usize)>,
    data: usize,
}

impl Writer {
    /// Starts a file that will appear at `path`. Nothing is written before [`begin`](Self::begin).
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self { path: path.as_ref().to_path_buf(), texts: Map::new(), header: Map::new(), tensors: Vec::new(), data: 0 }
    }

    /// Adds a text to `__metadata__`; a second one of the same name replaces the first.
    pub fn text(&mut self, name: &str, text: &str) {
        self.texts.insert(name.to_owned(), text.into());
    }

    /// Adds a tensor of a type that the format has: plain floats and integers.
    pub fn tensor(&mut self, name: &str, ty: WeightType, shape: &[usize]) -> Result<()> {
        let fault = |what: String| Error::invalid(&self.path, format!("tensor {} {what}", quote(name.as_bytes())));
        if name.is_empty() || name == METADATA {
            return Err(fault("has a name that the format does not allow".into()));
        }
        if dtype(ty.name()) != Some(ty) {
            return Err(fault(format!("has type {ty}, which safetensors does not have")));
        }
        let len = product(shape).and_then(|_| ty.bytes_for(shape));
        let (Some(len), Some(end)) = (len, len.and_then(|n| self.data.checked_add(n))) else {
            return Err(fault(format!("has shape {shape:?}, which is more bytes than can be")));
        };
        if self.header.contains_key(name) {
            return Err(fault("is declared twice".into()));
        }
        self.header.insert(name.to_owned(), json!({"dtype": ty.name(), "shape": shape, "data_offsets": [self.data, end]}));
        self.tensors.push((name.to_owned(), len));
        self.data = end;
        Ok(())
    }

    /// Writes the header. The file appears at its path with [`DataWriter::finish`], and not before.
    pub fn begin(self) -> Result<DataWriter> {
        let mut all = Map::new();
        if !self.texts.is_empty() {
            all.insert(METADATA.to_owned(), self.texts.into());
        }
        all.extend(self.header);
        let mut json = serde_json::Value::from(all).to_string().into_bytes();
        // Spaces bring the data to a multiple of 8, as the safetensors crate does.
        json.resize(json.len().next_multiple_of(PREFIX), b' ');
        if json.len() > HEADER_LIMIT {
            return Err(Error::invalid(&self.path, format!("the header would have {} bytes; the limit is {HEADER_LIMIT}", json.len())));
        }
        let mut header = (json.len() as u64).to_le_bytes().to_vec();
        header.extend(json);
        DataWriter::create(&self.path, &header, self.tensors, 1)
    }
}
