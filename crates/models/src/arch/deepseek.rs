//! DeepSeek-V2 (DeepSeek-AI 2024, arXiv:2405.04434) and V3 (arXiv:2412.19437): latent attention, and a mixture of many small experts.
//! GLM-4.7-Flash (Z.ai 2026) is shaped like V3; A.X K1 (SK Telecom 2026) normalises what its mixtures make; Youtu-LLM (Tencent 2025)
//! has no mixtures; the queries of Mistral 4 (Mistral AI 2026) grow with the position. DeepSeek-V3.2 (DeepSeek-AI 2025, arXiv:2512.02556) and GLM-5 (Z.ai 2026) attend to the tokens that an indexer
//! chooses. Reference: transformers' `models/deepseek_v2`, `deepseek_v3`, `deepseek_v32`, `glm4_moe_lite`, `glm_moe_dsa`, `axk1`, `youtu`, `mistral4`.

use super::{
    Arch,
    blocks::*,
    latent::{INDEXER, LATENT, Latent},
    llama::growth,
    mixture::{CORRECTION, Implied, Mixture, SHARED_EXPERTS},
};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{Graph, RopeStyle, Score, Value};

/// V2 comes first, so that it reads the GGUF files of both: those say what its own do not.
pub(crate) static DEEPSEEK_V2: Arch = Arch {
    hf: &["deepseek_v2"],
    gguf: &["deepseek2"],
    tensors: &[TRUNK, PRE_NORMS, LATENT, FFN, EXPERTS, CORRECTION, SHARED_EXPERTS],
    ignored: &[],
    plan: |s, g| {
        let implied = Implied { score: Score::Softmax, normalize: false, shared: 2, dense: 0, best: 1, ..Implied::SIGMOID };
        if !s.is_gguf() && s.bool_or("norm_topk_prob", "", false)? {
            return Err(s.wrong("norm_topk_prob", "", "is true, which implementations of the architecture disagree about"));
        }
        // Youtu-LLM, which has no mixtures, is one of them in GGUF files.
        let mixture = if s.is_gguf() && s.count_or("", "expert_count", 0)? == 0 { None } else { Some(&implied) };
        plan(s, g, mixture, false)
    },
};

pub(crate) static DEEPSEEK_V3: Arch = Arch {
    hf: &["deepseek_v3", "glm4_moe_lite"],
    plan: |s, g| plan(s, g, Some(&Implied { scale: 2.5, ..Implied::SIGMOID }), false),
    ..DEEPSEEK_V2
};

pub(crate) static AXK1: Arch = Arch {
    hf: &["axk1"],
    gguf: &[],
    tensors: &[TRUNK, PRE_NORMS, LATENT, FFN, EXPERTS, CORRECTION, SHARED_EXPERTS, POST_MIXTURE],
    ignored: &["model.layers.*.post_mlp_layernorm.weight"],
    plan: |s, g| plan(s, g, Some(&Implied { scale: 2.5, ..Implied::SIGMOID }), true),
};

pub(crate) static YOUTU: Arch =
    Arch { hf: &["youtu"], tensors: &[TRUNK, PRE_NORMS, LATENT, FFN], plan: |s, g| plan(s, g, None, false), ..DEEPSEEK_V2 };

pub(crate) static DEEPSEEK_V32: Arch = Arch {
    hf: &["deepseek_v32"],
    gguf: &["deepseek32"],
    tensors: &[TRUNK, PRE_NORMS, LATENT, INDEXER, FFN, EXPERTS, CORRECTION, SHARED_EXPERTS],
    ignored: &[],
    plan: |s, g| sparse_plan(s, g, RopeStyle::Halves),
};

pub(crate) static GLM_MOE_DSA: Arch =
    Arch { hf: &["glm_moe_dsa"], gguf: &["glm-dsa"], plan: |s, g| sparse_plan(s, g, RopeStyle::Pairs), ..DEEPSEEK_V32 };

pub(crate) static MISTRAL4: Arch = Arch {
    hf: &["mistral4"],
    gguf: &["mistral4"],
    plan: |s, g| plan(s, g, Some(&Implied { score: Score::Softmax, corrected: false, dense: 0, ..Implied::SIGMOID }), false),
    ..DEEPSEEK_V2
};

const POST_MIXTURE: &[Entry] = &[tensor("blk.{}.post_ffw_norm", "model.layers.{}.post_mlp_layernorm")];

/// How the dimensions that turn are paired on the Hub.
fn style(s: &Settings<'_>) -> Result<RopeStyle> {
    let pairs = s.implied("rope_interleave", true)?;
    s.hf_only(!pairs, "it turns halves of heads, where GGUF files of its architecture mean adjacent pairs");
    Ok(if pairs { RopeStyle::Pairs } else { RopeStyle::Halves })
}

/// The width of feed-forward layers where no layer has a mixture. llama.cpp wants to know of mixtures all the same.
fn dense(s: &Settings<'_>, c: &Decoder) -> Result<usize> {
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    for (key, n) in [("leading_dense_block_count", c.layers), ("expert_feed_forward_length", inner), ("expert_shared_count", 0)] {
        s.note(key, Meta::Unsigned(n as u64));
    }
    Ok(inner)
}

/// `mixture` is what the family's mixtures are, `normed` whether what they make is normalised.
fn plan(s: &Settings<'_>, g: &mut Graph<'_>, mixture: Option<&Implied>, normed: bool) -> Result<Value> {
    let c = Decoder::read(s)?;
    let growth = growth(s)?;
    if let Some((_, every)) = growth {
        // llama.cpp looks for it here, too, where queries are made of a latent.
        s.note("attention.temperature_length", Meta::Unsigned(every as u64));
    }
    let latent = Latent::read(s, style(s)?, c.eps)?.growing(growth);
    let mixture = mixture.map(|implied| Mixture::read(s, c.layers, implied)).transpose()?;
    let inner = if mixture.is_some() { 0 } else { dense(s, &c)? };
    let act = s.activation("silu")?;
    Ok(c.build(g, |g, layer, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| latent.build(g, x, ""));
        c.residual(g, x, "ffn_norm", |g, x| match &mixture {
            None => g.gated_ffn(x, inner, act),
            Some(mixture) => {
                let y = mixture.build(g, layer, x);
                if normed && mixture.is_sparse(layer) { g.rms_norm(y, "post_ffw_norm", c.eps) } else { y }
            }
        })
    }))
}

/// Which layers have an indexer of their own; the others use the choice of the layer before.
fn choosing(s: &Settings<'_>, layers: usize) -> Result<Vec<bool>> {
    const TYPES: (&str, &str) = ("indexer_types", "attention.indexer.types");
    s.kinds("layer_types", layers, &[("indexed_attention", ())])?;
    let choosing: Vec<bool> = match (s.integers(TYPES.1), s.kinds(TYPES.0, layers, &[("full", true), ("shared", false)])?) {
        (Some(list), _) if list.len() < layers => {
            return Err(s.wrong("", TYPES.1, format!("has {} entries for {layers} layers", list.len())));
        }
        (Some(list), _) => list.iter().take(layers).map(|n| *n != 0).collect(),
        (None, _) if s.is_gguf() => vec![true; layers],
        (None, Some(choosing)) => choosing,
        (None, None) => match s.json("index_topk_pattern").and_then(|v| v.as_str()) {
            Some(letters) => letters.chars().map(|letter| letter == 'F').chain(std::iter::repeat(true)).take(layers).collect(),
            None => {
                let (every, offset) = (s.count_or("index_topk_freq", "", 1)?.max(1), s.count_or("index_skip_topk_offset", "", 2)?);
                (0..layers).map(|i| (i + 1).saturating_sub(offset).is_multiple_of(every)).collect()
            }
        },
    };
    if choosing.contains(&false) {
        s.hf_only(s.gguf_name == "deepseek32", "some of its layers have no indexer, where all have one in GGUF files of `deepseek32`");
        s.note(TYPES.1, Meta::Integers(choosing.iter().map(|own| i64::from(*own)).collect()));
    }
    match choosing.first() {
        Some(false) => Err(s.wrong(TYPES.0, TYPES.1, "lets the first layer use the choice of a layer before")),
        _ => Ok(choosing),
    }
}

/// `style` is how the indexer pairs dimensions.
fn sparse_plan(s: &Settings<'_>, g: &mut Graph<'_>, style: RopeStyle) -> Result<Value> {
    let c = Decoder::read(s)?;
    let latent = Latent::read(s, RopeStyle::Pairs, c.eps)?;
    let indexer = latent.indexer(s, style)?;
    let choosing = choosing(s, c.layers)?;
    let mixture = Mixture::read(s, c.layers, &Implied { scale: 2.5, ..Implied::SIGMOID })?;
    let mut only = None;
    Ok(c.build(g, |g, layer, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| {
            latent.build_indexed(g, x, "", |g, source| {
                if choosing[layer] {
                    only = Some(indexer.build(g, x, source));
                }
                only
            })
        });
        c.residual(g, x, "ffn_norm", |g, x| mixture.build(g, layer, x))
    }))
}
