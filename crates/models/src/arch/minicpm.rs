//! MiniCPM (Hu et al. 2024, arXiv:2404.06395): Llama with factors on the embedding, on what each layer adds, and on the logits, so that
//! settings found with small models hold for large ones; its mixture of experts; MiniCPM 4 with LongRoPE, in contexts where its
//! attention is not sparse. Reference: `modeling_minicpm.py` of openbmb/MiniCPM-2B-sft-bf16 and openbmb/MiniCPM-MoE-8x2B.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{Graph, Mask, RopeStyle, Value};

pub(crate) static MINICPM: Arch =
    Arch { hf: &["minicpm"], gguf: &["minicpm"], tensors: &[TRUNK, PRE_NORMS, INTERLEAVED_ATTENTION, FFN, EXPERTS], ignored: &[], plan };

const EXPERTS: &[Entry] = &[
    tensor("blk.{}.ffn_gate_inp", "model.layers.{}.mlp.gate"),
    tensor("blk.{}.ffn_gate_exps", "model.layers.{}.mlp.experts.{e}.w1"),
    tensor("blk.{}.ffn_up_exps", "model.layers.{}.mlp.experts.{e}.w3"),
    tensor("blk.{}.ffn_down_exps", "model.layers.{}.mlp.experts.{e}.w2"),
];

/// The decoder with its factors, which GGUF files hold as they are applied; those without are of MiniCPM-2B.
fn decoder(s: &Settings<'_>) -> Result<Decoder> {
    let c = Decoder::read(s)?;
    let (width, layers) = (c.width as f64, c.layers as f64);
    let [embed, residual, logits] = match s.is_gguf() {
        true => [
            s.float_or("", "embedding_scale", 12.0)?,
            s.float_or("", "residual_scale", 1.4 / layers.sqrt())?,
            s.float_or("", "logit_scale", width / 256.0)?,
        ],
        false => [
            s.float_or("scale_emb", "", 1.0)?,
            s.float_or("scale_depth", "", 1.0)? / layers.sqrt(),
            width / s.float_or("dim_model_base", "", 1.0)?,
        ],
    };
    for (key, factor) in [("embedding_scale", embed), ("residual_scale", residual), ("logit_scale", logits)] {
        s.note(key, Meta::Float(factor));
    }
    Ok(Decoder { embed_scale: embed as f32, residual_scale: residual as f32, logit_scale: (1.0 / logits) as f32, ..c })
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = decoder(s)?;
    let heads = Heads::read(s, c.width)?;
    let rope = s.rope(heads.head, RopeStyle::Pairs)?;
    let mixture = s.optional_size("num_experts", "expert_count")?.is_some();
    let feed_forward = FeedForward::read(s, c.layers, if mixture { Some(Moe::read(s, true, false)?) } else { None })?;
    Ok(c.build(g, |g, layer, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, Mask::Causal, |g, q, _| g.rope(q, heads.head, &rope)));
        c.residual(g, x, "ffn_norm", |g, x| feed_forward.build(g, layer, x))
    }))
}
