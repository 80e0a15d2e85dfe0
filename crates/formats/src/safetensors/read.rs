//! Reads and checks one safetensors file.

use super::{HEADER_LIMIT, METADATA, PREFIX};
use crate::{
    Error, Mapping, Result, Tensor,
    bytes::quote,
    json::{self, Pairs, Text, twice},
    layout::{Entry, product},
    probe,
};
use onebit_quants::WeightType;
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, SeqAccess, Visitor},
};
use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet},
    fmt,
    path::Path,
    sync::Arc,
};

/// The most dimensions a tensor has.
const DIMENSIONS: usize = 8;
/// The most bytes of a tensor's name.
const NAME_LIMIT: usize = 1024;
/// The most tensors in one file.
const TENSOR_LIMIT: usize = 1 << 17;
/// The most texts in `__metadata__`.
const TEXT_LIMIT: usize = 1 << 14;

/// Whether a file that starts so could be safetensors: a header's length, then an object.
pub(crate) fn is_safetensors(start: &[u8]) -> bool {
    start.len() > PREFIX && start[PREFIX] == b'{' && start[4..PREFIX] == [0; 4]
}

/// What files hold: tensors by name, and the texts of their `__metadata__` (the first of a name).
#[derive(Debug, Default)]
pub(crate) struct Opened {
    pub(crate) tensors: BTreeMap<String, Tensor>,
    pub(crate) texts: BTreeMap<String, String>,
}

/// Opens one file.
pub(crate) fn open_file(path: &Path) -> Result<Opened> {
    let file = Arc::new(Mapping::open(path)?);
    let (entries, texts) = header(path, file.bytes())?;
    let tensors = entries.into_iter().map(|e| e.tensor(&file)).map(|t| (t.name().to_owned(), t)).collect();
    Ok(Opened { tensors, texts })
}

/// Reads the header of the file `path`, whose bytes are `file`.
pub(crate) fn header(path: &Path, file: &[u8]) -> Result<(Vec<Entry>, BTreeMap<String, String>)> {
    let fault = |what: String| Error::invalid(path, what);
    // A header's length may look like another format's magic, so what could be right is not probed.
    if !is_safetensors(file)
        && let Some(what) = probe::mistaken(file)
    {
        return Err(fault(what.into()));
    }
    let Some((prefix, rest)) = file.split_first_chunk::<PREFIX>() else {
        return Err(fault(format!("has {} bytes, too few for a safetensors file", file.len())));
    };
    let len = u64::from_le_bytes(*prefix);
    if len > HEADER_LIMIT as u64 {
        return Err(fault(format!("the header's length is {len}; the limit is {HEADER_LIMIT}. Is this a safetensors file?")));
    }
    let len = len as usize;
    let Some((head, data)) = rest.split_at_checked(len) else {
        return Err(fault(format!("the header's length is {len}, but only {} bytes follow; the file is cut short", rest.len())));
    };
    if head.first() != Some(&b'{') {
        return Err(fault("the header does not start with `{`; is this a safetensors file?".into()));
    }
    let text = std::str::from_utf8(head).map_err(|e| fault(format!("the header is not UTF-8 at byte {}", PREFIX + e.valid_up_to())))?;
    let head: Head<'_> = json::typed(path, text)?;
    let entries = place(path, head.infos, PREFIX + len, data.len())?;
    Ok((entries, head.texts.into_iter().map(|(name, text)| (name.into_owned(), text.into_owned())).collect()))
}

/// Finds each tensor's place in the data, `len` bytes from `start` on: the format wants it filled without gaps.
fn place(path: &Path, mut infos: Vec<(Cow<'_, str>, Info<'_>)>, start: usize, len: usize) -> Result<Vec<Entry>> {
    infos.sort_by_key(|(_, i)| (i.begin, i.end));
    let mut entries: Vec<Entry> = Vec::with_capacity(infos.len());
    let mut free = 0u64;
    for (name, info) in infos {
        let fault = |what: String| Error::invalid(path, format!("tensor {} {what}", quote(name.as_bytes())));
        let (begin, end) = (info.begin, info.end);
        if begin > end {
            return Err(fault(format!("ends (at {end}) before it begins (at {begin})")));
        }
        if end > len as u64 {
            return Err(fault(format!("ends at byte {end} of the data, which has {len}; the file may be cut short: download it again")));
        }
        if begin < free {
            let before = entries.last().map_or("", |e| &e.name);
            return Err(fault(format!("begins at {begin} and overlaps `{before}`, which ends at {free}")));
        }
        if begin > free {
            return Err(fault(format!("begins at {begin}, but the data before it ends at {free}; the format allows no hole")));
        }
        let ty = dtype(&info.dtype).ok_or_else(|| fault(format!("has type {}, which is not read", quote(info.dtype.as_bytes()))))?;
        let need = product(&info.shape).and_then(|_| ty.bytes_for(&info.shape));
        if need != Some((end - begin) as usize) {
            let need = need.map_or("more than can be".into(), |n| n.to_string());
            let has = end - begin;
            return Err(fault(format!("of type {ty} and shape {:?} takes {need} bytes, but its offsets give {has}", info.shape)));
        }
        free = end;
        let name = name.into_owned();
        entries.push(Entry { name, ty, shape: info.shape, offset: start + begin as usize, len: (end - begin) as usize, i2_s: false });
    }
    if free != len as u64 {
        return Err(Error::invalid(path, format!("{} bytes follow the last tensor; the format allows none", len as u64 - free)));
    }
    Ok(entries)
}

/// The weight type that safetensors calls `name`: one value to a block, names as in `onebit_quants`.
pub(super) fn dtype(name: &str) -> Option<WeightType> {
    WeightType::by_name(name).filter(|t| t.block_values() == 1 && t.name() == name)
}

/// A header: tensors in the file's order, and texts.
struct Head<'a> {
    infos: Vec<(Cow<'a, str>, Info<'a>)>,
    texts: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

/// A tensor's description.
#[derive(Deserialize)]
struct RawInfo<'a> {
    #[serde(borrow)]
    dtype: Text<'a>,
    shape: Shape,
    data_offsets: [u64; 2],
}

/// As [`RawInfo`], flat.
struct Info<'a> {
    dtype: Cow<'a, str>,
    shape: Vec<usize>,
    begin: u64,
    end: u64,
}

impl<'de> Deserialize<'de> for Head<'de> {
    fn deserialize<D: Deserializer<'de>>(de: D) -> Result<Self, D::Error> {
        de.deserialize_map(HeadVisitor)
    }
}

struct HeadVisitor;

impl<'de> Visitor<'de> for HeadVisitor {
    type Value = Head<'de>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Head<'de>, A::Error> {
        let (mut infos, mut texts) = (Vec::new(), Vec::new());
        let mut names = HashSet::new();
        while let Some(Text(name)) = map.next_key()? {
            let shown = || quote(name.as_bytes());
            if name.is_empty() || name.len() > NAME_LIMIT {
                let len = name.len();
                return Err(A::Error::custom(format_args!("the name {} has {len} bytes; it may have 1 to {NAME_LIMIT}", shown())));
            }
            if !names.insert(name.clone()) {
                return Err(twice(&name));
            }
            if name == METADATA {
                texts = map.next_value::<Pairs<'de, TEXT_LIMIT>>()?.0;
                continue;
            }
            if infos.len() == TENSOR_LIMIT {
                return Err(A::Error::custom(format_args!("more than {TENSOR_LIMIT} tensors")));
            }
            let raw: RawInfo<'de> = map.next_value().map_err(|e| A::Error::custom(format_args!("tensor {}: {e}", shown())))?;
            let [begin, end] = raw.data_offsets;
            infos.push((name, Info { dtype: raw.dtype.0, shape: raw.shape.0, begin, end }));
        }
        Ok(Head { infos, texts })
    }
}

/// Dimensions, of a number within the limit.
struct Shape(Vec<usize>);

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(de: D) -> Result<Self, D::Error> {
        struct Dimensions;
        impl<'de> Visitor<'de> for Dimensions {
            type Value = Shape;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of dimensions")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Shape, A::Error> {
                let mut shape = Vec::new();
                while let Some(d) = seq.next_element()? {
                    if shape.len() == DIMENSIONS {
                        return Err(A::Error::custom(format_args!("more than {DIMENSIONS} dimensions")));
                    }
                    shape.push(d);
                }
                Ok(Shape(shape))
            }
        }
        de.deserialize_seq(Dimensions)
    }
}
