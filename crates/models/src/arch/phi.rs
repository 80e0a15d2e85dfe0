//! Phi (Gunasekar et al. 2023, arXiv:2306.11644; Phi-2): attention and feed-forward layer side by side on one LayerNorm, a part of each
//! head that turns, and biases everywhere, on the logits too; and Persimmon (Elsen et al. 2023), one after the other, with
//! LayerNorm of each query and key, and squared ReLU. Reference code: transformers' `modeling_phi.py` and
//! `modeling_persimmon.py`.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, tensor},
    rope::Rotary,
    settings::Settings,
};
use onebit_plan::{Graph, Mask, RopeStyle, Value};

pub(crate) static PHI: Arch =
    Arch { hf: &["phi"], gguf: &["phi2"], tensors: &[TRUNK, PRE_NORMS, HEAD_NORMS, PHI_MATRICES], ignored: &[], plan: phi };

pub(crate) static PERSIMMON: Arch =
    Arch { hf: &["persimmon"], gguf: &[], tensors: &[TRUNK, PRE_NORMS, HEAD_NORMS, PERSIMMON_MATRICES], ignored: &[], plan: persimmon };

const TRUNK: &[Entry] =
    &[tensor("token_embd", "model.embed_tokens"), tensor("output_norm", "model.final_layernorm"), tensor("output", "lm_head")];

const HEAD_NORMS: &[Entry] = &[
    tensor("blk.{}.attn_q_norm", "model.layers.{}.self_attn.q_layernorm"),
    tensor("blk.{}.attn_k_norm", "model.layers.{}.self_attn.k_layernorm"),
];

const PHI_MATRICES: &[Entry] = &[
    tensor("blk.{}.attn_q", "model.layers.{}.self_attn.q_proj"),
    tensor("blk.{}.attn_k", "model.layers.{}.self_attn.k_proj"),
    tensor("blk.{}.attn_v", "model.layers.{}.self_attn.v_proj"),
    GGUF_QKV,
    tensor("blk.{}.attn_output", "model.layers.{}.self_attn.dense"),
    tensor("blk.{}.ffn_up", "model.layers.{}.mlp.fc1"),
    tensor("blk.{}.ffn_down", "model.layers.{}.mlp.fc2"),
];

const PERSIMMON_MATRICES: &[Entry] = &[
    tensor("blk.{}.attn_qkv", "model.layers.{}.self_attn.query_key_value"),
    tensor("blk.{}.attn_output", "model.layers.{}.self_attn.dense"),
    tensor("blk.{}.ffn_up", "model.layers.{}.mlp.dense_h_to_4h"),
    tensor("blk.{}.ffn_down", "model.layers.{}.mlp.dense_4h_to_h"),
];

fn phi(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read_layer_norm(s, "layer_norm_eps")?;
    let heads = Heads { biased: true, ..Heads::read(s, c.width)? };
    let prepare = prepare(s, &c, &heads, false)?;
    let inner = feed_forward_width(s, c.width)?;
    let act = s.activation("gelu_new")?;
    s.note_own_output();
    Ok(c.build(g, |g, _, x| {
        c.parallel(g, x, "attn_norm", |g, x| heads.attention(g, x, Mask::Causal, &prepare), |g, x| g.ffn(x, inner, act))
    }))
}

fn persimmon(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read_layer_norm(s, "layer_norm_eps")?;
    let heads = Heads::read(s, c.width)?;
    // Each head has its query, key and value in a run.
    let heads = Heads { biased: true, fused: Fused::runs(heads.heads), ..heads };
    let prepare = prepare(s, &c, &heads, true)?;
    let inner = feed_forward_width(s, c.width)?;
    let act = s.activation("relu2")?;
    Ok(c.build(g, |g, _, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, Mask::Causal, &prepare));
        c.residual(g, x, "ffn_norm", |g, x| g.ffn(x, inner, act))
    }))
}

/// What queries and keys go through; `normed` where the configuration does not say otherwise.
fn prepare(s: &Settings<'_>, c: &Decoder, heads: &Heads, normed: bool) -> Result<impl Fn(&mut Graph<'_>, Value, &str) -> Value> {
    let rope = s.rotary(heads.head, Rotary { part: 0.5, ..Rotary::new(RopeStyle::Halves) })?;
    let normed = s.implied("qk_layernorm", normed)?;
    s.hf_only(normed, "it normalises queries and keys");
    let (head, eps) = (heads.head, c.eps);
    Ok(move |g: &mut Graph<'_>, q, name: &str| {
        let q = if normed { g.head_layer_norm(q, &format!("{name}_norm"), head, eps) } else { q };
        g.rope(q, head, &rope)
    })
}
