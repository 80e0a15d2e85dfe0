//! safetensors, Hugging Face's container: the length of a JSON header, the header, then tensor data without gaps.
//!
//! Source: the format's description in the README of the safetensors repository; limits as its Rust crate has them.

mod index;
mod read;
mod write;

pub(crate) use index::open_folder;
pub(crate) use read::{Opened, is_safetensors, open_file};
pub use write::Writer;

/// Bytes of the header's length, before it.
const PREFIX: usize = 8;
/// The most bytes a header may have (as the safetensors crate).
const HEADER_LIMIT: usize = 100_000_000;
/// The key under which a header holds free text.
const METADATA: &str = "__metadata__";
