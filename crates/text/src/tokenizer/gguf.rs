//! The vocabulary in a GGUF file (`tokenizer.ggml.*`), as llama.cpp writes it.
//!
//! GGUF names the pre-tokenizer (`tokenizer.ggml.pre`) instead of describing it; what each name stands for is the
//! `tokenizer.json` of the models that it was made for.

use super::{
    Model, Parts, SPECIAL, Tokenizer, USED,
    added::AddedToken,
    bpe::{self, Bpe, Merges},
    bytes,
    decode::Output,
    normalize::Normalizer,
    scan::Scanner,
    split::{Behavior, Pattern, Step},
    strings::{Index, Strings},
    unicode::{LETTER, MARK},
};
use crate::{Error, Result};
use onebit_formats::Metadata;

/// Kinds of tokens (`tokenizer.ggml.token_type`).
mod kind {
    pub(super) const UNKNOWN: i64 = 2;
    pub(super) const CONTROL: i64 = 3;
    pub(super) const USER_DEFINED: i64 = 4;
    pub(super) const UNUSED: i64 = 5;
}

/// What a name of a pre-tokenizer stands for.
struct Pre {
    names: &'static [&'static str],
    nfc: bool,
    scanners: &'static [Scanner],
    ignore_merges: bool,
    /// Whether texts begin with the beginning-of-text token, where the file does not say.
    add_bos: bool,
}

const PLAIN: Pre = Pre { names: &[], nfc: false, scanners: &[], ignore_merges: false, add_bos: false };

const PRE: &[Pre] = &[
    Pre { names: &["gpt-2", "phi-2", "gpt2"], scanners: &[Scanner::Gpt2], ..PLAIN },
    Pre {
        names: &["smollm", "starcoder", "refact", "command-r", "codeshell"],
        scanners: &[Scanner::Numbers { max: 1 }, Scanner::Gpt2],
        ..PLAIN
    },
    Pre {
        names: &["llama3", "llama-v3", "llama-bpe"],
        scanners: &[Scanner::Words { letters: LETTER, digits: 3 }],
        ignore_merges: true,
        add_bos: true,
        ..PLAIN
    },
    Pre { names: &["qwen2", "deepseek-r1-qwen"], nfc: true, scanners: &[Scanner::Words { letters: LETTER, digits: 1 }], ..PLAIN },
    Pre { names: &["qwen35"], nfc: true, scanners: &[Scanner::Words { letters: LETTER | MARK, digits: 1 }], ..PLAIN },
    Pre { names: &["gpt-4o", "llama4"], scanners: &[Scanner::Cased], ignore_merges: true, ..PLAIN },
    Pre { names: &["deepseek-v3"], scanners: &[Scanner::Numbers { max: 3 }, Scanner::HanKana, Scanner::DeepSeek], ..PLAIN },
];

pub(super) fn read(metadata: &Metadata) -> Result<Tokenizer> {
    let origin = metadata.path.display().to_string();
    match metadata.text("tokenizer.ggml.model")? {
        Some("gpt2") => byte_level(&origin, metadata),
        Some(other) => Err(Error::unsupported(origin, format!("`tokenizer.ggml.model` = `{other}`"))),
        None => Err(Error::invalid(origin, "the file has no `tokenizer.ggml.model`, so it holds no vocabulary")),
    }
}

/// GPT-2's kind: byte-level BPE.
fn byte_level(origin: &str, metadata: &Metadata) -> Result<Tokenizer> {
    let missing = |key: &str| Error::invalid(origin, format!("the file has no `{key}`"));
    let pre = metadata.text("tokenizer.ggml.pre")?.ok_or_else(|| missing("tokenizer.ggml.pre"))?;
    let known = || PRE.iter().flat_map(|p| p.names).copied().collect::<Vec<_>>().join(", ");
    let pre = PRE
        .iter()
        .find(|p| p.names.contains(&pre))
        .ok_or_else(|| Error::unsupported(origin, format!("`tokenizer.ggml.pre` = `{pre}` (known are {})", known())))?;

    let tokens = metadata.texts("tokenizer.ggml.tokens")?.ok_or_else(|| missing("tokenizer.ggml.tokens"))?;
    let kinds = metadata.integers("tokenizer.ggml.token_type")?.unwrap_or_default();
    if !kinds.is_empty() && kinds.len() != tokens.len() {
        return Err(Error::invalid(origin, format!("`tokenizer.ggml.token_type` has {} entries for {} tokens", kinds.len(), tokens.len())));
    }
    let mut texts = Strings::default();
    let mut index = Index::with_capacity(tokens.len());
    let mut output = Output::default();
    let mut flags = Vec::with_capacity(tokens.len());
    let mut added = Vec::new();
    for (id, token) in tokens.iter().enumerate() {
        let id = id as u32;
        texts.push(token);
        if let Some(other) = index.insert(&texts, id) {
            let text = String::from_utf8_lossy(token);
            return Err(Error::invalid(origin, format!("`tokenizer.ggml.tokens` has `{text}` twice, at {other} and {id}")));
        }
        let kind = kinds.get(id as usize).copied().unwrap_or(1);
        let special = matches!(kind, kind::CONTROL | kind::UNKNOWN);
        flags.push(USED | if special || kind == kind::UNUSED { SPECIAL } else { 0 });
        let text = str::from_utf8(token).ok();
        if special || kind == kind::USER_DEFINED {
            let content = text.ok_or_else(|| Error::invalid(origin, format!("special token {id} is not UTF-8")))?.to_owned();
            output.bytes.push(token);
            added.push(AddedToken { id, content, special, ..AddedToken::default() });
        } else {
            output.bytes.push(&text.and_then(bytes::decode).unwrap_or_else(|| token.to_vec()));
        }
    }
    let lines = metadata.texts("tokenizer.ggml.merges")?.ok_or_else(|| missing("tokenizer.ggml.merges"))?;
    let mut merges = Merges::new(&texts, &index, "", lines.len());
    for (rank, line) in lines.iter().enumerate() {
        merges.add_line(rank, line).map_err(|what| Error::invalid(origin, format!("`tokenizer.ggml.merges`: {what}")))?;
    }
    let merges = merges.finish();
    let options = bpe::Options { byte_level: true, ignore_merges: pre.ignore_merges, ..bpe::Options::default() };
    let model = Model::Bpe(Bpe::new(origin, &texts, &index, merges, options)?);

    let id = |key: &str| -> Result<Option<u32>> {
        let Some(id) = metadata.unsigned(key)? else { return Ok(None) };
        let found = u32::try_from(id).ok().filter(|&id| (id as usize) < tokens.len());
        found.map(Some).ok_or_else(|| Error::invalid(origin, format!("`{key}` is {id}, but there are {} tokens", tokens.len())))
    };
    let bos = id("tokenizer.ggml.bos_token_id")?;
    let eos = id("tokenizer.ggml.eos_token_id")?;
    let mut ends: Vec<u32> = eos.into_iter().collect();
    for key in ["tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"] {
        ends.extend(id(key)?);
    }
    let around = |key: &str, default: bool, token: Option<u32>| -> Result<Vec<u32>> {
        let wanted = metadata.bool(key)?.unwrap_or(default);
        Ok(token.filter(|_| wanted).into_iter().collect())
    };
    let before = around("tokenizer.ggml.add_bos_token", pre.add_bos, bos)?;
    let after = around("tokenizer.ggml.add_eos_token", false, eos)?;
    let normalizers = if pre.nfc { vec![Normalizer::Nfc] } else { Vec::new() };
    let steps =
        pre.scanners.iter().map(|&s| Step::Split { pattern: Pattern::Scan(s), behavior: Behavior::Isolated, invert: false }).collect();
    Tokenizer::assemble(origin, Parts { texts, index, flags, added, normalizers, steps, model, output, before, after, bos, ends })
}
