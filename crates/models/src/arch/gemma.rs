//! Gemma (Gemma Team 2024, arXiv:2403.08295): Llama with zero-centred norms, an embedding scaled by the root of its width, and GELU.

use super::{Arch, blocks::*};
use crate::{Result, settings::Settings};
use onebit_plan::{Graph, Mask, RopeStyle, Value};

pub(crate) static GEMMA: Arch =
    Arch { hf: &["gemma"], gguf: &["gemma"], tensors: &[ZERO_CENTRED_TRUNK, ZERO_CENTRED_PRE_NORMS, ATTENTION, FFN], ignored: &[], plan };

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let c = Decoder { embed_scale: (c.width as f32).sqrt(), ..c };
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
