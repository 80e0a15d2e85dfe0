//! MiniCPM3 (OpenBMB 2024; Hu et al. 2024, arXiv:2404.06395): latent attention in a dense decoder, with the factors of muP on embedding,
//! residual and logits. Reference: transformers' `models/minicpm3`.

use super::{
    Arch,
    blocks::*,
    latent::{LATENT, Latent, WHOLE_LATENT},
};
use crate::{Result, settings::Settings};
use onebit_plan::{Graph, RopeStyle, Value};

pub(crate) static MINICPM3: Arch =
    Arch { hf: &["minicpm3"], gguf: &["minicpm3"], tensors: &[TRUNK, PRE_NORMS, WHOLE_LATENT, LATENT, FFN], ignored: &[], plan };

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    // GGUF files do not say these, and llama.cpp has them built in.
    let depth = s.optional_positive("scale_depth", "")?.unwrap_or(1.4);
    let base = s.optional_positive("dim_model_base", "")?.unwrap_or(256.0);
    let embedding = s.optional_positive("scale_emb", "")?.unwrap_or(12.0);
    s.hf_only((depth, base, embedding) != (1.4, 256.0, 12.0), "its factors are not those that GGUF files of `minicpm3` mean");
    let c = Decoder {
        embed_scale: embedding as f32,
        residual_scale: (depth / (c.layers as f64).sqrt()) as f32,
        logit_scale: (base / c.width as f64) as f32,
        ..c
    };
    let latent = Latent::read(s, RopeStyle::Halves, c.eps)?;
    latent.note_whole(s);
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.activation("silu")?;
    Ok(c.build(g, |g, _, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| latent.build(g, x, ""));
        c.residual(g, x, "ffn_norm", |g, x| g.gated_ffn(x, inner, act))
    }))
}
