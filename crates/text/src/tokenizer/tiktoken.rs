//! tiktoken's files: a token in each line, its bytes in base 64 and its rank. What else there is to know (the expression by which
//! text is cut, the special tokens) is in the code of those who use them; it is here for those known.

use super::{
    Parts, Tokenizer,
    added::AddedToken,
    base64,
    bpe::{self, Bpe},
    bytes,
    config::Config,
    decode::Output,
    model::Model,
    normalize::Normalizer,
    scan::{CL100K, GPT2, KIMI, LLAMA3, O200K, QWEN2},
    split::{Behavior, Pattern, Step},
    strings::Strings,
    vocabulary::Vocabulary,
};
use crate::{Error, Result};
use std::borrow::Cow;

/// Who uses such files, and how.
struct User {
    /// The `tokenizer_class`, or the name of the file without its end.
    names: &'static [&'static str],
    pattern: &'static str,
    nfc: bool,
    /// Special tokens beyond those in `tokenizer_config.json`, with their ids.
    special: fn(ranks: u32) -> Vec<(u32, String)>,
    /// Special tokens before each text.
    before: &'static [&'static str],
}

fn fixed(tokens: &[(u32, &str)]) -> Vec<(u32, String)> {
    tokens.iter().map(|&(id, text)| (id, text.to_owned())).collect()
}

const USERS: &[User] = &[
    User {
        names: &["QWenTokenizer", "qwen"],
        pattern: QWEN2,
        nfc: true,
        special: |n| {
            let named = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"].map(str::to_owned);
            (n..).zip(named.into_iter().chain((0..205).map(|i| format!("<|extra_{i}|>")))).collect()
        },
        before: &[],
    },
    User {
        names: &["TikTokenTokenizer"],
        pattern: KIMI,
        nfc: false,
        special: |n| (n..n.saturating_add(256)).map(|id| (id, format!("<|reserved_token_{id}|>"))).collect(),
        before: &[],
    },
    User { names: &["ChatGLM4Tokenizer"], pattern: LLAMA3, nfc: false, special: |_| Vec::new(), before: &["[gMASK]", "<sop>"] },
    User {
        names: &["cl100k_base"],
        pattern: CL100K,
        nfc: false,
        special: |_| {
            let fim = [(100_258, "<|fim_prefix|>"), (100_259, "<|fim_middle|>"), (100_260, "<|fim_suffix|>")];
            fixed(&[(100_257, "<|endoftext|>"), fim[0], fim[1], fim[2], (100_276, "<|endofprompt|>")])
        },
        before: &[],
    },
    User {
        names: &["o200k_base"],
        pattern: O200K,
        nfc: false,
        special: |_| fixed(&[(199_999, "<|endoftext|>"), (200_018, "<|endofprompt|>")]),
        before: &[],
    },
    User { names: &["r50k_base", "p50k_base"], pattern: GPT2, nfc: false, special: |_| fixed(&[(50_256, "<|endoftext|>")]), before: &[] },
];

/// Whether a file looks like one of these.
pub(super) fn is_one(bytes: &[u8]) -> bool {
    bytes.split(|&b| b == b'\n').next().is_some_and(|first| line(first).is_some())
}

fn line(line: &[u8]) -> Option<(Vec<u8>, u32)> {
    let at = line.iter().position(|&b| b == b' ')?;
    let rank = str::from_utf8(&line[at + 1..]).ok()?.trim_end().parse().ok()?;
    Some((base64::decode(&line[..at])?, rank))
}

/// `stem`: the name of the file without its end; `ends`: ids of tokens that end a generation.
pub(super) fn read(origin: &str, contents: &[u8], stem: &str, config: &Config, ends: &[u32]) -> Result<Tokenizer> {
    let class = config.tokenizer_class.as_deref().unwrap_or_default();
    let find = |name: &str| USERS.iter().find(|user| user.names.contains(&name));
    let user = find(class).or_else(|| find(stem)).ok_or_else(|| {
        let known: Vec<&str> = USERS.iter().flat_map(|user| user.names).copied().collect();
        let what = format!(
            "a tiktoken file of `tokenizer_class` = `{class}`, which does not say how text is cut (known are {})",
            known.join(", ")
        );
        Error::unsupported(origin, what)
    })?;
    let mut ranks = Vec::new();
    for (number, text) in (1..).zip(contents.split(|&b| b == b'\n')).filter(|(_, text)| !text.trim_ascii().is_empty()) {
        let rank = line(text).filter(|(token, _)| !token.is_empty());
        ranks.push(rank.ok_or_else(|| Error::invalid(origin, format!("line {number} should be a token in base 64 and its rank")))?);
    }
    let n = ranks.iter().map(|(_, rank)| rank.saturating_add(1)).max().unwrap_or(0);
    let own = config.added_tokens(origin, Vec::new())?;
    let rest = (user.special)(n).into_iter().filter(|(id, text)| !own.iter().any(|token| token.id == *id || token.content == *text));
    let rest: Vec<AddedToken> = rest.map(|(id, content)| AddedToken { id, content, special: true, ..AddedToken::default() }).collect();
    let added = own.iter().cloned().chain(rest).collect();
    let normalizers = if user.nfc { vec![Normalizer::Nfc] } else { Vec::new() };
    let vocabulary = Ranked { origin, ranks, added, pattern: user.pattern, normalizers };
    vocabulary.read(config, user.before, ends)
}

/// A vocabulary of tokens of bytes with ranks.
pub(super) struct Ranked<'a> {
    pub(super) origin: &'a str,
    /// Bytes and ids; of two merges, that with the smaller id is first.
    pub(super) ranks: Vec<(Vec<u8>, u32)>,
    pub(super) added: Vec<AddedToken>,
    pub(super) pattern: &'a str,
    pub(super) normalizers: Vec<Normalizer>,
}

impl Ranked<'_> {
    /// `first`: texts of tokens that stand before each text.
    pub(super) fn read(self, config: &Config, first: &[&str], ends: &[u32]) -> Result<Tokenizer> {
        let Self { origin, ranks, added, pattern, normalizers } = self;
        let mut single = [false; 256];
        ranks.iter().filter(|(token, _)| token.len() == 1).for_each(|(token, _)| single[token[0] as usize] = true);
        if let Some(byte) = single.iter().position(|there| !there) {
            return Err(Error::invalid(origin, format!("there is no token for the byte {byte}")));
        }
        let vocab: Vec<_> = ranks.iter().map(|(token, id)| (Cow::Owned(bytes::written(token)), u64::from(*id))).collect();
        let vocabulary = Vocabulary::new(origin, &vocab, &added)?;
        let scores: Vec<f32> = (0..vocabulary.texts.len()).map(|id| -(id as f32)).collect();
        let mut text = vec![false; vocabulary.texts.len()];
        ranks.iter().for_each(|(_, id)| text[*id as usize] = true);
        let options = bpe::Options { byte_level: true, ignore_merges: true, ..bpe::Options::default() };
        let model = Bpe::from_scores(origin, &vocabulary.texts, &vocabulary.model, &scores, |id| text[id as usize], options)?;
        let steps = vec![Step::Split { pattern: Pattern::regex(origin, pattern)?, behavior: Behavior::Isolated, invert: false }];
        let mut strings = Strings::default();
        for (id, token) in vocabulary.texts.iter().enumerate() {
            let decoded = str::from_utf8(token).ok().filter(|_| text[id]).and_then(bytes::decode);
            strings.push(decoded.as_deref().unwrap_or(token));
        }
        let output = Output { bytes: strings, ..Output::default() };
        let bos = config.bos(origin, &vocabulary)?;
        let ends = ends.iter().copied().chain(config.eos(&vocabulary)).collect();
        let id = |text: &&str| vocabulary.index.get(&vocabulary.texts, text.as_bytes());
        let before = first.iter().filter_map(id).collect();
        let Vocabulary { texts, index, flags, .. } = vocabulary;
        let (model, after) = (Model::Bpe(Box::new(model)), Vec::new());
        Tokenizer::assemble(
            origin,
            Parts { texts, index, flags, added, normalizers, steps, model, output, before, after, pair: None, bos, ends },
        )
    }
}
