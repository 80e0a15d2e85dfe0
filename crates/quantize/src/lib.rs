//! Stores a model's weights in fewer bits: reads a GGUF file, chooses a type for each tensor ([`Recipe`]), encodes, and writes
//! another GGUF file.
//!
//! One tensor is in memory at a time, in pieces; what the file says besides (settings, vocabulary) is carried over.

mod error;
mod gathered;
mod importance;
mod recipe;
mod rotate;
mod write;

pub use error::{Error, Result};
pub use gathered::{Format, Gathered, Sums};
pub use importance::Importance;
pub use recipe::{Override, Recipe, recipes};
pub use write::{Options, Progress, Report, Rotate, quantize};
