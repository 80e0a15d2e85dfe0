//! OLMo (Groeneveld et al. 2024, arXiv:2402.00838): Llama with LayerNorm that has no weights, and with a bound on queries, keys and
//! values.

use super::{Arch, blocks::*};
use crate::{Result, settings::Settings};
use onebit_plan::{Graph, Mask, RopeStyle, Value};

pub(crate) static OLMO: Arch = Arch { hf: &["olmo"], gguf: &["olmo"], tensors: &[TRUNK, INTERLEAVED_ATTENTION, FFN], ignored: &[], plan };

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::with_norm(s, Norm::PlainLayer, s.epsilon_or("", "attention.layer_norm_epsilon", 1e-5)?)?;
    let clip = s.optional_positive("clip_qkv", "attention.clamp_kqv")?.map(|x| x as f32);
    let heads = Heads { clip, ..Heads::read(s, c.width)? };
    let rope = s.rope(heads.head, RopeStyle::Pairs)?;
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.activation("silu")?;
    Ok(c.build(g, |g, _, x| {
        let turn = |g: &mut Graph<'_>, q, _: &str| g.rope(q, heads.head, &rope);
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, Mask::Causal, turn));
        c.residual(g, x, "ffn_norm", |g, x| g.gated_ffn(x, inner, act))
    }))
}
