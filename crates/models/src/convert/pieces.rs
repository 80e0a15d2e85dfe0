//! A SentencePiece model (Kudo & Richardson 2018, arXiv:1808.06226) without a `tokenizer.json`: `tokenizer.model`, `spiece.model`.

use super::{
    unigram::UNUSED,
    vocabulary::{Beside, CHARSMAP, Pairs, Tokens, wrong},
};
use crate::Result;
use onebit_formats::{Meta, gguf::token_kind as kind};
use onebit_text::{Encode, Tokenizer, tokenizer::SentencePieces};
use std::collections::HashMap;

/// The score of added tokens, which are found before texts are cut.
const ADDED: f32 = -1000.0;

/// The file's pairs for a table of `size` rows. `tokenizer` is what was made of `model` and of the files beside it.
pub(super) fn read(beside: Beside<'_>, model: &SentencePieces, tokenizer: &Tokenizer, size: usize) -> Result<Vec<(String, Meta)>> {
    let refuse = |key: &str, what: String| Err(wrong(beside.checkpoint, &model.file, key, what));
    if let Some((key, what)) = unsayable(model) {
        return refuse(key, format!("{what}, which GGUF has no way to say of such a model"));
    }
    if tokenizer.len() > size {
        return refuse("pieces", format!("and added tokens are {}, more than the {size} rows of the embedding table", tokenizer.len()));
    }
    let mut pairs = Pairs::default();
    pairs.add("model", Meta::Text(if model.unigram { "t5" } else { "llama" }.into()));
    pairs.add("pre", Meta::Text("default".into()));
    pairs.add("add_space_prefix", Meta::Bool(model.prefix));
    if model.unigram {
        pairs.add("remove_extra_whitespaces", Meta::Bool(model.merged));
        if !model.charsmap.is_empty() {
            pairs.add(CHARSMAP, Meta::Integers(model.charsmap.iter().map(|byte| i64::from(*byte)).collect()));
        }
    }
    let texts: Vec<_> = (0..size as u32).map(|id| tokenizer.token_text(id)).collect();
    let mut tokens = Tokens { by_id: vec![None; size], added: HashMap::new() };
    let mut scores = vec![UNUSED; size];
    for (id, text) in texts.iter().enumerate() {
        let Some(text) = text else { continue };
        let added = if tokenizer.is_special(id as u32) { kind::CONTROL } else { kind::USER_DEFINED };
        let (score, kind) = match model.pieces.get(id) {
            // What the configuration calls special is read where asked only.
            Some((_, score, kind::USER_DEFINED)) => (*score, added),
            Some((_, score, kind)) => (*score, *kind),
            None => (ADDED, added),
        };
        scores[id] = score;
        tokens.by_id[id] = Some((text.as_ref().into(), kind));
        if kind != kind::NORMAL && kind != kind::BYTE {
            tokens.added.insert(text.as_ref(), id);
        }
    }
    pairs.add("scores", Meta::Floats(scores));
    let around = tokenizer.encode("", Encode { add_special: true, parse_special: false });
    let of_file = [tokenizer.bos(), tokenizer.eos().first().copied()].map(|id| id.map(|id| id as usize));
    let unknown = model.pieces.iter().position(|(_, _, kind)| *kind == kind::UNKNOWN);
    let (bos, eos) = beside.roles(&tokens, of_file, unknown, &mut pairs);
    let is = |id: Option<usize>, at: Option<&u32>| Meta::Bool(id.is_some() && id == at.map(|id| *id as usize));
    pairs.add("add_bos_token", is(bos, around.first()));
    pairs.add("add_eos_token", is(eos, around.last()));
    beside.templates(&mut pairs)?;
    tokens.write(&mut pairs);
    Ok(pairs.0)
}

/// The field that GGUF files cannot say, and what it is.
fn unsayable(model: &SentencePieces) -> Option<(&'static str, &'static str)> {
    let SentencePieces { unigram, byte_fallback, merged, escaped, suffixed, charsmap, .. } = model;
    let all = [
        (!escaped, "normalizer_spec.escape_whitespaces", "is false"),
        (*suffixed, "trainer_spec.treat_whitespace_as_suffix", "is true"),
        (*unigram && *byte_fallback, "trainer_spec.byte_fallback", "is true"),
        (!unigram && *merged, "normalizer_spec.remove_extra_whitespaces", "is true"),
        (!unigram && !charsmap.is_empty(), "normalizer_spec.precompiled_charsmap", "changes characters"),
    ];
    all.into_iter().find(|(found, ..)| *found).map(|(_, key, what)| (key, what))
}
