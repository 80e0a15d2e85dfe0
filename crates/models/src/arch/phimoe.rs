//! Phi-3.5-MoE (Abdin et al. 2024, arXiv:2404.14219): Mixtral with LayerNorm, biases, LongRoPE, and SparseMixer as its router. Reference:
//! transformers' `models/phimoe`. llama.cpp computes another model of its GGUF files: Mixtral, whose norms are RMSNorms and whose router is
//! a softmax.

use super::{Arch, blocks::*, llama::MIXTRAL_EXPERTS};
use crate::{Result, rope::Rotary, settings::Settings};
use onebit_plan::{Graph, Score, Value};

pub(crate) static PHIMOE: Arch =
    Arch { hf: &["phimoe"], gguf: &["phimoe"], tensors: &[TRUNK, PRE_NORMS, ATTENTION, MIXTRAL_EXPERTS], ignored: &[], plan };

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::with_norm(s, Norm::Layer, s.epsilon_or("rms_norm_eps", "attention.layer_norm_rms_epsilon", 1e-5)?)?;
    s.unread_by_llama_cpp(true, "it takes LayerNorm for RMSNorm, and SparseMixer for a softmax");
    let heads = Heads::read(s, c.width)?;
    let rope = s.rotary(heads.head, Rotary { base: 1e6, ..Rotary::HALVES })?;
    const JITTER: f64 = 0.01;
    let jitter = s.optional_positive("router_jitter_noise", "")?.unwrap_or(JITTER);
    s.hf_only(jitter != JITTER, "its router compares logits otherwise than GGUF files of `phimoe` mean (`router_jitter_noise`)");
    let moe = Moe::read(s, true, false)?.with_score(Score::SparseMixer { jitter: jitter as f32 });
    // Some GGUF files state a window, which llama.cpp does not heed.
    let masks = masks(s, c.layers, if s.is_gguf() { None } else { s.window()? }, 0)?;
    Ok(c.build(g, |g, layer, x| {
        let turn = |g: &mut Graph<'_>, q, _: &str| g.rope(q, heads.head, &rope);
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, masks[layer], turn));
        c.residual(g, x, "ffn_norm", |g, x| moe.build(g, x))
    }))
}
