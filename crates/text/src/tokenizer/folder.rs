//! Which file in the folder of a checkpoint holds the vocabulary.

use super::{Tokenizer, config, hf};
use crate::{Error, Result};
use onebit_formats::Checkpoint;

/// Reads the first that is there of `tokenizer.json` and the others, and what lies beside it.
pub(super) fn read(checkpoint: &Checkpoint) -> Result<Tokenizer> {
    let origin = |name: &str| checkpoint.path.join(name).display().to_string();
    let config = checkpoint.sidecar("tokenizer_config.json")?;
    if let Some(text) = checkpoint.sidecar("tokenizer.json")? {
        let origin = origin("tokenizer.json");
        return hf::read(&origin, &text, config.as_deref(), &config::ends(&origin, checkpoint)?);
    }
    Err(Error::invalid(origin("tokenizer.json"), "there is no such file"))
}
