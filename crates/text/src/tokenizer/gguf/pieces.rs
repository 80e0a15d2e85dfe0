//! Kinds whose tokens have scores, and spaces written as `▁` or as they are: SentencePiece's BPE (`llama`) and unigram (`t5`)
//! models, and PLaMo 2's (`plamo2`).

use super::{Around, File, Vocabulary, kind};
use crate::{
    Error, Result,
    tokenizer::{
        Tokenizer,
        bpe::{self, Bpe},
        bytes,
        charsmap::Charsmap,
        lattice::Lattice,
        model::Model,
        normalize::Normalizer,
        sentence_piece::Whitespace,
        split::Pattern,
        text_steps::TextStep,
        unigram::{self, Unigram},
    },
};

/// All tokens; `space` is what they write for a space.
fn vocabulary(file: &File<'_>, space: &str) -> Result<Vocabulary> {
    file.vocabulary(|kind, text| match bytes::byte_token(text).filter(|_| kind == kind::BYTE) {
        Some(byte) => Some(vec![byte]),
        None => Some(text.replace(space, " ").into_bytes()),
    })
}

/// A text loses the space that was put before it.
const FIRST_SPACE: TextStep = TextStep::Strip { content: ' ', start: 1, stop: 0 };

pub(super) fn bpe(file: &File<'_>) -> Result<Tokenizer> {
    let mut all = vocabulary(file, "▁")?;
    let tokens = all.texts.len();
    let options = bpe::Options { byte_fallback: true, unknown: file.id_or("unknown", 0, tokens)?, ..bpe::Options::default() };
    let kinds = file.kinds()?;
    let is_text = |id: u32| !matches!(kinds(id), kind::CONTROL | kind::UNKNOWN | kind::UNUSED | kind::BYTE);
    let model = Bpe::from_scores(&file.origin, &all.texts, &all.index, file.scores(tokens)?, is_text, options)?;
    let mut normalizers = Vec::new();
    if file.flag("add_space_prefix", true)? {
        normalizers.push(Normalizer::Prepend("▁".into()));
        all.output.steps.push(FIRST_SPACE);
    }
    normalizers.push(Normalizer::Replace { pattern: Pattern::Literal(" ".into()), content: "▁".into() });
    let around = Around { bos: file.id_or("bos", 1, tokens)?, eos: file.id_or("eos", 2, tokens)?, add_bos: true, ..Around::default() };
    file.assemble(all, normalizers, Vec::new(), Model::Bpe(Box::new(model)), around)
}

pub(super) fn unigram(file: &File<'_>) -> Result<Tokenizer> {
    let origin = &file.origin;
    let mut all = vocabulary(file, "▁")?;
    let tokens = all.texts.len();
    let (scores, kinds) = (file.scores(tokens)?, file.kinds()?);
    let charsmap = match file.metadata.integers("tokenizer.ggml.precompiled_charsmap")? {
        None | Some([]) => None,
        Some(values) => {
            let bytes: Vec<u8> = values.iter().map(|&byte| byte as u8).collect();
            Some(Charsmap::new(origin, &bytes)?)
        }
    };
    let dummy = file.flag("add_space_prefix", false)?;
    let whitespace =
        Whitespace { charsmap, kept: None, dummy, merge: file.flag("remove_extra_whitespaces", false)?, escape: true, suffix: false };
    if dummy {
        all.output.steps.push(FIRST_SPACE);
    }
    let normal = (0..tokens as u32).filter(|&id| kinds(id) == kind::NORMAL);
    let least = normal.map(|id| f64::from(scores[id as usize])).fold(f64::INFINITY, f64::min);
    if !least.is_finite() {
        return Err(Error::invalid(origin, "`tokenizer.ggml.scores` has no finite score of a normal token"));
    }
    let found = (0..tokens as u32).filter_map(|id| match kinds(id) {
        kind::NORMAL | kind::UNUSED => Some((id, f64::from(scores[id as usize]))),
        kind::USER_DEFINED => Some((id, 0.0)),
        _ => None,
    });
    let options = unigram::Options { unknown: file.id_or("unknown", 2, tokens)?, byte_fallback: false, single: false };
    let model = Unigram::new(origin, &all.texts, &all.index, found, least, options)?;
    let around = Around { eos: file.id_or("eos", 1, tokens)?, add_eos: true, ..Around::default() };
    file.assemble(all, vec![Normalizer::SentencePiece(Box::new(whitespace))], Vec::new(), Model::Unigram(model), around)
}

pub(super) fn lattice(file: &File<'_>) -> Result<Tokenizer> {
    let all = vocabulary(file, " ")?;
    let tokens = all.texts.len();
    let kinds = file.kinds()?;
    let is_text = |id: u32| !matches!(kinds(id), kind::CONTROL | kind::UNKNOWN | kind::BYTE);
    let model = Lattice::new(&file.origin, &all.texts, &all.index, file.scores(tokens)?, is_text)?;
    let around = Around { bos: file.id_or("bos", 1, tokens)?, eos: file.id_or("eos", 2, tokens)?, ..Around::default() };
    file.assemble(all, Vec::new(), Vec::new(), Model::Lattice(model), around)
}
