//! The vocabulary in a GGUF file (`tokenizer.ggml.*`), as llama.cpp writes it.
//!
//! GGUF names the pre-tokenizer (`tokenizer.ggml.pre`) instead of describing it; what each name stands for is in
//! [`super::pre`].

use super::{
    Parts, SPECIAL, Tokenizer, USED,
    added::AddedToken,
    bpe::{self, Bpe, Merges},
    bytes,
    decode::Output,
    model::Model,
    normalize::Normalizer,
    pre,
    split::{Behavior, Pattern, Step},
    strings::{Index, Strings},
    text_steps::TextStep,
};
use crate::{Error, Result};
use onebit_formats::Metadata;

/// Kinds of tokens (`tokenizer.ggml.token_type`).
mod kind {
    pub(super) const UNKNOWN: i64 = 2;
    pub(super) const CONTROL: i64 = 3;
    pub(super) const USER_DEFINED: i64 = 4;
    pub(super) const UNUSED: i64 = 5;
    pub(super) const BYTE: i64 = 6;
}

pub(super) fn read(metadata: &Metadata) -> Result<Tokenizer> {
    let file = File { origin: metadata.path.display().to_string(), metadata };
    match metadata.text("tokenizer.ggml.model")? {
        Some("gpt2") => file.byte_level(),
        Some("llama") => file.sentence_piece(),
        Some(other) => Err(Error::unsupported(file.origin, format!("`tokenizer.ggml.model` = `{other}`"))),
        None => Err(Error::invalid(file.origin, "the file has no `tokenizer.ggml.model`, so it holds no vocabulary")),
    }
}

struct File<'a> {
    origin: String,
    metadata: &'a Metadata,
}

/// All tokens.
struct Vocabulary {
    texts: Strings,
    index: Index,
    flags: Vec<u8>,
    added: Vec<AddedToken>,
    output: Output,
}

impl File<'_> {
    fn missing(&self, key: &str) -> Error {
        Error::invalid(&self.origin, format!("the file has no `{key}`"))
    }

    /// All tokens; `decode` gives the bytes of those that are found by the model (kind, text).
    fn vocabulary(&self, decode: impl Fn(i64, &str) -> Option<Vec<u8>>) -> Result<Vocabulary> {
        let origin = &self.origin;
        let tokens = self.metadata.texts("tokenizer.ggml.tokens")?.ok_or_else(|| self.missing("tokenizer.ggml.tokens"))?;
        let kinds = self.metadata.integers("tokenizer.ggml.token_type")?.unwrap_or_default();
        if !kinds.is_empty() && kinds.len() != tokens.len() {
            return Err(Error::invalid(
                origin,
                format!("`tokenizer.ggml.token_type` has {} entries for {} tokens", kinds.len(), tokens.len()),
            ));
        }
        let mut all = Vocabulary {
            texts: Strings::default(),
            index: Index::with_capacity(tokens.len()),
            flags: Vec::with_capacity(tokens.len()),
            added: Vec::new(),
            output: Output::default(),
        };
        for (id, token) in (0u32..).zip(tokens.iter()) {
            all.texts.push(token);
            // Some files pad their vocabulary with empty tokens.
            if let Some(other) = all.index.insert(&all.texts, id).filter(|_| !token.is_empty()) {
                let text = String::from_utf8_lossy(token);
                return Err(Error::invalid(origin, format!("`tokenizer.ggml.tokens` has `{text}` twice, at {other} and {id}")));
            }
            let kind = kinds.get(id as usize).copied().unwrap_or(1);
            let special = matches!(kind, kind::CONTROL | kind::UNKNOWN);
            all.flags.push(USED | if special || kind == kind::UNUSED { SPECIAL } else { 0 });
            let text = str::from_utf8(token).ok();
            if special || kind == kind::USER_DEFINED {
                let content = text.ok_or_else(|| Error::invalid(origin, format!("special token {id} is not UTF-8")))?.to_owned();
                all.output.bytes.push(token);
                all.added.push(AddedToken { id, content, special, ..AddedToken::default() });
            } else {
                all.output.bytes.push(&text.and_then(|text| decode(kind, text)).unwrap_or_else(|| token.to_vec()));
            }
        }
        Ok(all)
    }

    /// GPT-2's kind: byte-level BPE.
    fn byte_level(&self) -> Result<Tokenizer> {
        let origin = &self.origin;
        let name = self.metadata.text("tokenizer.ggml.pre")?.ok_or_else(|| self.missing("tokenizer.ggml.pre"))?;
        let pre = pre::find(name)
            .ok_or_else(|| Error::unsupported(origin, format!("`tokenizer.ggml.pre` = `{name}` (known are {})", pre::names())))?;
        let all = self.vocabulary(|_, text| bytes::decode(text))?;
        let lines = self.metadata.texts("tokenizer.ggml.merges")?.ok_or_else(|| self.missing("tokenizer.ggml.merges"))?;
        let mut merges = Merges::new(&all.texts, &all.index, "", lines.len());
        for (rank, line) in lines.iter().enumerate() {
            merges.add_line(rank, line).map_err(|what| Error::invalid(origin, format!("`tokenizer.ggml.merges`: {what}")))?;
        }
        let merges = merges.finish();
        let options = bpe::Options { byte_level: true, ignore_merges: pre.ignore_merges, ..bpe::Options::default() };
        let model = Bpe::new(&all.texts, &all.index, merges, options);
        let normalizers = if pre.nfc { vec![Normalizer::Nfc] } else { Vec::new() };
        let split =
            |pattern: &&str| Ok(Step::Split { pattern: Pattern::regex(origin, pattern)?, behavior: Behavior::Isolated, invert: false });
        let steps = pre.splits.iter().map(split).collect::<Result<Vec<_>>>()?;
        self.assemble(all, normalizers, steps, model, pre.add_bos)
    }

    /// SentencePiece's BPE: tokens have scores instead of merges, and spaces are written as `▁`.
    fn sentence_piece(&self) -> Result<Tokenizer> {
        let origin = &self.origin;
        let byte = |kind, text: &str| if kind == kind::BYTE { bytes::byte_token(text).map(|b| vec![b]) } else { None };
        let mut all = self.vocabulary(|kind, text| byte(kind, text).or_else(|| Some(text.replace('▁', " ").into_bytes())))?;
        let scores = self.metadata.floats("tokenizer.ggml.scores")?.ok_or_else(|| self.missing("tokenizer.ggml.scores"))?;
        if scores.len() != all.texts.len() {
            return Err(Error::invalid(
                origin,
                format!("`tokenizer.ggml.scores` has {} entries for {} tokens", scores.len(), all.texts.len()),
            ));
        }
        let options = bpe::Options {
            byte_fallback: true,
            unknown: self.id("tokenizer.ggml.unknown_token_id", all.texts.len())?,
            ..bpe::Options::default()
        };
        let kinds = self.metadata.integers("tokenizer.ggml.token_type")?.unwrap_or_default();
        let is_text = |id: u32| !matches!(kinds.get(id as usize), Some(&(kind::CONTROL | kind::UNKNOWN | kind::UNUSED | kind::BYTE)));
        let model = Bpe::from_scores(origin, &all.texts, &all.index, scores, is_text, options)?;
        let mut normalizers = Vec::new();
        if self.metadata.bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(true) {
            normalizers.push(Normalizer::Prepend("▁".into()));
            all.output.steps.push(TextStep::Strip { content: ' ', start: 1, stop: 0 });
        }
        normalizers.push(Normalizer::Replace { pattern: Pattern::Literal(" ".into()), content: "▁".into() });
        self.assemble(all, normalizers, Vec::new(), model, true)
    }

    /// The id that a key names.
    fn id(&self, key: &str, tokens: usize) -> Result<Option<u32>> {
        let Some(id) = self.metadata.unsigned(key)? else { return Ok(None) };
        let found = u32::try_from(id).ok().filter(|&id| (id as usize) < tokens);
        found.map(Some).ok_or_else(|| Error::invalid(&self.origin, format!("`{key}` is {id}, but there are {tokens} tokens")))
    }

    fn assemble(&self, all: Vocabulary, normalizers: Vec<Normalizer>, steps: Vec<Step>, model: Bpe, add_bos: bool) -> Result<Tokenizer> {
        let Vocabulary { texts, index, flags, added, output } = all;
        let id = |key: &str| self.id(&format!("tokenizer.ggml.{key}_token_id"), texts.len());
        let (bos, eos) = (id("bos")?, id("eos")?);
        let ends = [eos, id("eot")?, id("eom")?].into_iter().flatten().collect();
        let around = |key: &str, default: bool, token: Option<u32>| -> Result<Vec<u32>> {
            let wanted = self.metadata.bool(key)?.unwrap_or(default);
            Ok(token.filter(|_| wanted).into_iter().collect())
        };
        let before = around("tokenizer.ggml.add_bos_token", add_bos, bos)?;
        let after = around("tokenizer.ggml.add_eos_token", false, eos)?;
        let model = Model::Bpe(model);
        Tokenizer::assemble(&self.origin, Parts { texts, index, flags, added, normalizers, steps, model, output, before, after, bos, ends })
    }
}
