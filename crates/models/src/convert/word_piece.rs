//! BERT's WordPiece (Devlin et al. 2018, arXiv:1810.04805), as `tokenizer.json` or `vocab.txt` describe it.

use super::vocabulary::Tokens;
use onebit_text::tokenizer::LONGEST_WORD;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// What GGUF files call the tokens that `tokenizer_config.json` names.
pub(super) const ROLES: [(&str, &str); 5] = [
    ("bos_token_id", "cls_token"),
    ("seperator_token_id", "sep_token"),
    ("unknown_token_id", "unk_token"),
    ("padding_token_id", "pad_token"),
    ("mask_token_id", "mask_token"),
];

/// Texts of the tokens with roles, where `tokenizer_config.json` does not name them.
const USUAL: [(&str, &str); 5] =
    [("cls_token", "[CLS]"), ("sep_token", "[SEP]"), ("unk_token", "[UNK]"), ("pad_token", "[PAD]"), ("mask_token", "[MASK]")];

/// The token that has a role by its usual text.
pub(super) fn usual(tokens: &Tokens<'_>, role: &str) -> Option<usize> {
    let (_, text) = USUAL.iter().find(|(name, _)| *name == role)?;
    tokens.added.get(text).copied()
}

/// What a piece that continues a word begins with.
const CONTINUATION: &str = "##";

/// A piece as GGUF files write it: with a mark where it can start a word, and plain where it continues one.
pub(super) fn written(piece: &str) -> Cow<'_, str> {
    match piece.strip_prefix(CONTINUATION) {
        Some(rest) => rest.into(),
        None => format!("▁{piece}").into(),
    }
}

/// What is done to a text before it is cut into words.
pub(super) struct How {
    pub(super) lowercase: bool,
    pub(super) strip_accents: bool,
}

/// What the steps of the tokenizer do; or the key of a step that GGUF has no way to say, and why.
pub(super) fn read(tokenizer: &Value) -> Result<How, (&'static str, String)> {
    let (model, normalizer) = (&tokenizer["model"], &tokenizer["normalizer"]);
    let other = |key, found: &Value, known: &str| (key, format!("is {found}; GGUF files of WordPiece mean {known}"));
    let stated = |value: &Value, known: Value| value.is_null() || *value == known;
    if !stated(&model["continuing_subword_prefix"], json!(CONTINUATION)) {
        return Err(other("model.continuing_subword_prefix", &model["continuing_subword_prefix"], CONTINUATION));
    }
    if !stated(&model["max_input_chars_per_word"], json!(LONGEST_WORD)) {
        return Err(other("model.max_input_chars_per_word", &model["max_input_chars_per_word"], &LONGEST_WORD.to_string()));
    }
    if normalizer["type"] != "BertNormalizer" {
        return Err(other("normalizer.type", &normalizer["type"], "BertNormalizer"));
    }
    if tokenizer["pre_tokenizer"]["type"] != "BertPreTokenizer" {
        return Err(other("pre_tokenizer.type", &tokenizer["pre_tokenizer"]["type"], "BertPreTokenizer"));
    }
    for (key, step) in [("normalizer.clean_text", "clean_text"), ("normalizer.handle_chinese_chars", "handle_chinese_chars")] {
        if normalizer[step] == false {
            return Err(other(key, &normalizer[step], "true"));
        }
    }
    let lowercase = normalizer["lowercase"] != false;
    Ok(How { lowercase, strip_accents: normalizer["strip_accents"].as_bool().unwrap_or(lowercase) })
}

/// `vocab.txt`, a token in each line, and `tokenizer_config.json` as `tokenizer.json` would describe them.
pub(super) fn of_list(list: &str, config: &Value) -> Value {
    let lines = list.strip_suffix('\n').unwrap_or(list).split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    let vocab: Map<String, Value> =
        lines.enumerate().filter(|(_, line)| !line.is_empty()).map(|(id, line)| (line.into(), id.into())).collect();
    let text = |role: &str, usual: &str| {
        let token = &config[role];
        token.as_str().or_else(|| token["content"].as_str()).unwrap_or(usual).to_owned()
    };
    let special = USUAL.iter().filter_map(|(role, usual)| {
        let content = text(role, usual);
        let id = vocab.get(&content)?.clone();
        Some(json!({ "id": id, "content": content, "special": true }))
    });
    let added: Vec<Value> = special.collect();
    let flag = |key: &str, usual: bool| config[key].as_bool().unwrap_or(usual);
    json!({
        "added_tokens": added,
        "normalizer": {
            "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": flag("tokenize_chinese_chars", true),
            "strip_accents": config["strip_accents"], "lowercase": flag("do_lower_case", true),
        },
        "pre_tokenizer": { "type": "BertPreTokenizer" },
        "model": { "type": "WordPiece", "unk_token": text("unk_token", "[UNK]"), "vocab": vocab },
    })
}
