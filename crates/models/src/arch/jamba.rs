//! Jamba (Lieber et al. 2024, arXiv:2403.19887): Mamba layers with normalised selection, every few layers one of attention without
//! positions, and every few layers a mixture of experts. Reference: transformers' `models/jamba`.

use super::{
    Arch,
    blocks::*,
    hybrid::attention_layers,
    mamba::{HYBRID_MAMBA, Mamba, Norms},
};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{Graph, Mask, Value};

pub(crate) static JAMBA: Arch = Arch {
    hf: &["jamba"],
    gguf: &["jamba"],
    tensors: &[HYBRID_TRUNK, HYBRID_MAMBA, ATTENTION, HYBRID_FFN, JAMBA_EXPERTS],
    ignored: &[],
    plan,
};

/// Names outside of attention and mixers.
pub(crate) const HYBRID_TRUNK: &[Entry] = &[
    tensor("token_embd", "model.embed_tokens"),
    tensor("output_norm", "model.final_layernorm"),
    tensor("output", "lm_head"),
    tensor("blk.{}.attn_norm", "model.layers.{}.input_layernorm"),
    tensor("blk.{}.ffn_norm", "model.layers.{}.pre_ff_layernorm"),
];

/// Names of a gated feed-forward layer.
pub(crate) const HYBRID_FFN: &[Entry] = &[
    tensor("blk.{}.ffn_gate", "model.layers.{}.feed_forward.gate_proj"),
    tensor("blk.{}.ffn_up", "model.layers.{}.feed_forward.up_proj"),
    tensor("blk.{}.ffn_down", "model.layers.{}.feed_forward.down_proj"),
];

const JAMBA_EXPERTS: &[Entry] = &[
    tensor("blk.{}.ffn_gate_inp", "model.layers.{}.feed_forward.router"),
    tensor("blk.{}.ffn_gate_exps", "model.layers.{}.feed_forward.experts.{e}.gate_proj"),
    tensor("blk.{}.ffn_up_exps", "model.layers.{}.feed_forward.experts.{e}.up_proj"),
    tensor("blk.{}.ffn_down_exps", "model.layers.{}.feed_forward.experts.{e}.down_proj"),
];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = Heads::read(s, c.width)?;
    let every = |what: &str, period: usize, offset: usize| -> Result<_> {
        let period = s.optional_size(&format!("{what}_layer_period"), "")?.unwrap_or(period);
        let offset = s.count_or(&format!("{what}_layer_offset"), "", offset)?;
        Ok(move |layer: usize| layer % period == offset)
    };
    let attention = attention_layers(s, c.layers, heads.kv_heads, every("attn", 8, 4)?)?;
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.activation("silu")?;
    let moe = match s.optional_size("num_experts", "expert_count")? {
        Some(2..) => Some((Moe::read(s, false, false)?, every("expert", 2, 1)?)),
        _ => None,
    };
    let mixer = Mamba::read(s, c.width, c.width * s.size_or("mamba_expand", "", 2)?, Norms::Weighted(c.eps))?;
    Ok(c.build(g, |g, layer, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| match attention[layer] {
            true => heads.attention(g, x, Mask::Causal, |_, q, _| q),
            false => mixer.build(g, x),
        });
        // In GGUF files the layers with experts are those that have them.
        let routed = |g: &Graph<'_>, layer: usize, of: &dyn Fn(usize) -> bool| match s.is_gguf() {
            true => !g.has("ffn_gate.weight", &[inner, c.width]),
            false => of(layer),
        };
        c.residual(g, x, "ffn_norm", |g, x| match &moe {
            Some((moe, of)) if routed(g, layer, of) => moe.build(g, x),
            _ => g.gated_ffn(x, inner, act),
        })
    }))
}
