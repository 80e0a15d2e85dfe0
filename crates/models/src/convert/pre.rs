//! What GGUF calls a pre-tokenizer (`tokenizer.ggml.pre`). llama.cpp knows each by the vocabulary that it came with; here it is known
//! by what it does.

use serde_json::Value;

/// A pre-tokenizer that llama.cpp has a name for.
struct Pre {
    name: &'static str,
    /// Whether texts are brought to Unicode's composed form first.
    nfc: bool,
    /// Whether a word that is a token is taken as it is, without merging. `None`: makes no difference.
    ignore_merges: Option<bool>,
    /// The patterns that it splits at, in order; or [`DIGITS`], [`GPT2`].
    patterns: &'static [&'static str],
}

const fn pre(name: &'static str, nfc: bool, ignore_merges: Option<bool>, patterns: &'static [&'static str]) -> Pre {
    Pre { name, nfc, ignore_merges, patterns }
}

/// The step that splits digits one by one.
const DIGITS: &str = "digits";
/// GPT-2's split, which byte-level steps do unless told not to.
const GPT2: &str = "gpt2";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN35: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const O200K: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

const ALL: &[Pre] = &[
    pre("gpt-2", false, None, &[GPT2]),
    pre("olmo", true, None, &[GPT2]),
    pre("smollm", false, None, &[DIGITS, GPT2]),
    pre("command-r", true, None, &[DIGITS, GPT2]),
    pre("llama-bpe", false, Some(true), &[LLAMA3]),
    pre("smaug-bpe", false, Some(false), &[LLAMA3]),
    pre("qwen2", true, None, &[QWEN2]),
    pre("stablelm2", false, None, &[QWEN2]),
    pre("qwen35", true, None, &[QWEN35]),
    pre("gpt-4o", false, None, &[O200K]),
];

/// The name of the pre-tokenizer of a byte-level `tokenizer.json`, or why it has none.
pub(super) fn name(tokenizer: &Value) -> Result<&'static str, String> {
    let top = &tokenizer["pre_tokenizer"];
    let steps = top["pretokenizers"].as_array().map_or(std::slice::from_ref(top), Vec::as_slice);
    let mut patterns = vec![];
    let mut byte_level = false;
    for step in steps {
        match step["type"].as_str().unwrap_or("null") {
            "Split" => patterns.push(step["pattern"]["Regex"].as_str().unwrap_or("a plain string")),
            "Digits" if step["individual_digits"] == true => patterns.push(DIGITS),
            "ByteLevel" => {
                byte_level = true;
                if step["use_regex"] != false {
                    patterns.push(GPT2);
                }
            }
            other => return Err(format!("has a step `{other}`; byte-level BPE can be converted")),
        }
    }
    let nfc = tokenizer["normalizer"]["type"] == "NFC";
    let ignore_merges = tokenizer["model"]["ignore_merges"] == true;
    let fits = |p: &&Pre| byte_level && p.patterns == patterns && p.nfc == nfc && p.ignore_merges.is_none_or(|i| i == ignore_merges);
    ALL.iter().find(fits).map(|p| p.name).ok_or_else(|| "has no name in GGUF that is known here".into())
}
