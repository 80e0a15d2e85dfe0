//! Phi-3.5-MoE (Abdin et al. 2024, arXiv:2404.14219): Mixtral with LayerNorm, biases, LongRoPE, and SparseMixer as its router. Reference:
//! transformers' `models/phimoe`. llama.cpp takes its router for a softmax, so there is no GGUF form that means the same.

use super::{Arch, blocks::*, llama::MIXTRAL_EXPERTS};
use crate::{Result, rope::Rotary, settings::Settings};
use onebit_plan::{Graph, Mask, Score, Value};

pub(crate) static PHIMOE: Arch =
    Arch { hf: &["phimoe"], gguf: &[], tensors: &[TRUNK, PRE_NORMS, ATTENTION, MIXTRAL_EXPERTS], ignored: &[], plan };

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read_layer_norm(s, "rms_norm_eps")?;
    let heads = Heads::read(s, c.width)?;
    let rope = s.rotary(heads.head, Rotary { base: 1e6, ..Rotary::HALVES })?;
    let jitter = s.optional_positive("router_jitter_noise", "")?.unwrap_or(0.01) as f32;
    let moe = Moe::read(s, true, false)?.with_score(Score::SparseMixer { jitter });
    let mask = s.window()?.map_or(Mask::Causal, Mask::Window);
    Ok(c.build(g, |g, _, x| {
        let turn = |g: &mut Graph<'_>, q, _: &str| g.rope(q, heads.head, &rope);
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, mask, turn));
        c.residual(g, x, "ffn_norm", |g, x| moe.build(g, x))
    }))
}
