//! LFM3 (Liquid AI 2026): LFM2 with norms behind both parts of a layer, some attention in a window, and a gate on the output of each
//! head. Reference: transformers' `models/lfm3`.

use super::{
    Arch,
    blocks::*,
    lfm2::{LFM_FFN, LFM_TRUNK, lfm_decoder, short_conv},
};
use crate::{
    Result,
    names::{Entry, tensor},
    rope::{RopeKeys, Rotary},
    settings::Settings,
};
use onebit_plan::{AttentionSpec, Function, Graph, Mask, RopeStyle, Value};

pub(crate) static LFM3: Arch =
    Arch { hf: &["lfm3"], gguf: &[], tensors: &[LFM_TRUNK, SANDWICH_NORMS, ATTENTION, QK_NORMS, HEAD_GATE, LFM_FFN], ignored: &[], plan };

const SANDWICH_NORMS: &[Entry] = &[
    tensor("blk.{}.post_attention_norm", "model.layers.{}.post_operator_norm"),
    tensor("blk.{}.post_ffw_norm", "model.layers.{}.post_ffn_norm"),
];

const HEAD_GATE: &[Entry] = &[tensor("blk.{}.attn_gate", "model.layers.{}.self_attn.gate_proj").or("model.layers.{}.self_attn.g_proj")];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = lfm_decoder(s)?;
    let heads = Heads::read(s, c.width)?;
    let turn = |keys, base| s.rotary(heads.head, Rotary { keys, base, ..Rotary::new(RopeStyle::Halves) });
    let (full, sliding) = (turn(RopeKeys::FULL, 1e6)?, turn(RopeKeys::SLIDING, 1e4)?);
    let layers = layers(s, c.layers)?;
    let kernel = s.size_or("conv_L_cache", "", 7)?;
    let inner = s.size("intermediate_size", "")?;
    let (sandwich, gated) = (s.bool_or("use_sandwich_norm", "", true)?, s.bool_or("use_attention_gate", "", true)?);
    let after = |g: &mut Graph<'_>, y, norm: &str| if sandwich { g.rms_norm(y, norm, c.eps) } else { y };
    Ok(c.build(g, |g, layer, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| {
            let y = match layers[layer] {
                None => short_conv(g, x, kernel),
                Some(mask) => {
                    let rope = if mask == Mask::Causal { &full } else { &sliding };
                    let [q, k, v] = heads.project(g, x);
                    let [q, k] = [(q, "attn_q_norm"), (k, "attn_k_norm")].map(|(q, norm)| {
                        let q = g.head_norm(q, norm, heads.head, c.eps);
                        g.rope(q, heads.head, rope)
                    });
                    let spec = AttentionSpec { mask, ..AttentionSpec::causal(heads.heads, heads.kv_heads, heads.head) };
                    let y = g.attention(q, k, v, &spec);
                    let y = if gated { gate_heads(g, x, y, heads.heads) } else { y };
                    g.linear(y, "attn_output", c.width)
                }
            };
            after(g, y, "post_attention_norm")
        });
        c.residual(g, x, "ffn_norm", |g, x| {
            let y = g.gated_ffn(x, inner, Function::Silu);
            after(g, y, "post_ffw_norm")
        })
    }))
}

/// The output `y` of each head, times a sigmoid of `x`.
pub(crate) fn gate_heads(g: &mut Graph<'_>, x: Value, y: Value, heads: usize) -> Value {
    let gate = g.linear(x, "attn_gate", heads);
    let gate = g.apply(gate, Function::Sigmoid);
    g.mul(y, gate)
}

/// What each of `layers` sees, where it is not a convolution.
fn layers(s: &Settings<'_>, layers: usize) -> Result<Vec<Option<Mask>>> {
    let window = Mask::Window(s.size_or("sliding_window", "", 256)?);
    let usual = |i: usize| match i % 4 {
        2 => Some(Mask::Causal),
        0 if i > 0 => Some(window),
        _ => None,
    };
    let known = [("conv", None), ("full_attention", Some(Mask::Causal)), ("sliding_attention", Some(window))];
    Ok(s.kinds("layer_types", layers, &known)?.unwrap_or_else(|| (0..layers).map(usual).collect()))
}
