//! Nemotron-4 (Parmar et al. 2024, arXiv:2402.16819): Llama with zero-centred LayerNorm, a feed-forward layer of squared ReLU without
//! a gate, and half of each head that turns.

use super::{Arch, blocks::*};
use crate::{Result, rope::Rotary, settings::Settings};
use onebit_plan::{Graph, Mask, RopeStyle, Value};

pub(crate) static NEMOTRON: Arch = Arch {
    hf: &["nemotron"],
    gguf: &["nemotron"],
    tensors: &[ZERO_CENTRED_TRUNK, ZERO_CENTRED_PRE_NORMS, ATTENTION, FFN],
    ignored: &[],
    plan,
};

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read_layer_norm(s, "norm_eps")?;
    let heads = Heads::read(s, c.width)?;
    let rope = s.rotary(heads.head, Rotary { part: 0.5, ..Rotary::new(RopeStyle::Halves) })?;
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.activation("relu2")?;
    s.unread_by_llama_cpp(heads.heads * heads.head != c.width, "its heads together are not as wide as its stream");
    s.note_own_output();
    Ok(c.build(g, |g, _, x| {
        let turn = |g: &mut Graph<'_>, q, _: &str| g.rope(q, heads.head, &rope);
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, Mask::Causal, turn));
        c.residual(g, x, "ffn_norm", |g, x| g.ffn(x, inner, act))
    }))
}
