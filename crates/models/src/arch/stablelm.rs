//! StableLM (Bellagente et al. 2024, arXiv:2402.17834): Llama with LayerNorm, and with a part of each head that turns; some have
//! attention and feed-forward layer side by side, and the 12B LayerNorm of each query and key, with weights of their own.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, tensor},
    rope::Rotary,
    settings::Settings,
};
use onebit_plan::{Graph, Mask, RopeStyle, Value};

pub(crate) static STABLELM: Arch =
    Arch { hf: &["stablelm"], gguf: &["stablelm"], tensors: &[TRUNK, PRE_NORMS, ATTENTION, HEAD_NORMS, FFN], ignored: &[], plan };

/// One tensor for each head.
const HEAD_NORMS: &[Entry] = &[
    tensor("blk.{}.attn_q_norm", "model.layers.{}.self_attn.q_layernorm.norms.{e}"),
    tensor("blk.{}.attn_k_norm", "model.layers.{}.self_attn.k_layernorm.norms.{e}"),
];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read_layer_norm(s, "layer_norm_eps")?;
    let heads = Heads { biased: s.implied("use_qkv_bias", false)?, ..Heads::read(s, c.width)? };
    let rope = s.rotary(heads.head, Rotary { part: 0.25, ..Rotary::new(RopeStyle::Halves) })?;
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.activation("silu")?;
    // GGUF files say it wrongly where the original does not say it; llama.cpp looks for the second norm.
    const PARALLEL: &str = "use_parallel_residual";
    let parallel = if s.is_gguf() { !g.has("blk.0.ffn_norm.weight", &[c.width]) } else { s.bool_or(PARALLEL, PARALLEL, false)? };
    let normed = match s.is_gguf() {
        true => g.has("blk.0.attn_q_norm.weight", &[heads.heads, heads.head]),
        false => s.bool_or("qk_layernorm", "", false)?,
    };
    s.note_own_output();
    Ok(c.build(g, |g, _, x| {
        let prepare = |g: &mut Graph<'_>, q, name: &str| {
            let count = g.width(q) / heads.head;
            let q = if normed { g.group_layer_norm(q, &format!("{name}_norm"), count, c.eps) } else { q };
            g.rope(q, heads.head, &rope)
        };
        let attention = |g: &mut Graph<'_>, h| heads.attention(g, h, Mask::Causal, prepare);
        let feed_forward = |g: &mut Graph<'_>, h| g.gated_ffn(h, inner, act);
        if parallel {
            return c.parallel(g, x, "attn_norm", attention, feed_forward);
        }
        let x = c.residual(g, x, "attn_norm", attention);
        c.residual(g, x, "ffn_norm", feed_forward)
    }))
}
