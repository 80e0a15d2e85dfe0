//! Reads and checks the header of one GGUF file.

use super::{ALIGNMENT, DIMENSIONS, MAGIC, kind};
use crate::{
    Error, Meta, Metadata, Result, Texts,
    bytes::{Cursor, quote},
    gguf::i2_s,
    layout::{Entry, product},
    probe,
};
use onebit_quants::{U8, from_ggml_id_sized};
use std::{collections::HashSet, fmt::Display, path::Path};

/// The most bytes of header that are read. Known files have up to 20 MB, vocabularies of 260,000 tokens included.
const HEADER_LIMIT: usize = 64 << 20;
/// The most key-value pairs.
const PAIR_LIMIT: usize = 1 << 16;
/// The most array elements in all pairs together. The largest vocabularies known have 1.3 million, merges and types included.
const ELEMENT_LIMIT: usize = 1 << 22;
/// The most tensors. The largest known models have some 3,000 (experts are stored together).
const TENSOR_LIMIT: usize = 1 << 17;
/// The most bytes of a key, from the format's description.
const KEY_LIMIT: usize = (1 << 16) - 1;
/// The most bytes of a tensor's name; ggml itself allows 64.
const NAME_LIMIT: usize = 256;
/// The largest alignment.
const ALIGNMENT_LIMIT: u64 = 1 << 16;

/// What a header says.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) metadata: Metadata,
    pub(crate) tensors: Vec<Entry>,
}

/// Whether a file that starts so claims to be GGUF.
pub(crate) fn is_gguf(start: &[u8]) -> bool {
    start.starts_with(MAGIC)
}

/// Reads the header of the file `path`, whose bytes are `file`.
pub(crate) fn header(path: &Path, file: &[u8]) -> Result<Header> {
    let (head, end) =
        if file.len() > HEADER_LIMIT { (&file[..HEADER_LIMIT], "the limit of 64 MiB for headers") } else { (file, "the end of the file") };
    let mut c = Cursor::new(path, head, end);
    if !is_gguf(file) {
        let what = probe::mistaken(file).unwrap_or("is not a GGUF file: it does not start with `GGUF`");
        return Err(c.error(what));
    }
    c.take(4, "the magic")?;
    version(&mut c)?;
    // The least that a tensor takes: lengths of its name and dimensions, one byte of name, type and offset. Likewise a pair.
    let tensors = c.count(8 + 1 + 4 + 4 + 8, TENSOR_LIMIT, "the number of tensors")?;
    let pairs = c.count(8 + 1 + 4 + 1, PAIR_LIMIT, "the number of key-value pairs")?;
    let metadata = self::pairs(&mut c, path, pairs)?;
    let alignment = alignment(&metadata)?;
    let infos = infos(&mut c, tensors)?;
    // A file without tensors may end with its header.
    let start = c.at().next_multiple_of(alignment).min(file.len());
    let tensors = place(path, infos, start, file.len(), alignment)?;
    Ok(Header { metadata, tensors })
}

fn version(c: &mut Cursor<'_>) -> Result<()> {
    match c.u32("the version")? {
        2 | 3 => Ok(()),
        1 => Err(c.error("GGUF version 1 (of August 2023) is not read; convert the original model again")),
        v if v.swap_bytes() <= 0xffff => {
            Err(c.error("is a big-endian GGUF file; convert it with `gguf-convert-endian FILE little` of the Python package `gguf`"))
        }
        v => Err(c.error(format!("GGUF version {v} is not known; 2 and 3 are"))),
    }
}

/// Reads `n` key-value pairs.
fn pairs(c: &mut Cursor<'_>, path: &Path, n: usize) -> Result<Metadata> {
    let mut metadata = Metadata { path: path.to_path_buf(), ..Metadata::default() };
    let mut elements = ELEMENT_LIMIT;
    for i in 0..n {
        let key = name(c, KEY_LIMIT, format_args!("key {i}"))?;
        let value = value(c, key, &mut elements)?;
        if metadata.pairs.insert(key.to_owned(), value).is_some() {
            return Err(c.error(format!("metadata {} appears twice", quote(key.as_bytes()))));
        }
    }
    Ok(metadata)
}

/// Reads a key or a tensor's name: UTF-8, not empty, within `limit` bytes.
fn name<'a>(c: &mut Cursor<'a>, limit: usize, what: impl Display + Copy) -> Result<&'a str> {
    let len = c.u64(format_args!("the length of {what}"))?;
    if len == 0 || len > limit as u64 {
        return Err(c.error(format!("the name of {what} has {len} bytes; it may have 1 to {limit}")));
    }
    let bytes = c.take(len, what)?;
    std::str::from_utf8(bytes).map_err(|_| c.error(format!("the name of {what}, {}, is not UTF-8", quote(bytes))))
}

/// Reads the value of `key`; `elements` is what is left of [`ELEMENT_LIMIT`].
fn value(c: &mut Cursor<'_>, key: &str, elements: &mut usize) -> Result<Meta> {
    let what = format_args!("metadata {}", quote(key.as_bytes()));
    match c.u32(format_args!("the type of {what}"))? {
        kind::TEXT => {
            let len = c.u64(format_args!("the length of {what}"))?;
            let bytes = c.take(len, what)?;
            Ok(Meta::Text(text(bytes, key)))
        }
        kind::ARRAY => array(c, what, elements),
        kind => {
            let Some(size) = kind::bytes(kind) else {
                return Err(c.error(format!("{what} has type {kind}, which GGUF does not define (0 to 12)")));
            };
            let raw = c.take(size as u64, what)?;
            scalar(kind, raw).map_err(|fault| c.error(format!("{what} {fault}")))
        }
    }
}

/// A string as text. Keys and names must be UTF-8; in values (licences, authors) a broken character is no reason to refuse a model.
fn text(bytes: &[u8], key: &str) -> String {
    String::from_utf8(bytes.to_vec()).unwrap_or_else(|e| {
        tracing::warn!(key, "metadata value is not UTF-8; broken characters were replaced");
        String::from_utf8_lossy(e.as_bytes()).into_owned()
    })
}

/// Reads an array: element type, count, elements.
fn array(c: &mut Cursor<'_>, what: impl Display + Copy, elements: &mut usize) -> Result<Meta> {
    let kind = c.u32(format_args!("the element type of {what}"))?;
    let Some(size) = kind::bytes(kind) else {
        return Err(c.error(format!("{what} is an array of type {kind}, which GGUF does not define (0 to 12)")));
    };
    if kind == kind::ARRAY {
        return Err(c.error(format!("{what} is an array of arrays, which is not read")));
    }
    let n = c.count(size, *elements, format_args!("the number of elements of {what}"))?;
    *elements -= n;
    if kind == kind::TEXT {
        return texts(c, n, what).map(Meta::Texts);
    }
    // `n * size` is within the bytes left.
    let raw = c.take((n * size) as u64, what)?;
    numbers(kind, raw).map_err(|fault| c.error(format!("{what} {fault}")))
}

/// Reads `n` strings; `n` is within the bytes left.
fn texts(c: &mut Cursor<'_>, n: usize, what: impl Display + Copy) -> Result<Texts> {
    let mut texts = Texts::with_capacity(n);
    for i in 0..n {
        let len = c.u64(format_args!("the length of string {i} of {what}"))?;
        texts.push(c.take(len, format_args!("string {i} of {what}"))?);
    }
    Ok(texts)
}

/// Decodes `raw`, an array of fixed-size elements. The error says what is wrong with an element.
fn numbers(kind: u32, raw: &[u8]) -> Result<Meta, String> {
    fn each<const N: usize, T>(raw: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
        raw.as_chunks::<N>().0.iter().map(|b| read(*b)).collect()
    }
    Ok(match kind {
        kind::U8 => Meta::Integers(each(raw, |[b]| i64::from(b))),
        kind::I8 => Meta::Integers(each(raw, |b| i64::from(i8::from_le_bytes(b)))),
        kind::U16 => Meta::Integers(each(raw, |b| i64::from(u16::from_le_bytes(b)))),
        kind::I16 => Meta::Integers(each(raw, |b| i64::from(i16::from_le_bytes(b)))),
        kind::U32 => Meta::Integers(each(raw, |b| i64::from(u32::from_le_bytes(b)))),
        kind::I32 => Meta::Integers(each(raw, |b| i64::from(i32::from_le_bytes(b)))),
        kind::I64 => Meta::Integers(each(raw, i64::from_le_bytes)),
        kind::U64 => {
            let read = |b: &[u8; 8]| i64::try_from(u64::from_le_bytes(*b));
            let all: Result<_, _> = raw.as_chunks::<8>().0.iter().map(read).collect();
            Meta::Integers(all.map_err(|_| format!("holds an integer beyond {}", i64::MAX))?)
        }
        kind::F32 => Meta::Floats(each(raw, f32::from_le_bytes)),
        kind::F64 => Meta::Floats(each(raw, |b| f64::from_le_bytes(b) as f32)),
        kind::BOOL => {
            if let Some(b) = raw.iter().find(|b| **b > 1) {
                return Err(format!("holds {b} where a truth value should be 0 or 1"));
            }
            Meta::Bools(each(raw, |[b]| b == 1))
        }
        _ => return Err(format!("has type {kind}, which is not of a fixed size")),
    })
}

/// Decodes `raw`, one value of a fixed-size type.
fn scalar(kind: u32, raw: &[u8]) -> Result<Meta, String> {
    // An unsigned 64-bit value and a double keep their width, which arrays do not.
    let eight = raw.first_chunk::<8>();
    Ok(match (kind, eight) {
        (kind::U64, Some(b)) => Meta::Unsigned(u64::from_le_bytes(*b)),
        (kind::F64, Some(b)) => Meta::Float(f64::from_le_bytes(*b)),
        _ => match numbers(kind, raw)? {
            Meta::Integers(v) if matches!(kind, kind::U8 | kind::U16 | kind::U32) => Meta::Unsigned(v[0] as u64),
            Meta::Integers(v) => Meta::Signed(v[0]),
            Meta::Floats(v) => Meta::Float(v[0].into()),
            Meta::Bools(v) => Meta::Bool(v[0]),
            other => other,
        },
    })
}

/// `general.alignment`, or the default.
fn alignment(metadata: &Metadata) -> Result<usize> {
    let Some(value) = metadata.unsigned("general.alignment")? else { return Ok(ALIGNMENT) };
    if !value.is_power_of_two() || !(8..=ALIGNMENT_LIMIT).contains(&value) {
        let text = format!("`general.alignment` is {value}; it must be a power of two from 8 to {ALIGNMENT_LIMIT}");
        return Err(Error::invalid(&metadata.path, text));
    }
    Ok(value as usize)
}

/// A tensor's description as it stands in the file.
struct Info<'a> {
    name: &'a str,
    shape: Vec<usize>,
    values: usize,
    id: u32,
    /// From the start of the data.
    offset: u64,
}

/// Reads the descriptions of `n` tensors.
fn infos<'a>(c: &mut Cursor<'a>, n: usize) -> Result<Vec<Info<'a>>> {
    let mut infos = Vec::with_capacity(n);
    let mut names = HashSet::with_capacity(n);
    for i in 0..n {
        let name = name(c, NAME_LIMIT, format_args!("tensor {i}"))?;
        let what = format_args!("tensor {}", quote(name.as_bytes()));
        if !names.insert(name) {
            return Err(c.error(format!("{what} appears twice")));
        }
        let dimensions = c.u32(format_args!("the number of dimensions of {what}"))?;
        if dimensions as usize > DIMENSIONS {
            return Err(c.error(format!("{what} has {dimensions} dimensions; the limit is {DIMENSIONS}")));
        }
        let mut shape = Vec::with_capacity(DIMENSIONS);
        for _ in 0..dimensions {
            let d = c.u64(format_args!("a dimension of {what}"))?;
            if d == 0 {
                return Err(c.error(format!("{what} has a dimension of 0")));
            }
            shape.push(usize::try_from(d).unwrap_or(usize::MAX));
        }
        shape.reverse();
        let id = c.u32(format_args!("the type of {what}"))?;
        let offset = c.u64(format_args!("the offset of {what}"))?;
        let values = product(&shape).filter(|v| *v <= isize::MAX as usize);
        let values = values.ok_or_else(|| c.error(format!("the product of the dimensions {shape:?} of {what} overflows")))?;
        infos.push(Info { name, shape, values, id, offset });
    }
    Ok(infos)
}

/// Finds each tensor's type and place in a file of `len` bytes whose data starts at `start`.
fn place(path: &Path, mut infos: Vec<Info<'_>>, start: usize, len: usize, alignment: usize) -> Result<Vec<Entry>> {
    infos.sort_by_key(|i| i.offset);
    let data = (len - start) as u64;
    let mut entries: Vec<Entry> = Vec::with_capacity(infos.len());
    let mut free = 0u64;
    for (i, info) in infos.iter().enumerate() {
        let fault = |what: String| Error::invalid(path, format!("tensor {} {what}", quote(info.name.as_bytes())));
        if !info.offset.is_multiple_of(alignment as u64) {
            return Err(fault(format!("lies at offset {}, which is not a multiple of the alignment {alignment}", info.offset)));
        }
        if info.offset < free {
            let before = entries.last().map_or("", |e| &e.name);
            return Err(fault(format!("at offset {} overlaps `{before}`, which ends at {free}", info.offset)));
        }
        let next = infos.get(i + 1).map_or(data, |n| n.offset.min(data));
        let span = usize::try_from(next.saturating_sub(info.offset)).unwrap_or(usize::MAX);
        let columns = info.shape.last().copied().unwrap_or(1);
        // Where the size is another, the id means what mainline withdrew.
        let i2_s = (info.id == i2_s::ID).then(|| i2_s::bytes(info.values, columns)).flatten();
        let i2_s = i2_s.filter(|n| *n <= span && span - n < alignment);
        let ty = match i2_s {
            Some(_) => Ok(U8),
            None => from_ggml_id_sized(info.id, &info.shape, span, alignment).map_err(|e| fault(format!("cannot be read: {e}"))),
        }?;
        if !columns.is_multiple_of(ty.block_values()) {
            let block = ty.block_values();
            return Err(fault(format!("has rows of {columns} values, which blocks of {block} ({ty}) do not divide")));
        }
        let bytes =
            i2_s.or(ty.bytes_for(&info.shape)).ok_or_else(|| fault(format!("of shape {:?} has more bytes than can be", info.shape)))?;
        let end = info.offset.checked_add(bytes as u64).filter(|end| *end <= data).ok_or_else(|| {
            let offset = info.offset;
            fault(format!(
                "takes {bytes} bytes at offset {offset}, but the file has {data} bytes of data; it may be cut short: download it again"
            ))
        })?;
        free = end;
        let offset = start + info.offset as usize;
        entries.push(Entry { name: info.name.to_owned(), ty, shape: info.shape.clone(), offset, len: bytes, i2_s: i2_s.is_some() });
    }
    Ok(entries)
}
