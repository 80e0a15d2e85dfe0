//! Llama (Touvron et al. 2023, arXiv:2302.13971; with grouped heads arXiv:2307.09288) and what is shaped like it.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, Order, tensor},
    settings::Settings,
};
use onebit_plan::{Graph, Mask, RopeStyle, Value};

pub(crate) static LLAMA: Arch =
    Arch { hf: &["llama", "mistral"], gguf: &["llama"], tensors: &[TRUNK, PRE_NORMS, INTERLEAVED_ATTENTION, FFN], ignored: &[], plan };

/// GGUF files hold the rotary dimensions of `llama` in adjacent pairs.
pub(crate) const INTERLEAVED_ATTENTION: &[Entry] = &[
    tensor("blk.{}.attn_q", "model.layers.{}.self_attn.q_proj").ordered(|s| pairs(s, |h| h.heads)),
    tensor("blk.{}.attn_k", "model.layers.{}.self_attn.k_proj").ordered(|s| pairs(s, |h| h.kv_heads)),
    tensor("blk.{}.attn_v", "model.layers.{}.self_attn.v_proj"),
    tensor("blk.{}.attn_output", "model.layers.{}.self_attn.o_proj"),
];

/// Dimensions `i` and `i + dims / 2` of each head, one after the other.
fn pairs(s: &Settings<'_>, count: impl Fn(&Heads) -> usize) -> Result<Order> {
    let heads = Heads::read(s, Decoder::read(s)?.width)?;
    let dims = s.rope(heads.head, RopeStyle::Pairs)?.dims();
    let row = |i: usize| if i < dims { i / 2 + i % 2 * dims / 2 } else { i };
    Ok(Order::Rows((0..count(&heads)).flat_map(|h| (0..heads.head).map(move |i| h * heads.head + row(i))).collect()))
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = Heads::read(s, c.width)?;
    let rope = s.rope(heads.head, RopeStyle::Pairs)?;
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.activation("silu")?;
    let window = s.optional_size("sliding_window", "attention.sliding_window")?;
    s.hf_only(window.is_some(), "llama.cpp knows no sliding window in `llama`");
    let mask = window.map_or(Mask::Causal, Mask::Window);
    Ok(c.build(g, |g, _, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, mask, |g, q, _| g.rope(q, heads.head, &rope)));
        c.residual(g, x, "ffn_norm", |g, x| g.gated_ffn(x, inner, act))
    }))
}
