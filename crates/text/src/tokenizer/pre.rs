//! What the names of pre-tokenizers in GGUF files (`tokenizer.ggml.pre`) stand for.
//!
//! The names are llama.cpp's (`llama-vocab.cpp`). What each stands for is the `tokenizer.json` of the models that it was made
//! for: expressions by which text is cut one after the other, and, where those have it, NFC normalization, which llama.cpp
//! leaves out.

use super::scan::{DEEPSEEK, DIGIT, GPT2, LLAMA3, O200K, QWEN2, QWEN35, TEKKEN};

/// A kind of pre-tokenizer.
pub(super) struct Pre {
    names: &'static [&'static str],
    /// Text is composed first.
    pub(super) nfc: bool,
    /// Text is cut at the matches of these, one after the other.
    pub(super) splits: &'static [&'static str],
    /// A word that is a token is that token, whatever merges would give.
    pub(super) ignore_merges: bool,
    /// Whether texts begin with the beginning-of-text token, where the file does not say.
    pub(super) add_bos: bool,
}

const PLAIN: Pre = Pre { names: &[], nfc: false, splits: &[], ignore_merges: false, add_bos: false };

const BLOOM: &str = " ?[^(\\s|.,!?…。，、।۔،)]+";

const ALL: &[Pre] = &[
    Pre {
        names: &[
            "gpt-2",
            "phi-2",
            "jina-es",
            "jina-de",
            "jina-v2-es",
            "jina-v2-de",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "exaone4",
            "jais",
            "trillion",
            "granite-docling",
        ],
        splits: &[GPT2],
        ..PLAIN
    },
    Pre { names: &["mpt", "olmo", "modern-bert"], nfc: true, splits: &[GPT2], ..PLAIN },
    Pre { names: &["smollm", "starcoder", "refact", "codeshell", "exaone", "minerva-7b"], splits: &[DIGIT, GPT2], ..PLAIN },
    Pre { names: &["command-r"], nfc: true, splits: &[DIGIT, GPT2], ..PLAIN },
    Pre {
        names: &["llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"],
        splits: &[LLAMA3],
        ignore_merges: true,
        add_bos: true,
        ..PLAIN
    },
    Pre { names: &["dbrx", "smaug-bpe", "glm4", "chatglm-bpe"], splits: &[LLAMA3], ..PLAIN },
    Pre { names: &["qwen2", "deepseek-r1-qwen", "kormo", "megrez"], nfc: true, splits: &[QWEN2], ..PLAIN },
    Pre { names: &["stablelm2", "hunyuan", "solar-open", "grok-2"], splits: &[QWEN2], ..PLAIN },
    Pre { names: &["qwen35"], nfc: true, splits: &[QWEN35], ..PLAIN },
    Pre { names: &["gpt-4o", "llama4", "minimax-m2"], splits: &[O200K], ignore_merges: true, ..PLAIN },
    Pre { names: &["tekken"], splits: &[TEKKEN], ignore_merges: true, add_bos: true, ..PLAIN },
    Pre { names: &["deepseek-v3", "hunyuan-dense"], splits: &DEEPSEEK, ..PLAIN },
    Pre { names: &["deepseek-coder"], splits: &[r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-\u{d7ff}]+", DIGIT], ..PLAIN },
    Pre { names: &["falcon"], splits: &[r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"], ..PLAIN },
    Pre { names: &["default"], splits: &[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"], ..PLAIN },
    Pre { names: &["bloom", "poro-chat", "gpt3-finnish"], splits: &[BLOOM], ..PLAIN },
    Pre { names: &["viking"], splits: &[BLOOM, DIGIT], ..PLAIN },
    Pre {
        names: &["bailingmoe", "bailingmoe2", "llada-moe"],
        splits: &[r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"],
        ..PLAIN
    },
    Pre {
        names: &["seed-coder"],
        splits: &[r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"],
        ..PLAIN
    },
];

/// The kind that a name stands for.
pub(super) fn find(name: &str) -> Option<&'static Pre> {
    ALL.iter().find(|pre| pre.names.contains(&name))
}

/// All names, for messages.
pub(super) fn names() -> String {
    ALL.iter().flat_map(|pre| pre.names).copied().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::split::Pattern;
    use std::collections::HashSet;

    #[test]
    fn every_expression_is_read_and_every_name_is_one_kind() {
        let mut seen = HashSet::new();
        for pre in ALL {
            assert!(!pre.splits.is_empty());
            for split in pre.splits {
                Pattern::regex("", split).unwrap();
            }
            for name in pre.names {
                assert!(seen.insert(name), "{name}");
            }
        }
        assert!(find("qwen2").is_some() && find("gpt-5").is_none());
    }
}
