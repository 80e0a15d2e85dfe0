//! Ling 3 (inclusionAI 2026): Kimi Linear with bounded decays, and with latent attention that turns and whose heads are gated.
//! Reference: transformers' `models/bailing_hybrid`.

use super::{
    Arch,
    blocks::*,
    hybrid::attention_layers,
    kda::{BAILING_KDA, Kda},
    latent::{BAILING_LATENT, Latent},
    lfm3::gate_heads,
    mixture::{Implied, Mixture, SHARED_EXPERTS},
};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{Graph, RopeStyle, Value};

pub(crate) static BAILING_HYBRID: Arch = Arch {
    hf: &["bailing_hybrid"],
    gguf: &["bailingmoe3"],
    tensors: &[BAILING_TRUNK, PRE_NORMS, BAILING_KDA, BAILING_LATENT, GATE, FFN, EXPERTS, SHARED_EXPERTS, EXPERT_BIAS],
    ignored: &[],
    plan,
};

const BAILING_TRUNK: &[Entry] = &[
    tensor("token_embd", "model.word_embeddings").or("model.embed_tokens"),
    tensor("output_norm", "model.norm"),
    tensor("output", "lm_head"),
];

const GATE: &[Entry] = &[tensor("blk.{}.attn_gate", "model.layers.{}.attention.g_proj")];

const EXPERT_BIAS: &[Entry] = &[tensor("blk.{}.exp_probs_b.bias", "model.layers.{}.mlp.gate.expert_bias")];

/// The least logarithm of a decay.
const BOUND: (&str, &str) = ("kda_lower_bound", "kda.gate_lower_bound");

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let latent = Latent::read(s, RopeStyle::Pairs, c.eps)?;
    let safe = s.bool_or("kda_safe_gate", "kda.safe_gate", true)?;
    s.unread_by_llama_cpp(!safe, "its decays have no bound");
    let bound = s.optional_float(BOUND.0, BOUND.1)?.unwrap_or(-5.0) as f32;
    if safe && bound >= 0.0 {
        return Err(s.wrong(BOUND.0, BOUND.1, format!("is {bound}, but decays should have a negative one")));
    }
    s.note(BOUND.1, Meta::Float(f64::from(bound)));
    const HEADS: &str = "linear_num_heads|num_attention_heads";
    let kda = Kda::read(s, [HEADS, "linear_head_dim|head_dim", "short_conv_kernel_size"])?;
    s.hf_only(kda.heads != latent.heads, "its kinds of layers have different numbers of heads");
    let kda = kda.bounded(safe.then_some(bound));
    let group = s.size_or("layer_group_size", "", 6)?;
    let attention = attention_layers(s, c.layers, 1, |layer| (layer + 1).is_multiple_of(group))?;
    s.unread_by_llama_cpp(!attention.contains(&true), "no layer of it attends to other tokens");
    let mixture = Mixture::read(s, c.layers, &Implied { scale: 2.5, dense: 2, ..Implied::SIGMOID })?;
    Ok(c.build(g, |g, layer, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| match attention[layer] {
            false => kda.build(g, x, c.eps),
            true => {
                let y = latent.mix(g, x, "");
                let y = gate_heads(g, x, y, latent.heads);
                g.linear(y, "attn_output", c.width)
            }
        });
        c.residual(g, x, "ffn_norm", |g, x| mixture.build(g, layer, x))
    }))
}
