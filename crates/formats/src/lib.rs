//! Model files: opens a GGUF file (split ones too) or a safetensors directory and gives named, typed, bounds-checked
//! tensors and metadata, without copying. Writes GGUF and safetensors.
//!
//! Every number read from a file is checked against the bytes that are there before anything is allocated by it.
//! A file that is broken gives an [`Error`] naming the file, the field and the limit; never a panic.

mod bytes;
mod checkpoint;
mod error;
mod folder;
pub mod gguf;
mod json;
mod layout;
mod mapping;
mod metadata;
pub mod npy;
mod output;
mod probe;
pub mod safetensors;
mod schemes;
mod sigbus;
mod tensor;
mod transposed;
mod view;

pub use checkpoint::{Checkpoint, Module, Source};
pub use error::Error;
pub use mapping::Mapping;
pub use metadata::{Meta, Metadata, Texts};
pub use output::{DataWriter, remove_unfinished, write_file};
pub use tensor::{Rows, Tensor};

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
