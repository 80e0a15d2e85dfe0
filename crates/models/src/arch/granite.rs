//! Granite (Granite Team 2024, IBM): Llama with factors on the embedding, the attention scores, what each layer adds, and the
//! logits (the parametrisation of Yang et al. 2022, arXiv:2203.03466); its mixture of experts; and HyperCLOVA X, which
//! also normalises what each layer adds (Kim et al. 2025, arXiv:2502.02732).

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, part, tensor},
    settings::Settings,
};
use onebit_plan::{Graph, Mask, RopeStyle, Value};

pub(crate) static GRANITE: Arch = Arch {
    hf: &["granite"],
    gguf: &["granite"],
    tensors: &[TRUNK, PRE_NORMS, INTERLEAVED_ATTENTION, FFN],
    ignored: &[],
    plan: |s, g| plan(s, g, None, false),
};

pub(crate) static GRANITE_MOE: Arch = Arch {
    hf: &["granitemoe", "granitemoeshared"],
    gguf: &["granitemoe"],
    tensors: &[TRUNK, PRE_NORMS, INTERLEAVED_ATTENTION, GRANITE_EXPERTS, SHARED_MLP],
    ignored: &[],
    plan: |s, g| plan(s, g, Some(moe(s)?), false),
};

pub(crate) static HYPERCLOVAX: Arch = Arch {
    hf: &["hyperclovax"],
    gguf: &[],
    tensors: &[TRUNK, PRE_NORMS, INTERLEAVED_ATTENTION, FFN, PERI_NORMS],
    ignored: &[],
    plan: |s, g| plan(s, g, None, s.implied("use_post_norm", false)?),
};

pub(crate) const GRANITE_EXPERTS: &[Entry] = &[
    tensor("blk.{}.ffn_gate_inp", "model.layers.{}.block_sparse_moe.router.layer"),
    part("blk.{}.ffn_gate_exps", "model.layers.{}.block_sparse_moe.input_linear.weight", 0, 2),
    part("blk.{}.ffn_up_exps", "model.layers.{}.block_sparse_moe.input_linear.weight", 1, 2),
    tensor("blk.{}.ffn_down_exps", "model.layers.{}.block_sparse_moe.output_linear"),
];

/// Names of the expert that all tokens ask.
pub(super) const SHARED_MLP: &[Entry] = &[
    part("blk.{}.ffn_gate_shexp", "model.layers.{}.shared_mlp.input_linear.weight", 0, 2),
    part("blk.{}.ffn_up_shexp", "model.layers.{}.shared_mlp.input_linear.weight", 1, 2),
    tensor("blk.{}.ffn_down_shexp", "model.layers.{}.shared_mlp.output_linear"),
];

/// The mixture, perhaps with an expert that all tokens ask.
fn moe(s: &Settings<'_>) -> Result<Moe> {
    let moe = Moe::read(s, true, false)?;
    let shared = s.count_or("shared_intermediate_size", "expert_shared_feed_forward_length", 0)?;
    Ok(if shared > 0 { moe.with_shared(shared) } else { moe })
}

const PERI_NORMS: &[Entry] =
    &[tensor("blk.{}.post_attention_norm", "model.layers.{}.post_norm1"), tensor("blk.{}.post_ffw_norm", "model.layers.{}.post_norm2")];

/// The factors of a Granite.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scales {
    embedding: f32,
    residual: f32,
    logits: f32,
    attention: Option<f32>,
}

impl Scales {
    pub(crate) fn read(s: &Settings<'_>) -> Result<Self> {
        Ok(Self {
            embedding: s.float_or("embedding_multiplier", "embedding_scale", 1.0)? as f32,
            residual: s.float_or("residual_multiplier", "residual_scale", 1.0)? as f32,
            logits: 1.0 / s.float_or("logits_scaling", "logit_scale", 1.0)? as f32,
            attention: s.optional_float("attention_multiplier", "attention.scale")?.map(|x| x as f32),
        })
    }
    pub(crate) fn decoder(&self, c: Decoder) -> Decoder {
        Decoder { embed_scale: self.embedding, residual_scale: self.residual, logit_scale: self.logits, ..c }
    }
    pub(crate) fn heads(&self, heads: Heads) -> Heads {
        Heads { scale: self.attention.unwrap_or(heads.scale), ..heads }
    }
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>, moe: Option<Moe>, peri: bool) -> Result<Value> {
    let scales = Scales::read(s)?;
    let c = scales.decoder(Decoder::read(s)?);
    let heads = scales.heads(Heads::read(s, c.width)?);
    let rope = s.rope(heads.head, RopeStyle::Pairs)?;
    let feed_forward = FeedForward::read(s, c.layers, moe)?;
    let after = |g: &mut Graph<'_>, y, norm: &str| if peri { g.rms_norm(y, norm, c.eps) } else { y };
    Ok(c.build(g, |g, layer, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| {
            let y = heads.attention(g, x, Mask::Causal, |g, q, _| g.rope(q, heads.head, &rope));
            after(g, y, "post_attention_norm")
        });
        c.residual(g, x, "ffn_norm", |g, x| {
            let y = feed_forward.build(g, layer, x);
            after(g, y, "post_ffw_norm")
        })
    }))
}
