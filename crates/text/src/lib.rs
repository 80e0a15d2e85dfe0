//! Tokenizers and chat templates: what stands between text and token ids.
//!
//! A [`Tokenizer`] comes from a Hugging Face `tokenizer.json` or from the vocabulary in a GGUF file; both are read into the
//! same parts (see [`tokenizer`]). A [`ChatTemplate`] turns messages into the text that a model was trained on, and [`parse`] takes
//! what it answers apart. This crate knows nothing of plans, devices or sampling.
//!
//! What a file asks for is done exactly or refused by name; nothing is guessed.

mod error;
pub mod parse;
pub mod template;
pub mod tokenizer;

pub use error::{Error, Result};

pub use template::{ChatTemplate, Contents, Render};
pub use tokenizer::{Decoder, Encode, Tokenizer};
