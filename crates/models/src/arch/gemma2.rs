//! Gemma 2 (Gemma Team 2024, arXiv:2408.00118): Gemma with norms around attention and feed-forward layer, sliding windows in every
//! other layer, and bounds on scores and logits. VaultGemma (Sinha et al. 2025, arXiv:2510.15001) is this without the norms behind.
//! Gemma 3 (Gemma Team 2025, arXiv:2503.19786) normalises queries and keys instead of bounding their scores, and turns layers with a
//! window by shorter wavelengths; EmbeddingGemma (Schechter Vera et al. 2025, arXiv:2509.20354) is this with attention both ways, and
//! ends in hidden states. Reference: transformers' `models/gemma2`, `vaultgemma`, `gemma3`.

use super::{Arch, blocks::*, encoder, windows::periodic_masks};
use crate::{
    Result,
    names::{Entry, tensor},
    rope::{RopeKeys, Rotary},
    settings::Settings,
};
use onebit_plan::{Graph, Mask, Value};

pub(crate) static GEMMA2: Arch = Arch {
    hf: &["gemma2"],
    gguf: &["gemma2"],
    tensors: &[ZERO_CENTRED_TRUNK, GEMMA_PRE_NORMS, GEMMA_POST_NORMS, ATTENTION, FFN],
    ignored: &[],
    plan: |s, g| plan(s, g, &Family::GEMMA2),
};

pub(crate) static VAULTGEMMA: Arch = Arch {
    hf: &["vaultgemma"],
    gguf: &[],
    tensors: &[ZERO_CENTRED_TRUNK, GEMMA_PRE_NORMS, ATTENTION, FFN],
    ignored: &[],
    plan: |s, g| plan(s, g, &Family { post_norms: false, ..Family::GEMMA2 }),
};

pub(crate) static GEMMA3: Arch = Arch {
    hf: &["gemma3_text", "gemma3"],
    gguf: &["gemma3"],
    tensors: &[ZERO_CENTRED_TRUNK, GEMMA_PRE_NORMS, GEMMA_POST_NORMS, ATTENTION, GEMMA_QK_NORMS, FFN],
    ignored: &[],
    plan: |s, g| plan(s, g, &GEMMA3_FAMILY),
};

pub(crate) static GEMMA_EMBEDDING: Arch = Arch {
    hf: &["gemma-embedding"],
    gguf: &["gemma-embedding"],
    tensors: GEMMA3.tensors,
    ignored: &[],
    plan: |s, g| plan(s, g, &Family { encodes: true, ..GEMMA3_FAMILY }),
};

const GEMMA3_FAMILY: Family = Family { period: 6, largest: 62, caps: [None; 2], qk_norms: true, full_base: 1e6, ..Family::GEMMA2 };

const GEMMA_PRE_NORMS: &[Entry] = &[
    tensor("blk.{}.attn_norm", "model.layers.{}.input_layernorm").add_one(),
    tensor("blk.{}.ffn_norm", "model.layers.{}.pre_feedforward_layernorm").add_one(),
];

const GEMMA_POST_NORMS: &[Entry] = &[
    tensor("blk.{}.post_attention_norm", "model.layers.{}.post_attention_layernorm").add_one(),
    tensor("blk.{}.post_ffw_norm", "model.layers.{}.post_feedforward_layernorm").add_one(),
];

const GEMMA_QK_NORMS: &[Entry] = &[
    tensor("blk.{}.attn_q_norm", "model.layers.{}.self_attn.q_norm").add_one(),
    tensor("blk.{}.attn_k_norm", "model.layers.{}.self_attn.k_norm").add_one(),
];

/// In what the families differ.
struct Family {
    /// Every how manieth layer sees the whole context.
    period: usize,
    /// Layers of the largest model.
    largest: usize,
    /// What GGUF files without bounds on scores and logits mean.
    caps: [Option<f64>; 2],
    post_norms: bool,
    qk_norms: bool,
    /// The rotary base of layers that see the whole context, where nothing tells it.
    full_base: f64,
    /// Whether attention looks both ways, and the model ends in hidden states.
    encodes: bool,
}

impl Family {
    const GEMMA2: Self = Self {
        period: 2,
        largest: 46,
        caps: [Some(50.0), Some(30.0)],
        post_norms: true,
        qk_norms: false,
        full_base: 10_000.0,
        encodes: false,
    };
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>, family: &Family) -> Result<Value> {
    let c = Decoder::read(s)?;
    let [softcap, logit_softcap] = caps(s, family)?;
    let c = Decoder { embed_scale: (c.width as f32).sqrt(), logit_softcap, ..c };
    let heads = Heads::read(s, c.width)?;
    let heads = Heads { softcap, scale: scale(s, &c, &heads, family)?, ..heads };
    let masks = periodic_masks(s, c.layers, family.period)?;
    let masks = if family.encodes { both_ways(s, &masks)? } else { masks };
    if !family.encodes && s.bool_or("use_bidirectional_attention", "", false)? {
        return Err(s.wrong("use_bidirectional_attention", "", "is true; only causal attention is known here"));
    }
    let full = s.rotary(heads.head, Rotary { base: family.full_base, ..Rotary::HALVES })?;
    let sliding = if family.qk_norms { s.rotary(heads.head, Rotary { keys: RopeKeys::SLIDING, ..Rotary::HALVES })? } else { full.clone() };
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.activation("gelu_pytorch_tanh")?;
    let after = |g: &mut Graph<'_>, y, norm: &str| if family.post_norms { g.rms_norm(y, norm, c.eps) } else { y };
    let x = g.embed("token_embd", c.width, c.embed_scale);
    let layer = |g: &mut Graph<'_>, layer: usize, x| {
        let rope = if masks[layer].window().is_none() { &full } else { &sliding };
        let prepare = |g: &mut Graph<'_>, q, name: &str| {
            let q = if family.qk_norms { g.head_norm(q, &format!("{name}_norm"), heads.head, c.eps) } else { q };
            g.rope(q, heads.head, rope)
        };
        let x = c.residual(g, x, "attn_norm", |g, x| {
            let y = heads.attention(g, x, masks[layer], prepare);
            after(g, y, "post_attention_norm")
        });
        c.residual(g, x, "ffn_norm", |g, x| {
            let y = g.gated_ffn(x, inner, act);
            after(g, y, "post_ffw_norm")
        })
    };
    if !family.encodes {
        return Ok(c.build_on(g, x, layer));
    }
    let x = g.layers(c.layers, x, layer);
    Ok(encoder::end(&c, g, x))
}

/// The same masks where tokens see what follows too: of a window they see half before and half behind.
fn both_ways(s: &Settings<'_>, masks: &[Mask]) -> Result<Vec<Mask>> {
    // What tells a file that goes by no known name from Gemma 3's.
    if s.is_gguf() && s.gguf_value("pooling_type").is_none() {
        return Err(s.wrong("", "pooling_type", "is missing; a model that makes embeddings states it"));
    }
    encoder::causes(s)?;
    Ok(masks.iter().map(|mask| mask.window().map_or(Mask::Full, |window| Mask::Near(window / 2))).collect())
}

/// The bounds on scores and logits.
fn caps(s: &Settings<'_>, family: &Family) -> Result<[Option<f32>; 2]> {
    let cap = |hf: &str, gguf: &str, implied: Option<f64>| -> Result<Option<f32>> {
        let cap = s.optional_positive(hf, gguf)?.or(implied.filter(|_| s.is_gguf()));
        s.hf_only(cap.is_none() && implied.is_some(), "it does not bound scores or logits, as GGUF files of its architecture do");
        Ok(cap.map(|cap| cap as f32))
    };
    let [score, logit] = family.caps;
    let score_cap = cap("attn_logit_softcapping", "attn_logit_softcapping", score)?;
    s.hf_only(score_cap.is_some() && score.is_none(), "it bounds scores, which GGUF files of its architecture do not");
    Ok([score_cap, cap("final_logit_softcapping", "final_logit_softcapping", logit)?])
}

/// The factor on the scores. GGUF files do not hold it: it follows from the size of a head, or, in the largest model, from the
/// width's share for a head.
fn scale(s: &Settings<'_>, c: &Decoder, heads: &Heads, family: &Family) -> Result<f32> {
    let implied = if c.layers == family.largest { c.width / heads.heads } else { heads.head } as f64;
    let by = if s.is_gguf() { implied } else { s.float_or("query_pre_attn_scalar", "", implied)? };
    s.hf_only(by != implied, "GGUF files of its architecture mean another `query_pre_attn_scalar`");
    Ok(1.0 / by.sqrt() as f32)
}
