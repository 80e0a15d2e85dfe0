//! Qwen2 (Yang et al. 2024, arXiv:2407.10671): Llama with biases on queries, keys and values; and its mixture of experts.

use super::{Arch, blocks::*};
use crate::{Result, settings::Settings};
use onebit_plan::{Graph, Mask, RopeStyle, Value};

pub(crate) static QWEN2: Arch =
    Arch { hf: &["qwen2"], gguf: &["qwen2"], tensors: &[TRUNK, PRE_NORMS, ATTENTION, FFN], ignored: &[], plan: |s, g| plan(s, g, None) };

/// Of Qwen2-VL (Wang et al. 2024, arXiv:2409.12191) and Qwen2.5-VL (Bai et al. 2025, arXiv:2502.13923).
pub(crate) static QWEN2_VL: Arch = Arch {
    hf: &["qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"],
    gguf: &["qwen2vl"],
    tensors: &[TRUNK, PRE_NORMS, ATTENTION, FFN],
    ignored: &["visual.*", "model.visual.*"],
    plan: |s, g| plan(s, g, None),
};

pub(crate) static QWEN2_MOE: Arch = Arch {
    hf: &["qwen2_moe"],
    gguf: &["qwen2moe"],
    tensors: &[TRUNK, PRE_NORMS, ATTENTION, FFN, EXPERTS, SHARED_EXPERT],
    ignored: &[],
    plan: |s, g| plan(s, g, Some(Moe::read(s, false, true)?)),
};

fn plan(s: &Settings<'_>, g: &mut Graph<'_>, moe: Option<Moe>) -> Result<Value> {
    decoder(s, g, moe, &qwen_masks(s, s.layers()?)?)
}

/// Each layer of which sees what `masks` says.
pub(super) fn decoder(s: &Settings<'_>, g: &mut Graph<'_>, moe: Option<Moe>, masks: &[Mask]) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = Heads { biased: s.implied("qkv_bias", true)?, ..Heads::read(s, c.width)? };
    let rope = s.rope(heads.head, RopeStyle::Halves)?;
    let feed_forward = FeedForward::read(s, c.layers, moe)?;
    Ok(c.build(g, |g, layer, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, masks[layer], |g, q, _| g.rope(q, heads.head, &rope)));
        c.residual(g, x, "ffn_norm", |g, x| feed_forward.build(g, layer, x))
    }))
}

/// What each layer sees: all, unless the configuration turns the window on.
pub(super) fn qwen_masks(s: &Settings<'_>, layers: usize) -> Result<Vec<Mask>> {
    if !s.implied("use_sliding_window", false)? {
        return Ok(vec![Mask::Causal; layers]);
    }
    let first = s.optional_size("max_window_layers", "")?.unwrap_or(0);
    masks(s, layers, s.optional_size("sliding_window", "")?, first)
}
