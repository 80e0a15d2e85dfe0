//! Where templates come from.

use crate::{Error, Result, Tokenizer};
use onebit_formats::{Checkpoint, Metadata};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Templates by name, and variables for special tokens.
pub(super) type Sources = (BTreeMap<String, String>, BTreeMap<String, String>);

/// Variables that a template finds special tokens under.
const TOKENS: [&str; 7] = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// From the files beside safetensors.
pub(super) fn from_folder(checkpoint: &Checkpoint) -> Result<Sources> {
    let read = |name: &str| -> Result<Map<String, Value>> {
        let Some(text) = checkpoint.sidecar(name)? else { return Ok(Map::new()) };
        serde_json::from_str(&text).map_err(|e| Error::invalid(checkpoint.path.join(name).display().to_string(), e.to_string()))
    };
    let config = read("tokenizer_config.json")?;
    let mut tokens = BTreeMap::new();
    for name in TOKENS {
        let token = config.get(name).and_then(|token| token.as_str().or_else(|| token.get("content")?.as_str()));
        tokens.extend(token.map(|token| (name.to_owned(), token.to_owned())));
    }
    let mut sources = BTreeMap::new();
    named(config.get("chat_template"), &mut sources);
    if sources.is_empty() {
        named(read("chat_template.json")?.get("chat_template"), &mut sources);
    }
    if let Some(text) = checkpoint.sidecar("chat_template.jinja")? {
        sources.insert(super::DEFAULT.to_owned(), text);
    }
    Ok((sources, tokens))
}

/// One template, or a list of objects with `name` and `template`.
fn named(value: Option<&Value>, sources: &mut BTreeMap<String, String>) {
    let entries = match value {
        Some(Value::String(text)) => return drop(sources.insert(super::DEFAULT.to_owned(), text.clone())),
        Some(Value::Array(entries)) => entries,
        _ => return,
    };
    for entry in entries {
        if let (Some(name), Some(text)) = (entry["name"].as_str(), entry["template"].as_str()) {
            sources.insert(name.to_owned(), text.to_owned());
        }
    }
}

/// From `tokenizer.chat_template` and `tokenizer.chat_template.NAME`.
pub(super) fn from_gguf(metadata: &Metadata, tokenizer: &Tokenizer) -> Result<Sources> {
    const KEY: &str = "tokenizer.chat_template";
    let mut sources = BTreeMap::new();
    for key in metadata.pairs.keys() {
        let name = match key.strip_prefix(KEY) {
            Some("") => super::DEFAULT,
            Some(rest) => match rest.strip_prefix('.') {
                Some(name) => name,
                None => continue,
            },
            None => continue,
        };
        sources.extend(metadata.text(key)?.map(|text| (name.to_owned(), text.to_owned())));
    }
    let mut tokens = BTreeMap::new();
    for (name, key) in
        [("bos_token", "bos"), ("eos_token", "eos"), ("unk_token", "unknown"), ("sep_token", "seperator"), ("pad_token", "padding")]
    {
        let id = metadata.unsigned(&format!("tokenizer.ggml.{key}_token_id"))?;
        let text = id.and_then(|id| tokenizer.token_text(u32::try_from(id).ok()?));
        tokens.extend(text.map(|text| (name.to_owned(), text.into_owned())));
    }
    Ok((sources, tokens))
}
