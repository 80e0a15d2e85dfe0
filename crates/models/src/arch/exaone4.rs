//! EXAONE 4 (LG AI Research 2025, arXiv:2507.11407): norms after attention and feed-forward layer as in OLMo 2, normalised queries and
//! keys, and, where layers with a sliding window alternate with others, positions in the former only. K-EXAONE (LG AI Research 2026,
//! arXiv:2601.01739) has norms before its layers again, and the mixture of experts of DeepSeek-V3. Reference: transformers'
//! `models/exaone4` and `exaone_moe`.

use super::{
    Arch,
    blocks::*,
    mixture::{Implied, Mixture, SHARED_EXPERTS},
    olmo2::POST_NORMS,
    windows::periodic_masks,
};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{Graph, Mask, Rope, RopeStyle, Value};

pub(crate) static EXAONE4: Arch =
    Arch { hf: &["exaone4"], gguf: &["exaone4"], tensors: &[TRUNK, POST_NORMS, ATTENTION, QK_NORMS, FFN], ignored: &["mtp.*"], plan };

pub(crate) static EXAONE_MOE: Arch = Arch {
    hf: &["exaone_moe"],
    gguf: &["exaone-moe"],
    tensors: &[TRUNK, PRE_NORMS, ATTENTION, QK_NORMS, FFN, EXPERTS, EXAONE_CORRECTION, SHARED_EXPERTS],
    ignored: &["mtp.*"],
    plan: moe_plan,
};

const EXAONE_CORRECTION: &[Entry] =
    &[tensor("blk.{}.exp_probs_b.bias", "model.layers.{}.mlp.e_score_correction_bias")
        .or("model.layers.{}.mlp.gate.e_score_correction_bias")];

/// Layers of the one model whose windows llama.cpp heeds.
const WINDOWED_IN_GGUF: usize = 64;

/// Attention with normalised queries and keys, which turn in all layers, or in those with a window.
struct Attention {
    heads: Heads,
    rope: Rope,
    masks: Vec<Mask>,
    hybrid: bool,
    eps: f32,
}

impl Attention {
    fn read(s: &Settings<'_>, c: &Decoder) -> Result<Self> {
        let heads = Heads::read(s, c.width)?;
        let rope = s.rope(heads.head, RopeStyle::Halves)?;
        Ok(Self { heads, rope, masks: periodic_masks(s, c.layers, 4)?, hybrid: s.window()?.is_some(), eps: c.eps })
    }

    fn build(&self, g: &mut Graph<'_>, layer: usize, x: Value) -> Value {
        let (heads, mask) = (&self.heads, self.masks[layer]);
        heads.attention(g, x, mask, |g, q, name| {
            let q = g.head_norm(q, &format!("{name}_norm"), heads.head, self.eps);
            if self.hybrid && mask == Mask::Causal { q } else { g.rope(q, heads.head, &self.rope) }
        })
    }
}

fn moe_plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let attention = Attention::read(s, &c)?;
    let mixture = Mixture::read(s, c.layers, &Implied { scale: 2.5, ..Implied::SIGMOID })?;
    Ok(c.build(g, |g, layer, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| attention.build(g, layer, x));
        c.residual(g, x, "ffn_norm", |g, x| mixture.build(g, layer, x))
    }))
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let attention = Attention::read(s, &c)?;
    let hybrid = attention.hybrid;
    s.hf_only(hybrid && c.layers != WINDOWED_IN_GGUF, "GGUF files of its architecture mean windows in a model of 64 layers only");
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.activation("silu")?;
    Ok(c.build(g, |g, layer, x| {
        let x = c.residual_after(g, x, "post_attention_norm", |g, x| attention.build(g, layer, x));
        c.residual_after(g, x, "post_ffw_norm", |g, x| g.gated_ffn(x, inner, act))
    }))
}
