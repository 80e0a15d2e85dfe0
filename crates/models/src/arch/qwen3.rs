//! Qwen3 (Yang et al. 2025, arXiv:2505.09388): Llama with normalised queries and keys.

use super::{Arch, blocks::*};
use crate::{Result, settings::Settings};
use onebit_plan::{Graph, Mask, RopeStyle, Value};

pub(crate) static QWEN3: Arch =
    Arch { hf: &["qwen3"], gguf: &["qwen3"], tensors: &[TRUNK, PRE_NORMS, ATTENTION, QK_NORMS, FFN], ignored: &[], plan };

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = Heads::read(s, c.width)?;
    let rope = s.rope(heads.head, RopeStyle::Halves)?;
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.activation("silu")?;
    Ok(c.build(g, |g, _, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| {
            heads.attention(g, x, Mask::Causal, |g, q, name| {
                let q = g.head_norm(q, &format!("{name}_norm"), heads.head, c.eps);
                g.rope(q, heads.head, &rope)
            })
        });
        c.residual(g, x, "ffn_norm", |g, x| g.gated_ffn(x, inner, act))
    }))
}
