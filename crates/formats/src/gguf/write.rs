//! Writes GGUF version 3.

use super::{ALIGNMENT, DIMENSIONS, MAGIC, kind};
use crate::{DataWriter, Error, Meta, Result, bytes::quote, layout::product};
use onebit_quants::WeightType;
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

/// The most bytes of a tensor's name that ggml reads (64 with its closing zero).
const NAME_LIMIT: usize = 63;

/// A GGUF file in the making: pairs and tensors are declared first, then [`begin`](Self::begin) writes the header and gives
/// a [`DataWriter`] for the tensors' bytes. Pairs and tensors stand in the file in the order of declaration.
///
/// ```
/// # fn main() -> onebit_formats::Result<()> {
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let path = folder.path().join("x.gguf");
/// use onebit_formats::{Checkpoint, Meta, gguf};
/// let mut writer = gguf::Writer::new(&path);
/// writer.pair("general.architecture", &Meta::Text("llama".into()))?;
/// writer.tensor("output_norm.weight", onebit_quants::F32, &[2])?;
/// let mut data = writer.begin()?;
/// data.write("output_norm.weight", &1f32.to_le_bytes())?;
/// data.write("output_norm.weight", &2f32.to_le_bytes())?;
/// data.finish()?;
/// assert_eq!(Checkpoint::open(&path)?.tensors["output_norm.weight"].to_f32(), [1.0, 2.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    pairs: Vec<u8>,
    keys: HashSet<String>,
    infos: Vec<u8>,
    names: HashSet<String>,
    /// Names and bytes, in order.
    tensors: Vec<(String, usize)>,
    /// Bytes of data so far, padded.
    data: usize,
}

impl Writer {
    /// Starts a file that will appear at `path`. Nothing is written before [`begin`](Self::begin).
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self {
            path: path.as_ref().to_path_buf(),
            pairs: Vec::new(),
            keys: HashSet::new(),
            infos: Vec::new(),
            names: HashSet::new(),
            tensors: Vec::new(),
            data: 0,
        }
    }

    /// Adds a key-value pair.
    ///
    /// Widths are those that llama.cpp asks for: integers take 32 bits where they fit (u32, i32, and i32 for arrays), 64
    /// otherwise; floats are f32. `general.alignment` is not for the caller to set.
    pub fn pair(&mut self, key: &str, value: &Meta) -> Result<()> {
        self.key(key)?;
        let out = &mut self.pairs;
        match value {
            Meta::Unsigned(v) => match u32::try_from(*v) {
                Ok(v) => scalar(out, kind::U32, v.to_le_bytes()),
                Err(_) => scalar(out, kind::U64, v.to_le_bytes()),
            },
            Meta::Signed(v) => match i32::try_from(*v) {
                Ok(v) => scalar(out, kind::I32, v.to_le_bytes()),
                Err(_) => scalar(out, kind::I64, v.to_le_bytes()),
            },
            Meta::Float(v) => scalar(out, kind::F32, (*v as f32).to_le_bytes()),
            Meta::Bool(v) => scalar(out, kind::BOOL, [u8::from(*v)]),
            Meta::Text(v) => {
                out.extend(kind::TEXT.to_le_bytes());
                text(out, v.as_bytes());
            }
            Meta::Integers(v) if v.iter().all(|v| i32::try_from(*v).is_ok()) => {
                array(out, kind::I32, v.iter().map(|v| (*v as i32).to_le_bytes()));
            }
            Meta::Integers(v) => array(out, kind::I64, v.iter().map(|v| v.to_le_bytes())),
            Meta::Floats(v) => array(out, kind::F32, v.iter().map(|v| v.to_le_bytes())),
            Meta::Bools(v) => array(out, kind::BOOL, v.iter().map(|v| [u8::from(*v)])),
            Meta::Texts(v) => {
                array(out, kind::TEXT, std::iter::repeat_n([0u8; 0], v.len()));
                v.iter().for_each(|t| text(out, t));
            }
        }
        Ok(())
    }

    /// Adds an array of u64, which [`pair`](Self::pair) would narrow: llama.cpp wants the numbers of hashes so.
    pub fn wide(&mut self, key: &str, values: &[u64]) -> Result<()> {
        self.key(key)?;
        array(&mut self.pairs, kind::U64, values.iter().map(|v| v.to_le_bytes()));
        Ok(())
    }

    /// Adds an array of bytes (u8), which [`pair`](Self::pair) would widen: `tokenizer.ggml.precompiled_charsmap` wants them so.
    pub fn bytes(&mut self, key: &str, value: &[u8]) -> Result<()> {
        self.key(key)?;
        array(&mut self.pairs, kind::U8, value.iter().map(|b| [*b]));
        Ok(())
    }

    /// Writes a key, if it can be one and is new.
    fn key(&mut self, key: &str) -> Result<()> {
        let shown = quote(key.as_bytes());
        if key.is_empty() || key.len() > 65535 {
            return Err(Error::invalid(&self.path, format!("metadata key {shown} has {} bytes; it may have 1 to 65535", key.len())));
        }
        if key == "general.alignment" {
            return Err(Error::invalid(&self.path, format!("`{key}` is set by the writer ({ALIGNMENT})")));
        }
        if !self.keys.insert(key.to_owned()) {
            return Err(Error::invalid(&self.path, format!("metadata {shown} is declared twice")));
        }
        text(&mut self.pairs, key.as_bytes());
        Ok(())
    }

    /// Adds a tensor. `shape` is outermost first, as everywhere but in the file itself.
    pub fn tensor(&mut self, name: &str, ty: WeightType, shape: &[usize]) -> Result<()> {
        let fault = |what: String| Error::invalid(&self.path, format!("tensor {} {what}", quote(name.as_bytes())));
        if name.is_empty() || name.len() > NAME_LIMIT {
            return Err(fault(format!("has a name of {} bytes; it may have 1 to {NAME_LIMIT}", name.len())));
        }
        let Some(id) = ty.info().ggml_id else {
            return Err(fault(format!("has type {ty}, which GGUF does not have")));
        };
        if shape.len() > DIMENSIONS || shape.contains(&0) {
            return Err(fault(format!("has shape {shape:?}; up to {DIMENSIONS} dimensions, none 0, can be written")));
        }
        if !shape.last().unwrap_or(&1).is_multiple_of(ty.block_values()) {
            return Err(fault(format!("has shape {shape:?}, whose rows blocks of {} ({ty}) do not divide", ty.block_values())));
        }
        let len = product(shape).and_then(|_| ty.bytes_for(shape)).filter(|n| *n <= isize::MAX as usize);
        let end = len.and_then(|n| self.data.checked_add(n.next_multiple_of(ALIGNMENT)));
        let (Some(len), Some(end)) = (len, end) else {
            return Err(fault(format!("has shape {shape:?}, which is more bytes than can be")));
        };
        if !self.names.insert(name.to_owned()) {
            return Err(fault("is declared twice".into()));
        }
        text(&mut self.infos, name.as_bytes());
        self.infos.extend((shape.len() as u32).to_le_bytes());
        self.infos.extend(shape.iter().rev().flat_map(|d| (*d as u64).to_le_bytes()));
        self.infos.extend(id.to_le_bytes());
        self.infos.extend((self.data as u64).to_le_bytes());
        self.tensors.push((name.to_owned(), len));
        self.data = end;
        Ok(())
    }

    /// Bytes that the file will have.
    pub fn size(&self) -> u64 {
        let header = MAGIC.len() + 4 + 8 + 8 + self.pairs.len() + self.infos.len();
        (header.next_multiple_of(ALIGNMENT) + self.data) as u64
    }

    /// Writes the header. The file appears at its path with [`DataWriter::finish`], and not before.
    pub fn begin(self) -> Result<DataWriter> {
        let mut header = MAGIC.to_vec();
        header.extend(3u32.to_le_bytes());
        header.extend((self.names.len() as u64).to_le_bytes());
        header.extend((self.keys.len() as u64).to_le_bytes());
        header.extend(self.pairs);
        header.extend(self.infos);
        header.resize(header.len().next_multiple_of(ALIGNMENT), 0);
        DataWriter::create(&self.path, &header, self.tensors, ALIGNMENT)
    }
}

fn scalar<const N: usize>(out: &mut Vec<u8>, kind: u32, value: [u8; N]) {
    out.extend(kind.to_le_bytes());
    out.extend(value);
}

fn text(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u64).to_le_bytes());
    out.extend(bytes);
}

fn array<const N: usize>(out: &mut Vec<u8>, kind: u32, values: impl ExactSizeIterator<Item = [u8; N]>) {
    out.extend(kind::ARRAY.to_le_bytes());
    out.extend(kind.to_le_bytes());
    out.extend((values.len() as u64).to_le_bytes());
    values.for_each(|v| out.extend(v));
}
