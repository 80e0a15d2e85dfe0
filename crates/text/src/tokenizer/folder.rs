//! Which file in the folder of a checkpoint holds the vocabulary.

use super::{
    Tokenizer,
    added::AddedToken,
    config::{self, Config},
    hf,
    spm::{self, SentencePieces},
    tekken, tiktoken, word_list,
};
use crate::{Error, Result};
use onebit_formats::Checkpoint;
use std::collections::BTreeMap;

/// What can hold a vocabulary, for messages.
const NAMES: &str = "tokenizer.json, tekken.json, tokenizer.model, spiece.model, tiktoken.model, *.tiktoken, vocab.txt";

/// What SentencePiece models are called.
const SENTENCE_PIECE: [&str; 2] = ["tokenizer.model", "spiece.model"];

/// The SentencePiece model that holds the vocabulary, where one does.
pub(super) fn sentence_pieces(checkpoint: &Checkpoint) -> Result<Option<SentencePieces>> {
    for name in ["tokenizer.json", "tekken.json"] {
        if checkpoint.sidecar_bytes(name)?.is_some() {
            return Ok(None);
        }
    }
    for name in SENTENCE_PIECE {
        if let Some(bytes) = checkpoint.sidecar_bytes(name)? {
            let plain = !tiktoken::is_one(&bytes);
            return plain.then(|| SentencePieces::read(name, &bytes)).transpose();
        }
    }
    Ok(None)
}

/// Reads the first that is there of `tokenizer.json` and the others, and what lies beside it.
pub(super) fn read(checkpoint: &Checkpoint) -> Result<Tokenizer> {
    let folder = checkpoint.path.display().to_string();
    let origin = |name: &str| checkpoint.path.join(name).display().to_string();
    let text = checkpoint.sidecar("tokenizer_config.json")?;
    let ends = config::ends(&folder, checkpoint)?;
    if let Some(json) = checkpoint.sidecar("tokenizer.json")? {
        return hf::read(&origin("tokenizer.json"), &json, text.as_deref(), &ends);
    }
    if let Some(json) = checkpoint.sidecar("tekken.json")? {
        return tekken::read(&origin("tekken.json"), &json, &ends);
    }
    let config = Config::read(&folder, text.as_deref())?;
    let names = checkpoint.sidecar_names()?;
    let tables = names.iter().map(String::as_str).filter(|name| name.ends_with(".tiktoken"));
    for name in SENTENCE_PIECE.into_iter().chain(["tiktoken.model"]).chain(tables) {
        let Some(bytes) = checkpoint.sidecar_bytes(name)? else { continue };
        let (origin, stem) = (origin(name), name.rsplit_once('.').map_or(name, |(stem, _)| stem));
        if name.ends_with(".tiktoken") || tiktoken::is_one(&bytes) {
            return tiktoken::read(&origin, &bytes, stem, &config, &ends);
        }
        return spm::read(&origin, &bytes, &config, more_tokens(checkpoint)?, &ends);
    }
    match checkpoint.sidecar("vocab.txt")? {
        Some(list) => word_list::read(&origin("vocab.txt"), &list, &config, &ends),
        None => Err(Error::invalid(folder, format!("there is no vocabulary ({NAMES})"))),
    }
}

/// `added_tokens.json`: texts and ids.
fn more_tokens(checkpoint: &Checkpoint) -> Result<Vec<AddedToken>> {
    let Some(text) = checkpoint.sidecar("added_tokens.json")? else { return Ok(Vec::new()) };
    let tokens: BTreeMap<String, u32> = serde_json::from_str(&text)
        .map_err(|e| Error::invalid(checkpoint.path.join("added_tokens.json").display().to_string(), e.to_string()))?;
    Ok(tokens.into_iter().map(|(content, id)| AddedToken { id, content, ..AddedToken::default() }).collect())
}
