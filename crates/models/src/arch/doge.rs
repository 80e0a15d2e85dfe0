//! Doge (Shi et al. 2024, arXiv:2412.11834): Llama with normalised queries and keys, weights on the residual stream, and scores to which
//! each key adds a number made of its value. Reference: transformers' `models/doge`.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{AttentionSpec, Binary, Function, Graph, Mask, RopeStyle, Value};

pub(crate) static DOGE: Arch =
    Arch { hf: &["doge"], gguf: &[], tensors: &[TRUNK, PRE_NORMS, ATTENTION, QK_NORMS, DYNAMIC_MASK, FFN], ignored: &[], plan };

const DYNAMIC_MASK: &[Entry] = &[
    tensor("blk.{}.attn_mask_dt", "model.layers.{}.self_attn.dt_proj"),
    tensor("blk.{}.attn_mask_a", "model.layers.{}.self_attn.A"),
    tensor("blk.{}.attn_residual", "model.layers.{}.input_residual"),
    tensor("blk.{}.ffn_residual", "model.layers.{}.post_attention_residual"),
];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = Heads::read(s, c.width)?;
    if s.implied("is_moe", false)? {
        return Err(s.wrong("is_moe", "", "is true, but what its router chooses for a token depends on later ones"));
    }
    // Beyond it, only the keys with the largest of these numbers are seen.
    g.limit_context(s.optional_size("keep_window_size", "")?.unwrap_or(2048));
    let mask = s.window()?.map_or(Mask::Causal, Mask::Window);
    let rope = s.rope(heads.head, RopeStyle::Halves)?;
    let inner = s.size("intermediate_size", "")?;
    let act = s.activation("silu")?;
    let prepare = |g: &mut Graph<'_>, q, norm: &str| {
        let q = g.head_norm(q, norm, heads.head, c.eps);
        g.rope(q, heads.head, &rope)
    };
    let weighted = |g: &mut Graph<'_>, x, weight: &str, y| {
        let x = g.with_weight(x, Binary::Mul, weight);
        g.add(x, y)
    };
    Ok(c.build(g, |g, _, x| {
        let h = c.norm(g, x, "attn_norm");
        let [q, k, v] = heads.project(g, h);
        let (q, k) = (prepare(g, q, "attn_q_norm"), prepare(g, k, "attn_k_norm"));
        let y = dynamically_masked(g, &heads, [q, k, v], mask);
        let y = g.linear(y, "attn_output", c.width);
        let x = weighted(g, x, "attn_residual", y);
        let h = c.norm(g, x, "ffn_norm");
        let y = g.gated_ffn(h, inner, act);
        weighted(g, x, "ffn_residual", y)
    }))
}

/// Attention whose scores are `scale q . k + exp(A softplus(dt v))`. The addend goes as one more number of each key, which all queries
/// multiply by `1 / scale`.
fn dynamically_masked(g: &mut Graph<'_>, h: &Heads, [q, k, v]: [Value; 3], mask: Mask) -> Value {
    let step = g.linear(v, "attn_mask_dt", h.kv_heads);
    let step = g.apply(step, Function::Softplus);
    let exponent = g.with_weight(step, Binary::Mul, "attn_mask_a");
    let addend = g.apply(exponent, Function::Exp);
    let k = g.concat(k, addend, h.kv_heads);
    let one = g.slice(q, h.heads, 0, 1);
    let one = g.scale(one, 0.0);
    let one = g.apply(one, Function::Exp);
    let factor = g.scale(one, 1.0 / h.scale);
    let q = g.concat(q, factor, h.heads);
    let spec = AttentionSpec { key: h.head + 1, mask, ..AttentionSpec::causal(h.heads, h.kv_heads, h.head) };
    g.attention(q, k, v, &spec)
}
