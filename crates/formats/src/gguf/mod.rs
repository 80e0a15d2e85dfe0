//! GGUF, ggml's container: a header of typed key-value pairs and tensor descriptions, then aligned tensor data.
//!
//! Source: `docs/gguf.md` of the ggml repository. Versions 2 and 3 (which differ only in that 3 allows big-endian files), little endian.

pub(crate) mod i2_s;
mod read;
mod split;
pub mod token_kind;
mod write;

pub(crate) use read::is_gguf;
pub(crate) use split::{open, sets};
pub use write::Writer;

/// The first four bytes.
const MAGIC: &[u8; 4] = b"GGUF";
/// Where tensor data is aligned to when the file does not say.
const ALIGNMENT: usize = 32;
/// The most dimensions a tensor has.
const DIMENSIONS: usize = 4;

/// Type ids of metadata values, as the file has them.
mod kind {
    pub(super) const U8: u32 = 0;
    pub(super) const I8: u32 = 1;
    pub(super) const U16: u32 = 2;
    pub(super) const I16: u32 = 3;
    pub(super) const U32: u32 = 4;
    pub(super) const I32: u32 = 5;
    pub(super) const F32: u32 = 6;
    pub(super) const BOOL: u32 = 7;
    pub(super) const TEXT: u32 = 8;
    pub(super) const ARRAY: u32 = 9;
    pub(super) const U64: u32 = 10;
    pub(super) const I64: u32 = 11;
    pub(super) const F64: u32 = 12;

    /// Bytes of a value; for a string, the least it can take. `None` for ids that the format does not define.
    pub(super) fn bytes(kind: u32) -> Option<usize> {
        const BYTES: [usize; 13] = [1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8];
        BYTES.get(kind as usize).copied()
    }
}
