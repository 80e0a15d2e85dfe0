//! Qwen3 (Yang et al. 2025, arXiv:2505.09388): Llama with normalised queries and keys; and its mixture of experts.

use super::{Arch, blocks::*, qwen2::qwen_masks};
use crate::{
    Result,
    rope::{Axes, Rotary, SECTIONS},
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{Graph, Value};

pub(crate) static QWEN3: Arch = Arch {
    hf: &["qwen3"],
    gguf: &["qwen3"],
    tensors: &[TRUNK, PRE_NORMS, ATTENTION, QK_NORMS, FFN],
    ignored: RANKS,
    plan: |s, g| plan(s, g, Rotary::HALVES, None),
};

/// Heads that score pairs of texts, which are read with them.
const RANKS: &[&str] = &["score.weight", "cls.*"];

/// Of Qwen3-VL (Bai et al. 2025, arXiv:2511.21631).
pub(crate) static QWEN3_VL: Arch = Arch {
    hf: &["qwen3_vl", "qwen3_vl_text"],
    gguf: &["qwen3vl"],
    tensors: &[TRUNK, PRE_NORMS, ATTENTION, QK_NORMS, FFN],
    ignored: RANKS,
    plan: |s, g| plan(s, g, seeing(s)?, None),
};

pub(crate) static QWEN3_VL_MOE: Arch = Arch {
    hf: &["qwen3_vl_moe", "qwen3_vl_moe_text"],
    gguf: &["qwen3vlmoe"],
    tensors: &[TRUNK, PRE_NORMS, ATTENTION, QK_NORMS, FFN, EXPERTS],
    ignored: &[],
    plan: |s, g| plan(s, g, seeing(s)?, Some(Moe::read(s, true, false)?)),
};

/// Positions of images have three axes, whose shares are always stated: without them it is Qwen3.
fn seeing(s: &Settings<'_>) -> Result<Rotary> {
    if !s.states_axes() {
        return Err(s.wrong("mrope_section", SECTIONS, "is missing"));
    }
    // Features of the tower's layers that the first layers are given, too.
    let features = s.json("vision_config.deepstack_visual_indexes").and_then(|v| v.as_array()).map_or(0, Vec::len);
    s.note("n_deepstack_layers", Meta::Unsigned(features as u64));
    Ok(Rotary { base: 500_000.0, axes: Axes::Turns(&[24, 20, 20]), ..Rotary::HALVES })
}

pub(crate) static QWEN3_MOE: Arch = Arch {
    hf: &["qwen3_moe"],
    gguf: &["qwen3moe"],
    tensors: &[TRUNK, PRE_NORMS, ATTENTION, QK_NORMS, FFN, EXPERTS],
    ignored: &[],
    plan: |s, g| plan(s, g, Rotary::HALVES, Some(Moe::read(s, true, false)?)),
};

fn plan(s: &Settings<'_>, g: &mut Graph<'_>, rotary: Rotary, moe: Option<Moe>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = Heads::read(s, c.width)?;
    let rope = s.rotary(heads.head, rotary)?;
    let masks = qwen_masks(s, c.layers)?;
    let feed_forward = FeedForward::read(s, c.layers, moe)?;
    Ok(c.build(g, |g, layer, x| {
        let prepare = |g: &mut Graph<'_>, q, name: &str| {
            let q = g.head_norm(q, &format!("{name}_norm"), heads.head, c.eps);
            g.rope(q, heads.head, &rope)
        };
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, masks[layer], prepare));
        c.residual(g, x, "ffn_norm", |g, x| feed_forward.build(g, layer, x))
    }))
}
