//! GLM-4 (GLM Team 2024, arXiv:2406.12793): Llama with half of each head that turns, in adjacent pairs in all checkpoints, biases on
//! queries, keys and values, and gate and up of one matrix. Those of 2025 (`glm4`) also have norms behind both layers.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, tensor},
    rope::Rotary,
    settings::Settings,
};
use onebit_plan::{Graph, Mask, RopeStyle, Value};

pub(crate) static GLM: Arch = Arch {
    hf: &["glm"],
    gguf: &["chatglm"],
    tensors: &[TRUNK, PRE_NORMS, ATTENTION, FUSED_FFN],
    ignored: &[],
    plan: |s, g| plan(s, g, false),
};

pub(crate) static GLM4: Arch = Arch {
    hf: &["glm4"],
    gguf: &["glm4"],
    tensors: &[TRUNK, PRE_NORMS, POST_NORMS, ATTENTION, FUSED_FFN],
    ignored: &[],
    plan: |s, g| plan(s, g, true),
};

const POST_NORMS: &[Entry] = &[
    tensor("blk.{}.post_attention_norm", "model.layers.{}.post_self_attn_layernorm"),
    tensor("blk.{}.post_ffw_norm", "model.layers.{}.post_mlp_layernorm"),
];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>, peri: bool) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = Heads::read(s, c.width)?;
    let rope = s.rotary(heads.head, Rotary { hf: RopeStyle::Pairs, part: 0.5, ..Rotary::new(RopeStyle::Pairs) })?;
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.activation("silu")?;
    let after = |g: &mut Graph<'_>, y, norm: &str| if peri { g.rms_norm(y, norm, c.eps) } else { y };
    Ok(c.build(g, |g, _, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| {
            let y = heads.attention(g, x, Mask::Causal, |g, q, _| g.rope(q, heads.head, &rope));
            after(g, y, "post_attention_norm")
        });
        c.residual(g, x, "ffn_norm", |g, x| {
            let y = g.fused_gated_ffn(x, inner, act);
            after(g, y, "post_ffw_norm")
        })
    }))
}
