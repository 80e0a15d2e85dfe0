//! The vocabulary, from `tokenizer.json` and what lies beside it, as `tokenizer.ggml.*` and `tokenizer.chat_template`.
//!
//! Byte-level BPE is written; GGUF names its pre-tokenizer instead of describing it, so the description must be one of
//! [`PRE`]. Other kinds are refused by name.

use crate::{Error, Result};
use onebit_formats::{Checkpoint, Meta, Texts};
use serde_json::{Map, Value};
use std::collections::{BTreeSet, HashMap};

/// Kinds of tokens in `tokenizer.ggml.token_type`.
mod kind {
    pub(super) const NORMAL: i64 = 1;
    pub(super) const CONTROL: i64 = 3;
    pub(super) const USER_DEFINED: i64 = 4;
    pub(super) const UNUSED: i64 = 5;
}

/// What llama.cpp calls pre-tokenizers, by the patterns that they split at, in order. `digits` is the splitting of digits one by one,
/// `gpt2` that of GPT-2, which byte-level pre-tokenizers do unless told not to.
const PRE: &[(&str, &[&str])] = &[
    ("gpt-2", &["gpt2"]),
    ("smollm", &["digits", "gpt2"]),
    (
        "llama-bpe",
        &[r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    ),
    ("qwen2", &[r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]),
    (
        "qwen35",
        &[r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    ),
];

/// The file's pairs; `None` where the checkpoint has no `tokenizer.json`. `size` is the number of rows in the model's embedding table.
pub(super) fn read(checkpoint: &Checkpoint, size: usize) -> Result<Option<Vec<(String, Meta)>>> {
    let Some(text) = checkpoint.sidecar("tokenizer.json")? else { return Ok(None) };
    let tokenizer = parse(checkpoint, "tokenizer.json", &text)?;
    let config = match checkpoint.sidecar("tokenizer_config.json")? {
        Some(text) => parse(checkpoint, "tokenizer_config.json", &text)?,
        None => Value::Null,
    };
    let source = Vocabulary { checkpoint, tokenizer: &tokenizer, config: &config };
    let mut pairs =
        vec![("tokenizer.ggml.model".into(), Meta::Text("gpt2".into())), ("tokenizer.ggml.pre".into(), Meta::Text(source.pre()?.into()))];
    let ids = source.tokens(size, &mut pairs)?;
    source.roles(&ids, size, &mut pairs)?;
    source.templates(&mut pairs)?;
    Ok(Some(pairs))
}

fn parse(checkpoint: &Checkpoint, file: &str, text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|e| wrong(checkpoint, file, "the file", format!("is not JSON: {e}")))
}

fn wrong(checkpoint: &Checkpoint, file: &str, key: &str, what: impl Into<String>) -> Error {
    Error::Setting { path: checkpoint.path.join(file), key: key.into(), what: what.into() }
}

struct Vocabulary<'a> {
    checkpoint: &'a Checkpoint,
    tokenizer: &'a Value,
    config: &'a Value,
}

impl<'a> Vocabulary<'a> {
    fn wrong(&self, key: &str, what: impl Into<String>) -> Error {
        wrong(self.checkpoint, "tokenizer.json", key, what)
    }

    /// The name of the pre-tokenizer.
    fn pre(&self) -> Result<&'static str> {
        let mut splits = vec![];
        let mut byte_level = false;
        let top = &self.tokenizer["pre_tokenizer"];
        let steps = top["pretokenizers"].as_array().map_or(std::slice::from_ref(top), Vec::as_slice);
        for step in steps {
            match step["type"].as_str().unwrap_or("null") {
                "Split" => splits.push(step["pattern"]["Regex"].as_str().unwrap_or("a plain string")),
                "Digits" if step["individual_digits"] == true => splits.push("digits"),
                "ByteLevel" => {
                    byte_level = true;
                    if step["use_regex"] != false {
                        splits.push("gpt2");
                    }
                }
                other => return Err(self.wrong("pre_tokenizer", format!("has a step `{other}`; byte-level BPE can be converted"))),
            }
        }
        let known = PRE.iter().find(|(_, patterns)| byte_level && *patterns == splits).map(|(name, _)| *name);
        known.ok_or_else(|| self.wrong("pre_tokenizer", "has no name in GGUF that is known here"))
    }

    /// Tokens, their kinds, and merges; gives the ids of added tokens by text.
    fn tokens(&self, size: usize, pairs: &mut Vec<(String, Meta)>) -> Result<HashMap<&'a str, usize>> {
        let model = &self.tokenizer["model"];
        let (Some(vocabulary), Some(merges)) = (model["vocab"].as_object(), model["merges"].as_array()) else {
            return Err(self.wrong("model", "has no `vocab` and `merges`; byte-level BPE can be converted"));
        };
        let mut texts: Vec<Option<(&str, i64)>> = vec![None; size];
        let mut put = |text: &'a str, id: Option<u64>, kind: i64| match id.and_then(|id| texts.get_mut(usize::try_from(id).ok()?)) {
            Some(place) => {
                *place = Some((text, kind));
                Ok(())
            }
            None => Err(self.wrong("model.vocab", format!("gives `{}` an id that the model's {size} tokens do not reach", short(text)))),
        };
        for (text, id) in vocabulary {
            put(text, id.as_u64(), kind::NORMAL)?;
        }
        let mut added = HashMap::new();
        for token in self.tokenizer["added_tokens"].as_array().into_iter().flatten() {
            let text = token["content"].as_str().ok_or_else(|| self.wrong("added_tokens", "has an entry without text"))?;
            put(text, token["id"].as_u64(), if token["special"] == true { kind::CONTROL } else { kind::USER_DEFINED })?;
            added.insert(text, token["id"].as_u64().unwrap_or_default() as usize);
        }
        let mut tokens = Texts::with_capacity(size);
        let mut kinds = Vec::with_capacity(size);
        for (id, token) in texts.iter().enumerate() {
            let unused = format!("[PAD{id}]"); // rows of the table that no token has
            let (text, kind) = token.unwrap_or((&unused, kind::UNUSED));
            tokens.push(text.as_bytes());
            kinds.push(kind);
        }
        let mut lines = Texts::with_capacity(merges.len());
        for merge in merges {
            let line = match merge {
                Value::String(line) => line.clone(),
                Value::Array(pair) => pair.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
                _ => return Err(self.wrong("model.merges", "has an entry that is neither a line nor a pair")),
            };
            lines.push(line.as_bytes());
        }
        pairs.push(("tokenizer.ggml.tokens".into(), Meta::Texts(tokens)));
        pairs.push(("tokenizer.ggml.token_type".into(), Meta::Integers(kinds)));
        pairs.push(("tokenizer.ggml.merges".into(), Meta::Texts(lines)));
        Ok(added)
    }

    /// The tokens that begin and end texts.
    fn roles(&self, added: &HashMap<&str, usize>, size: usize, pairs: &mut Vec<(String, Meta)>) -> Result<()> {
        // A token of `tokenizer_config.json` is its text, or an object that holds it.
        let named = |role: &str| -> Option<usize> {
            let token = &self.config[role];
            added.get(token.as_str().or_else(|| token["content"].as_str())?).copied()
        };
        let numbered = |role: &str| -> Vec<usize> {
            let of = |config: &Map<String, Value>| match config.get(role) {
                Some(Value::Array(ids)) => ids.iter().filter_map(Value::as_u64).collect(),
                Some(id) => id.as_u64().into_iter().collect::<Vec<u64>>(),
                None => vec![],
            };
            let all = of(&self.checkpoint.generation_config).into_iter().chain(of(&self.checkpoint.config));
            all.filter_map(|id| usize::try_from(id).ok().filter(|id| *id < size)).collect()
        };
        let mut role = |key: &str, id: Option<usize>| {
            if let Some(id) = id {
                pairs.push((format!("tokenizer.ggml.{key}"), Meta::Unsigned(id as u64)));
            }
        };
        let bos = named("bos_token").or_else(|| numbered("bos_token_id").first().copied());
        let ends: BTreeSet<usize> = numbered("eos_token_id").into_iter().chain(named("eos_token")).collect();
        let eos = named("eos_token").or_else(|| numbered("eos_token_id").first().copied());
        role("bos_token_id", bos);
        role("eos_token_id", eos);
        role("eot_token_id", ends.iter().copied().find(|id| Some(*id) != eos));
        role("padding_token_id", named("pad_token"));
        let begins = bos.is_some() && self.begins_with(bos);
        pairs.push(("tokenizer.ggml.add_bos_token".into(), Meta::Bool(begins)));
        Ok(())
    }

    /// Whether the post-processor, or where there is none the configuration, puts `bos` before a text.
    fn begins_with(&self, bos: Option<usize>) -> bool {
        let top = &self.tokenizer["post_processor"];
        let steps = top["processors"].as_array().map_or(std::slice::from_ref(top), Vec::as_slice);
        for step in steps.iter().filter(|s| s["type"] == "TemplateProcessing") {
            let Some(name) = step["single"][0]["SpecialToken"]["id"].as_str() else { continue };
            let id = step["special_tokens"][name]["ids"][0].as_u64();
            return id.is_some() && id.map(|id| id as usize) == bos;
        }
        self.config["add_bos_token"] == true && top.is_null()
    }

    /// Chat templates: a file of their own, one text, or a list of named ones.
    fn templates(&self, pairs: &mut Vec<(String, Meta)>) -> Result<()> {
        const KEY: &str = "tokenizer.chat_template";
        if let Some(text) = self.checkpoint.sidecar("chat_template.jinja")? {
            pairs.push((KEY.into(), Meta::Text(text)));
            return Ok(());
        }
        match &self.config["chat_template"] {
            Value::String(text) => pairs.push((KEY.into(), Meta::Text(text.clone()))),
            Value::Array(list) => {
                let mut names = Texts::default();
                for entry in list {
                    let (Some(name), Some(text)) = (entry["name"].as_str(), entry["template"].as_str()) else { continue };
                    if name == "default" {
                        pairs.push((KEY.into(), Meta::Text(text.into())));
                    } else {
                        names.push(name.as_bytes());
                        pairs.push((format!("{KEY}.{name}"), Meta::Text(text.into())));
                    }
                }
                if !names.is_empty() {
                    pairs.push(("tokenizer.chat_templates".into(), Meta::Texts(names)));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// A text for a message.
fn short(text: &str) -> String {
    text.chars().take(40).collect()
}
