//! Jais (Sengupta et al. 2023, arXiv:2308.16149): GPT-2 with linear biases in place of positions, gated feed-forward layers, scores scaled
//! by the width of a head, and factors on embedding and logits (the parametrisation of Yang et al. 2022, arXiv:2203.03466). And Jais 2
//! (Inception 2025), which is Llama with LayerNorm, biases, and a feed-forward layer of squared ReLU without a gate. Reference:
//! `modeling_jais.py` of inceptionai/jais-13b; transformers' `models/jais2`.

use super::{
    Arch,
    blocks::*,
    gpt2::{CAUSAL_MASKS, GPT_NORMS, GPT_TRUNK},
};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{Error, Graph, Mask, RopeStyle, Value};

pub(crate) static JAIS: Arch =
    Arch { hf: &["jais"], gguf: &["jais"], tensors: &[GPT_TRUNK, GPT_NORMS, MATRICES], ignored: CAUSAL_MASKS, plan };

pub(crate) static JAIS2: Arch =
    Arch { hf: &["jais2"], gguf: &["jais2"], tensors: &[TRUNK, PRE_NORMS, ATTENTION, FFN], ignored: &[], plan: plan2 };

/// Matrices have their inputs as rows.
const MATRICES: &[Entry] = &[
    tensor("blk.{}.attn_qkv", "model.h.{}.attn.c_attn").transposed(),
    tensor("blk.{}.attn_output", "model.h.{}.attn.c_proj").transposed(),
    tensor("blk.{}.ffn_up", "model.h.{}.mlp.c_fc").transposed(),
    tensor("blk.{}.ffn_gate", "model.h.{}.mlp.c_fc2").transposed(),
    tensor("blk.{}.ffn_down", "model.h.{}.mlp.c_proj").transposed(),
    tensor(SLOPES, "model.relative_pe.slopes"),
];

/// The slopes of the linear biases, which GGUF files state by the largest exponent.
const SLOPES: &str = "relative_pe.slopes";

/// Factors on embedding and logits, which GGUF files hold in the weights.
fn factors(s: &Settings<'_>) -> Result<[f32; 2]> {
    let embedding = s.optional_positive("mup_embeddings_scale|embeddings_scale", "")?.unwrap_or(1.0);
    let logits = match s.optional_positive("mup_output_alpha", "")? {
        Some(alpha) => alpha * s.optional_positive("mup_width_scale", "")?.unwrap_or(1.0),
        None => s.optional_positive("width_scale", "")?.unwrap_or(1.0),
    };
    let factors = [embedding as f32, logits as f32];
    s.note_factors("token_embd.weight", &factors[..1]);
    s.note_factors("output.weight", &factors[1..]);
    s.note_own_output();
    Ok(factors)
}

/// Refuses what the reference code knows and is not known here.
fn refuse_others(s: &Settings<'_>) -> Result<()> {
    for (key, known) in [("position_embedding_type", "alibi"), ("activation_function", "swiglu")] {
        let word = if s.is_gguf() { known.to_string() } else { s.text_or(key, "", known)? };
        if word != known {
            return Err(s.wrong(key, "", format!("is `{word}`; only `{known}` is known")));
        }
    }
    Ok(())
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    const BIAS: &str = "attention.max_alibi_bias";
    refuse_others(s)?;
    let [embed_scale, logit_scale] = factors(s)?;
    let c = Decoder { embed_scale, logit_scale, ..Decoder::read_layer_norm(s, "layer_norm_epsilon")? };
    let heads = Heads::with(s, c.width, Heads::count(s)?, Heads::count(s)?)?;
    let by_width = s.implied("mup_scale_qk_dot_by_d|scale_qk_dot_by_d", true)?;
    s.hf_only(!by_width, "its attention scores are scaled in another way");
    let max = if s.is_gguf() { s.float_or("", BIAS, 8.0)? as f32 } else { 8.0 };
    s.note(BIAS, Meta::Float(f64::from(max)));
    let shape = [heads.heads, 1];
    if g.has(SLOPES, &shape) && g.constant(SLOPES, &shape) != alibi_slopes(heads.heads, max) {
        g.fail(Error::invalid(format!("`{SLOPES}` are not the slopes of {} heads", heads.heads)));
    }
    let scale = if by_width { 1.0 / heads.head as f32 } else { heads.scale };
    let heads = Heads { scale, alibi: Some((max, 1.0)), ..heads };
    let inner = feed_forward_width(s, c.width)?;
    Ok(c.build(g, |g, _, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, Mask::Causal, |_, q, _| q));
        c.residual(g, x, "ffn_norm", |g, x| g.gated_ffn(x, inner, onebit_plan::Function::Silu))
    }))
}

fn plan2(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read_layer_norm(s, "layer_norm_eps")?;
    let heads = Heads { biased: s.implied("attention_bias", true)?, ..Heads::read(s, c.width)? };
    s.hf_only(!heads.biased, "its attention has no biases");
    let rope = s.rope(heads.head, RopeStyle::Halves)?;
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.activation("relu2")?;
    Ok(c.build(g, |g, _, x| {
        let turn = |g: &mut Graph<'_>, q, _: &str| g.rope(q, heads.head, &rope);
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, Mask::Causal, turn));
        c.residual(g, x, "ffn_norm", |g, x| g.ffn(x, inner, act))
    }))
}
