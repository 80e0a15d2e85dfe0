//! `tokenizer_config.json`, and what other files beside it say of tokens.

use super::{added::AddedToken, vocabulary::Vocabulary};
use crate::{Error, Result};
use onebit_formats::Checkpoint;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};

/// What is read of `tokenizer_config.json`.
#[derive(Default, Deserialize)]
pub(super) struct Config {
    pub(super) tokenizer_class: Option<String>,
    pub(super) bos_token: Option<Named>,
    pub(super) eos_token: Option<Named>,
    pub(super) unk_token: Option<Named>,
    pub(super) sep_token: Option<Named>,
    pub(super) cls_token: Option<Named>,
    pub(super) pad_token: Option<Named>,
    pub(super) mask_token: Option<Named>,
    pub(super) add_bos_token: Option<bool>,
    pub(super) add_eos_token: Option<bool>,
    /// Whether a text after a special token begins with a space, as in the first versions of transformers.
    pub(super) legacy: Option<bool>,
    pub(super) do_basic_tokenize: Option<bool>,
    pub(super) do_lower_case: Option<bool>,
    pub(super) strip_accents: Option<bool>,
    pub(super) tokenize_chinese_chars: Option<bool>,
    #[serde(default)]
    added_tokens_decoder: BTreeMap<String, AddedToken>,
}

/// A token named by its text, or by an object that holds it.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Named {
    Text(String),
    Token { content: String },
}

impl Named {
    pub(super) fn text(&self) -> &str {
        let (Self::Text(text) | Self::Token { content: text }) = self;
        text
    }
}

impl Config {
    /// One that only names the first and last tokens.
    pub(super) fn named(bos: &str, eos: &str) -> Self {
        let named = |text: &str| Some(Named::Text(text.into()));
        Self { bos_token: named(bos), eos_token: named(eos), ..Self::default() }
    }

    pub(super) fn read(origin: &str, text: Option<&str>) -> Result<Self> {
        match text {
            None => Ok(Self::default()),
            Some(text) => serde_json::from_str(text).map_err(|e| Error::invalid(origin, format!("tokenizer_config.json: {e}"))),
        }
    }

    /// Its added tokens, after those of another file; of two with one text, the other file's counts.
    pub(super) fn added_tokens(&self, origin: &str, mut added: Vec<AddedToken>) -> Result<Vec<AddedToken>> {
        let known: HashSet<String> = added.iter().map(|token| token.content.clone()).collect();
        for (id, token) in &self.added_tokens_decoder {
            let id = id.parse().map_err(|_| {
                Error::invalid(origin, format!("`added_tokens_decoder` in tokenizer_config.json has the key `{id}`, which is no id"))
            })?;
            if !known.contains(&token.content) {
                added.push(AddedToken { id, ..token.clone() });
            }
        }
        Ok(added)
    }

    /// The beginning-of-text token.
    pub(super) fn bos(&self, origin: &str, vocabulary: &Vocabulary) -> Result<Option<u32>> {
        let Some(text) = self.bos_token.as_ref().map(Named::text) else { return Ok(None) };
        let id = vocabulary.index.get(&vocabulary.texts, text.as_bytes());
        id.map(Some).ok_or_else(|| Error::invalid(origin, format!("`bos_token` in tokenizer_config.json is `{text}`, which is no token")))
    }

    /// The end-of-text token. A vocabulary may lack the end that its configuration names (npm's gpt-oss names `<|return|>`):
    /// then others end it.
    pub(super) fn eos(&self, vocabulary: &Vocabulary) -> Option<u32> {
        self.eos_token.as_ref().and_then(|token| vocabulary.index.get(&vocabulary.texts, token.text().as_bytes()))
    }
}

/// The ids that end a generation, from the settings beside the weights.
pub(super) fn ends(origin: &str, checkpoint: &Checkpoint) -> Result<Vec<u32>> {
    let mut ends = Vec::new();
    for (file, settings) in [("generation_config.json", &checkpoint.generation_config), ("config.json", &checkpoint.config)] {
        let values = match settings.get("eos_token_id") {
            None | Some(Value::Null) => continue,
            Some(Value::Array(values)) => values.as_slice(),
            Some(value) => std::slice::from_ref(value),
        };
        for value in values {
            let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
            ends.push(
                id.ok_or_else(|| Error::invalid(origin, format!("`eos_token_id` in {file} should be token ids, but holds `{value}`")))?,
            );
        }
    }
    Ok(ends)
}
