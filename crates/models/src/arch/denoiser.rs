//! What models of masked diffusion share (Sahoo et al. 2024, arXiv:2406.07524): they see all of a text, in which one token stands for
//! those that are not known, and guess them.

use super::encoder::causes;
use crate::{Error, Result, settings::Settings};
use onebit_formats::Meta;
use onebit_plan::{Denoising, Graph};

/// How the model is asked. `shifted` is whether the row of a position is about the token behind it, where a GGUF file does not say.
pub(crate) fn denoises(s: &Settings<'_>, g: &mut Graph<'_>, shifted: bool) -> Result<()> {
    const SHIFTED: &str = "diffusion.shift_logits";
    causes(s)?;
    s.look_for(SHIFTED);
    let stated = if s.is_gguf() { s.checkpoint.metadata.bool(SHIFTED)? } else { None };
    let shifted = stated.unwrap_or(shifted);
    s.note_global(SHIFTED, Meta::Bool(shifted));
    g.denoises(Denoising { mask: mask(s, g.vocabulary())?, shifted });
    Ok(())
}

/// The token that stands for an unknown one. GGUF files made before there was a place for it hold those that the authors published.
fn mask(s: &Settings<'_>, vocabulary: usize) -> Result<u32> {
    const HUB: &str = "mask_token_id";
    const GGUF: &str = "tokenizer.ggml.mask_token_id";
    s.look_for(GGUF);
    let stated = if s.is_gguf() { s.checkpoint.metadata.unsigned(GGUF)? } else { None };
    let stated = stated.map(serde_json::Value::from).or_else(|| s.json(HUB).cloned());
    let id = stated.as_ref().and_then(serde_json::Value::as_u64).filter(|id| *id < vocabulary as u64);
    let found = stated.map_or("is missing".to_string(), |value| format!("is {value}"));
    let what = format!("{found}: it should be the token of the vocabulary of {vocabulary} that stands for an unknown one");
    let id = id.ok_or_else(|| match s.is_gguf() {
        true => Error::Setting { path: s.checkpoint.path.clone(), key: GGUF.into(), what },
        false => s.wrong(HUB, "", what),
    })?;
    s.note_global(GGUF, Meta::Unsigned(id));
    Ok(id as u32)
}
