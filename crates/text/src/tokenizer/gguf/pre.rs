//! What the names of pre-tokenizers in GGUF files (`tokenizer.ggml.pre`) stand for.
//!
//! The names are llama.cpp's (`llama-vocab.cpp`). What each stands for is the `tokenizer.json` of the models that it was made
//! for: expressions by which text is cut one after the other, and, where those have it, NFC normalization, which llama.cpp
//! leaves out.

use crate::{
    Result,
    tokenizer::{
        scan::{
            BAILING, DEEPSEEK, DIGIT, DIGITS_3, EXAONE_MOE, GPT2, KIMI, LLAMA3, LLAMA3_NUMBERS, O200K, O200K_DIGIT, QWEN2,
            QWEN2_NO_CONTRACTIONS, QWEN35, SEED, SPARK, TEKKEN, THREE_DIGITS,
        },
        split::{Behavior, DigitGroups, Pattern, Step},
    },
};

/// What tokens are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alphabet {
    /// GPT-2's alphabet of bytes.
    Bytes,
    /// Characters; white space is no token.
    Chars,
    /// Characters, with `▁` for spaces.
    Pieces,
}

/// By what text is cut.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cut {
    At(&'static str),
    Digits(DigitGroups),
    Halves,
}
use Cut::At;

impl Cut {
    pub(super) fn step(self, origin: &str) -> Result<Step> {
        let pattern = match self {
            At(expression) => Pattern::regex(origin, expression)?,
            Self::Digits(groups) => Pattern::Digits(groups),
            Self::Halves => Pattern::Halves,
        };
        Ok(Step::Split { pattern, behavior: Behavior::Isolated, invert: false })
    }
}

/// A kind of pre-tokenizer.
pub(super) struct Pre {
    names: &'static [&'static str],
    /// Text is composed first.
    pub(super) nfc: bool,
    /// Text is cut by these, one after the other.
    pub(super) cuts: &'static [Cut],
    pub(super) alphabet: Alphabet,
    /// A word that is a token is that token, whatever merges would give.
    pub(super) ignore_merges: bool,
    /// Whether texts begin with the beginning-of-text token, where the file does not say.
    pub(super) add_bos: bool,
}

const PLAIN: Pre = Pre { names: &[], nfc: false, cuts: &[], alphabet: Alphabet::Bytes, ignore_merges: false, add_bos: false };

const BLOOM: &str = " ?[^(\\s|.,!?…。，、।۔،)]+";
const LINES: &str = r"[^\n]+|[\n]+";
/// Cased letters, as DeepSeek LLM's `tokenizer.json` lists them.
const DEEPSEEK_LETTERS: &str = concat!(
    r"\s?[",
    "A-Za-z\u{b5}\u{c0}-\u{d6}\u{d8}-\u{f6}\u{f8}-\u{1ba}\u{1bc}-\u{1bf}\u{1c4}-\u{293}\u{295}-\u{2af}",
    "\u{370}-\u{373}\u{376}\u{377}\u{37b}-\u{37d}\u{37f}\u{386}\u{388}-\u{38a}\u{38c}\u{38e}-\u{3a1}\u{3a3}-\u{3f5}",
    "\u{3f7}-\u{481}\u{48a}-\u{52f}\u{531}-\u{556}\u{10a0}-\u{10c5}\u{13a0}-\u{13f5}\u{13f8}-\u{13fd}",
    "\u{1c90}-\u{1cba}\u{1cbd}-\u{1cbf}\u{1d00}-\u{1d2b}\u{1d6b}-\u{1d77}\u{1d79}-\u{1d9a}\u{1e00}-\u{1f15}",
    "\u{1f18}-\u{1f1d}\u{1f20}-\u{1f45}\u{1f48}-\u{1f4d}\u{1f50}-\u{1f57}\u{1f59}\u{1f5b}\u{1f5d}\u{1f5f}-\u{1f7d}",
    "\u{1f80}-\u{1fb4}\u{1fb6}-\u{1fbc}\u{1fbe}\u{1fc2}-\u{1fc4}\u{1fc6}-\u{1fcc}\u{1fd0}-\u{1fd3}\u{1fd6}-\u{1fdb}",
    "\u{1fe0}-\u{1fec}\u{1ff2}-\u{1ff4}\u{1ff6}-\u{1ffc}\u{2102}\u{2107}\u{210a}-\u{2113}\u{2115}\u{2119}-\u{211d}",
    "\u{2124}\u{2126}\u{2128}\u{212a}-\u{212d}\u{212f}-\u{2134}\u{2139}\u{213c}-\u{213f}\u{2145}-\u{2149}\u{214e}",
    "\u{2183}\u{2184}\u{2c00}-\u{2c7b}\u{2c7e}-\u{2ce4}\u{2ceb}-\u{2cee}\u{2cf2}\u{2cf3}\u{a640}-\u{a66d}",
    "\u{a680}-\u{a69b}\u{a722}-\u{a76f}\u{a771}-\u{a787}\u{a78b}-\u{a78e}\u{ab70}-\u{abbf}\u{fb00}-\u{fb06}",
    "\u{fb13}-\u{fb17}\u{ff21}-\u{ff3a}\u{ff41}-\u{ff5a}\u{10400}-\u{1044f}\u{104b0}-\u{104d3}\u{104d8}-\u{104fb}",
    "\u{10c80}-\u{10cb2}\u{10cc0}-\u{10cf2}\u{118a0}-\u{118df}\u{1e900}-\u{1e943}",
    "]+",
);
const DEEPSEEK_CJK: &str = "[一-龥ࠀ-一가-\u{d7ff}]+";
/// Scripts that write no spaces, as AFMoE has them.
const AFMOE_CJK: &str = concat!(
    "[\u{4e00}-\u{9fff}\u{3400}-\u{4dbf}\u{f900}-\u{faff}\u{3040}-\u{309f}\u{30a0}-\u{30ff}\u{ff65}-\u{ff9f}\u{2f00}-\u{2fdf}",
    "\u{e40}-\u{e7f}\u{e80}-\u{eff}\u{1780}-\u{17ff}\u{1000}-\u{109f}\u{aa60}-\u{aa7f}\u{a9e0}-\u{a9ff}\u{ac00}-\u{d7af}\u{1100}-\u{11ff}]+",
);
const YOUTU_CJK: &str = concat!("[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，\u{3001}-\u{303f}\u{fe30}-\u{fe4f}]+|[ㄅ-ㄯ]+|", "[一-龥\u{3040}-ゟ゠-ヿ]+",);

const ALL: &[Pre] = &[
    Pre {
        names: &[
            "gpt-2",
            "phi-2",
            "jina-es",
            "jina-de",
            "jina-v1-en",
            "jina-v2-es",
            "jina-v2-de",
            "jina-v2-code",
            "roberta-bpe",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "exaone4",
            "jais",
            "trillion",
            "granite-docling",
        ],
        cuts: &[At(GPT2)],
        ..PLAIN
    },
    Pre { names: &["mpt", "olmo", "modern-bert"], nfc: true, cuts: &[At(GPT2)], ..PLAIN },
    Pre {
        names: &["smollm", "starcoder", "refact", "codeshell", "exaone", "minerva-7b", "mellum2"],
        cuts: &[At(DIGIT), At(GPT2)],
        ..PLAIN
    },
    Pre { names: &["command-r"], nfc: true, cuts: &[At(DIGIT), At(GPT2)], ..PLAIN },
    Pre {
        names: &["llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"],
        cuts: &[At(LLAMA3)],
        ignore_merges: true,
        add_bos: true,
        ..PLAIN
    },
    Pre { names: &["dbrx", "smaug-bpe", "glm4", "chatglm-bpe"], cuts: &[At(LLAMA3)], ..PLAIN },
    Pre { names: &["minicpm5"], cuts: &[At(DIGITS_3), At(LLAMA3_NUMBERS)], ignore_merges: true, ..PLAIN },
    Pre { names: &["jais-2"], cuts: &[At(LLAMA3), Cut::Halves], ..PLAIN },
    Pre { names: &["qwen2", "deepseek-r1-qwen", "kormo", "megrez", "f2llmv2"], nfc: true, cuts: &[At(QWEN2)], ..PLAIN },
    Pre { names: &["stablelm2", "hunyuan", "solar-open", "grok-2"], cuts: &[At(QWEN2)], ..PLAIN },
    Pre { names: &["qwen35"], nfc: true, cuts: &[At(QWEN35)], ..PLAIN },
    Pre { names: &["laguna"], cuts: &[At(LINES), At(QWEN2)], ..PLAIN },
    Pre { names: &["ufakzeka"], cuts: &[At(QWEN2_NO_CONTRACTIONS)], ..PLAIN },
    Pre { names: &["gpt-4o", "llama4", "minimax-m2", "granite-embed-multi-97m"], cuts: &[At(O200K)], ignore_merges: true, ..PLAIN },
    Pre { names: &["kanana2", "talkie"], cuts: &[At(O200K)], ..PLAIN },
    Pre { names: &["tiny_aya", "cohere2moe"], cuts: &[Cut::Digits(DigitGroups::BeforeBoundary), At(O200K)], ..PLAIN },
    Pre { names: &["tekken"], cuts: &[At(TEKKEN)], ignore_merges: true, add_bos: true, ..PLAIN },
    Pre { names: &["youtu"], cuts: &[At(YOUTU_CJK), At(O200K_DIGIT)], ignore_merges: true, ..PLAIN },
    Pre { names: &["kimi-k2"], cuts: &[At(KIMI)], ..PLAIN },
    Pre {
        names: &["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"],
        cuts: &[At(DEEPSEEK[0]), At(DEEPSEEK[1]), At(DEEPSEEK[2])],
        ..PLAIN
    },
    Pre { names: &["spark2_5"], cuts: &[At(DEEPSEEK[0]), At(DEEPSEEK[1]), At(SPARK), At(DIGIT)], ..PLAIN },
    Pre { names: &["afmoe"], cuts: &[Cut::Digits(DigitGroups::All), At(AFMOE_CJK), At(DEEPSEEK[2])], ..PLAIN },
    Pre {
        names: &["deepseek-llm"],
        cuts: &[
            At(r"[\r\n]"),
            At(DEEPSEEK_LETTERS),
            At(r"\s?[!-/:-~！-／：-～‘-‟\x{3000}-。]+"),
            At(r"\s+$"),
            At(DEEPSEEK_CJK),
            At(r"\p{N}+"),
        ],
        ..PLAIN
    },
    Pre { names: &["deepseek-coder"], cuts: &[At(r"[\r\n]"), At(r"\s?\p{L}+"), At(r"\s?\p{P}+"), At(DEEPSEEK_CJK), At(DIGIT)], ..PLAIN },
    Pre { names: &["falcon"], cuts: &[At(r"[\p{P}\$\+<=>\^~\|`]+"), At(GPT2), At(THREE_DIGITS)], ..PLAIN },
    Pre { names: &["default"], cuts: &[At(r"[\p{P}\$\+<=>\^~\|]+"), At(GPT2), At(r"\p{N}+"), At(THREE_DIGITS)], ..PLAIN },
    Pre {
        names: &["chameleon"],
        cuts: &[
            At("<sentinel:[0-9]+>"),
            At("(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"),
            At(r"([\t\n]|    |  )"),
            At(DIGIT),
            At(r"[\p{P}!-/:-@\[-`{-~]"),
            At(GPT2),
        ],
        add_bos: true,
        ..PLAIN
    },
    Pre { names: &["bloom", "poro-chat", "gpt3-finnish"], cuts: &[At(BLOOM)], ..PLAIN },
    Pre { names: &["viking"], cuts: &[At(BLOOM), At(DIGIT)], ..PLAIN },
    Pre { names: &["superbpe"], cuts: &[At(r"\p{N}+"), Cut::Digits(DigitGroups::Cuts)], ..PLAIN },
    Pre { names: &["bailingmoe", "bailingmoe2", "llada-moe"], cuts: &[At(BAILING)], ..PLAIN },
    Pre { names: &["seed-coder"], cuts: &[At(SEED)], ..PLAIN },
    Pre { names: &["exaone-moe"], cuts: &[At(EXAONE_MOE)], ..PLAIN },
    Pre { names: &["gemma4", "granite-embed-multi-311m"], cuts: &[At(LINES)], alphabet: Alphabet::Pieces, add_bos: true, ..PLAIN },
    Pre { names: &["sarvam-moe"], cuts: &[At(LINES)], alphabet: Alphabet::Pieces, ..PLAIN },
    Pre { names: &["whitespace"], alphabet: Alphabet::Chars, ..PLAIN },
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
    use std::collections::HashSet;

    #[test]
    fn every_expression_is_read_and_every_name_is_one_kind() {
        let mut seen = HashSet::new();
        for pre in ALL {
            assert!(!pre.cuts.is_empty() || pre.alphabet == Alphabet::Chars);
            for cut in pre.cuts {
                cut.step("").unwrap();
            }
            for name in pre.names {
                assert!(seen.insert(name), "{name}");
            }
        }
        assert!(find("qwen2").is_some() && find("gpt-5").is_none());
    }
}
