//! Command R (Cohere 2024): Llama with LayerNorm without biases, attention and feed-forward layer side by side, a factor on the
//! logits, and heads that turn in adjacent pairs in all checkpoints.

use super::{Arch, blocks::*};
use crate::{Result, rope::Rotary, settings::Settings};
use onebit_plan::{Graph, Mask, RopeStyle, Value};

pub(crate) static COHERE: Arch =
    Arch { hf: &["cohere"], gguf: &["command-r"], tensors: &[TRUNK, PRE_NORMS, ATTENTION, FFN], ignored: &[], plan };

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    if s.implied("use_qk_norm", false)? {
        return Err(s.wrong("use_qk_norm", "", "is true; LayerNorm of each head with a weight of its own is not known here"));
    }
    let logit_scale = s.float_or("logit_scale", "logit_scale", 0.0625)? as f32;
    let c = Decoder { logit_scale, ..Decoder::read_layer_norm(s, "layer_norm_eps")? };
    let heads = Heads::read(s, c.width)?;
    let rope = s.rotary(heads.head, Rotary { hf: RopeStyle::Pairs, base: 500_000.0, ..Rotary::new(RopeStyle::Pairs) })?;
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.activation("silu")?;
    Ok(c.build(g, |g, _, x| {
        let turn = |g: &mut Graph<'_>, q, _: &str| g.rope(q, heads.head, &rope);
        c.parallel(g, x, "attn_norm", |g, h| heads.attention(g, h, Mask::Causal, turn), |g, h| g.gated_ffn(h, inner, act))
    }))
}
