//! OLMoE (Muennighoff et al. 2024, arXiv:2409.02060): Llama with a mixture of experts, and with queries and keys normalised over all
//! heads at once. Reference: transformers' `models/olmoe`.

use super::{Arch, blocks::*};
use crate::{Result, settings::Settings};
use onebit_plan::{Graph, Mask, RopeStyle, Value};

pub(crate) static OLMOE: Arch =
    Arch { hf: &["olmoe"], gguf: &["olmoe"], tensors: &[TRUNK, PRE_NORMS, ATTENTION, QK_NORMS, EXPERTS], ignored: &[], plan };

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = Heads::read(s, c.width)?;
    let rope = s.rope(heads.head, RopeStyle::Halves)?;
    let moe = Moe::read(s, false, false)?;
    let clip = s.optional_positive("clip_qkv", "")?.map(|x| x as f32);
    s.hf_only(clip.is_some(), "it bounds queries, keys and values, which GGUF files of `olmoe` do not");
    s.hf_only(heads.kv_heads != heads.heads, "GGUF files of `olmoe` mean as many heads for keys as for queries");
    let bounded = |g: &mut Graph<'_>, x| if let Some(limit) = clip { g.clamp(x, limit) } else { x };
    let prepare = |g: &mut Graph<'_>, q, norm: &str| {
        let q = g.rms_norm(q, norm, c.eps);
        let q = bounded(g, q);
        g.rope(q, heads.head, &rope)
    };
    Ok(c.build(g, |g, _, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| {
            let [q, k, v] = heads.project(g, x);
            let (q, k) = (prepare(g, q, "attn_q_norm"), prepare(g, k, "attn_k_norm"));
            let v = bounded(g, v);
            heads.mix(g, [q, k, v], Mask::Causal, c.width)
        });
        c.residual(g, x, "ffn_norm", |g, x| moe.build(g, x))
    }))
}
