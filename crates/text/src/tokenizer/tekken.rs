//! Mistral's `tekken.json` (mistral-common's `tekken.py`): tokens of bytes with ranks, which come after the special tokens.

use super::{Tokenizer, added::AddedToken, base64, config::Config, tiktoken::Ranked};
use crate::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
struct File {
    config: Settings,
    vocab: Vec<Token>,
    special_tokens: Option<Vec<Special>>,
}

#[derive(Deserialize)]
struct Settings {
    pattern: String,
    default_vocab_size: u32,
    default_num_special_tokens: u32,
}

#[derive(Deserialize)]
struct Token {
    rank: u32,
    /// In base 64.
    token_bytes: String,
}

#[derive(Deserialize)]
struct Special {
    rank: u32,
    token_str: String,
}

/// The special tokens of files that name none.
const SPECIAL: &[&str] = &[
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
];

/// `ends`: ids of tokens that end a generation, from other files.
pub(super) fn read(origin: &str, text: &str, ends: &[u32]) -> Result<Tokenizer> {
    let file: File = serde_json::from_str(text).map_err(|e| Error::invalid(origin, e.to_string()))?;
    let Settings { pattern, default_vocab_size: size, default_num_special_tokens: special } = &file.config;
    let wrong = |what: String| Err(Error::invalid(origin, what));
    if *special < 3 || special >= size {
        return wrong(format!("`default_num_special_tokens` is {special}, and `default_vocab_size` {size}"));
    }
    let named = match file.special_tokens {
        Some(tokens) => tokens.into_iter().map(|token| (token.rank, token.token_str)).collect(),
        None => (0u32..).zip(SPECIAL.iter().map(|text| (*text).to_owned())).collect::<Vec<_>>(),
    };
    let count = (*special as usize).min(named.len() + file.vocab.len() + 1024) as u32;
    let mut texts: Vec<String> = (0..count).map(|id| format!("<SPECIAL_{id}>")).collect();
    for (id, text) in named {
        match texts.get_mut(id as usize) {
            Some(slot) => *slot = text,
            None => return wrong(format!("the special token `{text}` has rank {id}, but there are {special}")),
        }
    }
    let added = (0u32..).zip(texts).map(|(id, content)| AddedToken { id, content, special: true, ..AddedToken::default() });
    let mut ranks = Vec::with_capacity(file.vocab.len());
    for token in file.vocab.iter().filter(|token| token.rank < size - special) {
        let bytes = base64::decode(token.token_bytes.as_bytes()).filter(|bytes| !bytes.is_empty());
        let Some(bytes) = bytes else { return wrong(format!("the token of rank {} is not in base 64", token.rank)) };
        ranks.push((bytes, token.rank + special));
    }
    let config = Config::named("<s>", "</s>");
    Ranked { origin, ranks, added: added.collect(), pattern, normalizers: Vec::new() }.read(&config, &["<s>"], ends)
}
