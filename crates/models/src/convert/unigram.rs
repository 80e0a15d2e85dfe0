//! SentencePiece's unigram (Kudo 2018, arXiv:1804.10959) as `tokenizer.json` describes it: what is done to a text before it is cut.

use onebit_text::tokenizer::base64;
use serde_json::Value;

/// The score of rows that no piece has, as llama.cpp's converter writes it.
pub(super) const UNUSED: f32 = -10_000.0;

/// What becomes of spaces and characters.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Spaces {
    /// A text is read as if it began with a space.
    pub(super) prefix: bool,
    /// Spaces around the text go, and several become one.
    pub(super) merged: bool,
    /// SentencePiece's compiled rules; empty where characters are left alone.
    pub(super) charsmap: Vec<u8>,
}

/// What the steps of normalizer and pre-tokenizer do; or the key of a step that GGUF has no way to say, and why.
pub(super) fn spaces(normalizers: &[Value], pre_tokenizers: &[Value]) -> Result<Spaces, (&'static str, String)> {
    let mut spaces = Spaces::default();
    let unknown = |step: &Value| format!("has the step {}, which GGUF has no way to say of a unigram model", step["type"]);
    for step in normalizers.iter().filter(|step| !step.is_null()) {
        let several = step["pattern"]["Regex"] == " {2,}" && (step["content"] == " " || step["content"] == "▁");
        match step["type"].as_str() {
            Some("Precompiled") => {
                let text = step["precompiled_charsmap"].as_str().unwrap_or_default();
                spaces.charsmap =
                    base64::decode(text.as_bytes()).ok_or_else(|| ("normalizer", "has rules that are not base64".to_string()))?;
            }
            Some("Replace") if several => spaces.merged = true,
            Some("Strip") => {}
            _ => return Err(("normalizer", unknown(step))),
        }
    }
    for step in pre_tokenizers.iter().filter(|step| !step.is_null()) {
        match step["type"].as_str() {
            Some("WhitespaceSplit") => spaces.merged = true,
            Some("Metaspace") => spaces.prefix = step["prepend_scheme"] != "never" && step["add_prefix_space"] != false,
            _ => return Err(("pre_tokenizer", unknown(step))),
        }
    }
    Ok(spaces)
}
