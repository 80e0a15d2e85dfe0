//! Command R (Cohere 2024): Llama with LayerNorm without biases, attention and feed-forward layer side by side, a factor on the
//! logits, and heads that turn in adjacent pairs in all checkpoints; Command R+ normalises queries and keys. And Command R7B and A
//! (Cohere 2025, arXiv:2504.00698), three of four layers of which have a window; the others do not know positions.
//! Reference code: transformers' `modeling_cohere.py` and `modeling_cohere2.py`.

use super::{Arch, blocks::*, windows::periodic_masks};
use crate::{Result, rope::Rotary, settings::Settings};
use onebit_plan::{Graph, Mask, RopeStyle, Value};

pub(crate) static COHERE: Arch = Arch {
    hf: &["cohere"],
    gguf: &["command-r"],
    tensors: &[TRUNK, PRE_NORMS, ATTENTION, QK_NORMS, FFN],
    ignored: &[],
    plan: |s, g| plan(s, g, None),
};

pub(crate) static COHERE2: Arch = Arch {
    hf: &["cohere2"],
    gguf: &["cohere2"],
    tensors: &[TRUNK, PRE_NORMS, ATTENTION, FFN],
    ignored: &[],
    plan: |s, g| plan(s, g, Some(periodic_masks(s, s.layers()?, 4)?)),
};

fn plan(s: &Settings<'_>, g: &mut Graph<'_>, masks: Option<Vec<Mask>>) -> Result<Value> {
    let logit_scale = s.float_or("logit_scale", "logit_scale", 0.0625)? as f32;
    let c = Decoder { logit_scale, ..Decoder::read_layer_norm(s, "layer_norm_eps")? };
    let heads = Heads::read(s, c.width)?;
    s.hf_only(heads.biased, "its attention has biases");
    let base = if masks.is_some() { 10_000.0 } else { 500_000.0 };
    let rope = s.rotary(heads.head, Rotary { hf: RopeStyle::Pairs, base, ..Rotary::new(RopeStyle::Pairs) })?;
    s.unread_by_llama_cpp(heads.heads * heads.head != c.width, "its heads together are not as wide as its stream");
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.activation("silu")?;
    // llama.cpp knows by the number of layers whether the norms are there.
    let normed = match s.is_gguf() {
        true => g.has("blk.0.attn_q_norm.weight", &[heads.heads, heads.head]),
        false => s.bool_or("use_qk_norm", "", false)?,
    };
    s.unread_by_llama_cpp(normed && c.layers < 64, "it normalises queries and keys, but has less than 64 layers");
    s.unread_by_llama_cpp(g.has("output.weight", &[g.vocabulary(), c.width]), "its output matrix is not its embedding table");
    Ok(c.build(g, |g, layer, x| {
        let mask = masks.as_ref().map_or(Mask::Causal, |masks| masks[layer]);
        let turns = masks.is_none() || mask != Mask::Causal;
        let prepare = |g: &mut Graph<'_>, q, name: &str| {
            let count = g.width(q) / heads.head;
            let q = if normed { g.group_layer_norm(q, &format!("{name}_norm"), count, c.eps) } else { q };
            if turns { g.rope(q, heads.head, &rope) } else { q }
        };
        c.parallel(g, x, "attn_norm", |g, h| heads.attention(g, h, mask, prepare), |g, h| g.gated_ffn(h, inner, act))
    }))
}
