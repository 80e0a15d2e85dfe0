//! StableLM (Bellagente et al. 2024, arXiv:2402.17834): Llama with LayerNorm, and with a part of each head that turns; some have
//! attention and feed-forward layer side by side.

use super::{Arch, blocks::*};
use crate::{Result, rope::Rotary, settings::Settings};
use onebit_plan::{Graph, Mask, RopeStyle, Value};

pub(crate) static STABLELM: Arch =
    Arch { hf: &["stablelm"], gguf: &["stablelm"], tensors: &[TRUNK, PRE_NORMS, ATTENTION, FFN], ignored: &[], plan };

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    if s.implied("qk_layernorm", false)? {
        return Err(s.wrong("qk_layernorm", "", "is true; LayerNorm of each head with a weight of its own is not known here"));
    }
    let c = Decoder::read_layer_norm(s, "layer_norm_eps")?;
    let heads = Heads { biased: s.implied("use_qkv_bias", false)?, ..Heads::read(s, c.width)? };
    let rope = s.rotary(heads.head, Rotary { part: 0.25, ..Rotary::new(RopeStyle::Halves) })?;
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.activation("silu")?;
    // GGUF files say it wrongly where the original does not say it; llama.cpp looks for the second norm.
    const PARALLEL: &str = "use_parallel_residual";
    let parallel = if s.is_gguf() { !g.has("blk.0.ffn_norm.weight", &[c.width]) } else { s.bool_or(PARALLEL, PARALLEL, false)? };
    Ok(c.build(g, |g, _, x| {
        let turn = |g: &mut Graph<'_>, q, _: &str| g.rope(q, heads.head, &rope);
        let attention = |g: &mut Graph<'_>, h| heads.attention(g, h, Mask::Causal, turn);
        let feed_forward = |g: &mut Graph<'_>, h| g.gated_ffn(h, inner, act);
        if parallel {
            return c.parallel(g, x, "attn_norm", attention, feed_forward);
        }
        let x = c.residual(g, x, "attn_norm", attention);
        c.residual(g, x, "ffn_norm", feed_forward)
    }))
}
