//! Gemma (Gemma Team 2024, arXiv:2403.08295): Llama with zero-centred norms, an embedding scaled by the root of its width, and GELU.
//! Gemma 2 (Gemma Team 2024, arXiv:2408.00118) also has norms behind both layers, bounds on scores and logits, and a window in
//! every other layer.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{Graph, Mask, RopeStyle, Value};

pub(crate) static GEMMA: Arch = Arch {
    hf: &["gemma"],
    gguf: &["gemma"],
    tensors: &[ZERO_CENTRED_TRUNK, ZERO_CENTRED_PRE_NORMS, ATTENTION, FFN],
    ignored: &[],
    plan: gemma,
};

pub(crate) static GEMMA2: Arch =
    Arch { hf: &["gemma2"], gguf: &["gemma2"], tensors: &[ZERO_CENTRED_TRUNK, FOUR_NORMS, ATTENTION, FFN], ignored: &[], plan: gemma2 };

const FOUR_NORMS: &[Entry] = &[
    tensor("blk.{}.attn_norm", "model.layers.{}.input_layernorm").add_one(),
    tensor("blk.{}.post_attention_norm", "model.layers.{}.post_attention_layernorm").add_one(),
    tensor("blk.{}.ffn_norm", "model.layers.{}.pre_feedforward_layernorm").add_one(),
    tensor("blk.{}.post_ffw_norm", "model.layers.{}.post_feedforward_layernorm").add_one(),
];

/// The trunk of all Gemmas.
fn decoder(s: &Settings<'_>) -> Result<Decoder> {
    let c = Decoder::read(s)?;
    Ok(Decoder { embed_scale: (c.width as f32).sqrt(), ..c })
}

fn gemma(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = decoder(s)?;
    let heads = Heads::read(s, c.width)?;
    let rope = s.rope(heads.head, RopeStyle::Halves)?;
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.activation("gelu_pytorch_tanh")?;
    Ok(c.build(g, |g, _, x| {
        let turn = |g: &mut Graph<'_>, q, _: &str| g.rope(q, heads.head, &rope);
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, Mask::Causal, turn));
        c.residual(g, x, "ffn_norm", |g, x| g.gated_ffn(x, inner, act))
    }))
}

fn gemma2(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder { logit_softcap: Some(softcap(s, "final_logit_softcapping", 30.0)?), ..decoder(s)? };
    let heads = Heads { softcap: Some(softcap(s, "attn_logit_softcapping", 50.0)?), ..Heads::read(s, c.width)? };
    // llama.cpp knows the 27B, whose scores are scaled by another width, by its layers.
    let scaled_by = if c.layers == 46 { c.width / heads.heads } else { heads.head };
    let scale = if s.is_gguf() { scaled_by as f64 } else { s.float_or("query_pre_attn_scalar", "", 256.0)? };
    s.hf_only(scale != scaled_by as f64, "GGUF files of `gemma2` mean another `query_pre_attn_scalar`");
    let heads = Heads { scale: 1.0 / (scale as f32).sqrt(), ..heads };
    if s.implied("use_bidirectional_attention", false)? {
        return Err(s.wrong("use_bidirectional_attention", "", "is true; only causal attention is known here"));
    }
    let rope = s.rope(heads.head, RopeStyle::Halves)?;
    let window = s.size_or("sliding_window", "attention.sliding_window", 4096)?;
    let period = if s.is_gguf() { s.size_or("", "attention.sliding_window_pattern", 2)? } else { 2 };
    let masks = periodic_masks(s, c.layers, window, period)?;
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.activation("gelu_pytorch_tanh")?;
    Ok(c.build(g, |g, layer, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| {
            let y = heads.attention(g, x, masks[layer], |g, q, _| g.rope(q, heads.head, &rope));
            g.rms_norm(y, "post_attention_norm", c.eps)
        });
        c.residual(g, x, "ffn_norm", |g, x| {
            let y = g.gated_ffn(x, inner, act);
            g.rms_norm(y, "post_ffw_norm", c.eps)
        })
    }))
}

/// The bound `key`, which GGUF files need not state. A configuration without would mean none, which they have no way to say.
fn softcap(s: &Settings<'_>, key: &str, gguf: f64) -> Result<f32> {
    let cap = if s.is_gguf() { Some(s.float_or("", key, gguf)?) } else { s.optional_positive(key, key)? };
    cap.map(|cap| cap as f32).ok_or_else(|| s.wrong(key, key, "is missing, or null; models without this bound are not known here"))
}
