//! What decoders shaped like Llama have, in any combination: the pattern that models of an unknown name are held against. Biases and a
//! tied output matrix are found; norms of queries and keys, over each head or all at once, and a mixture of experts are there where the
//! checkpoint has their tensors; windows and the part of a head that turns are read.

use super::{
    Arch,
    blocks::*,
    mixture::{CORRECTION, Implied, Mixture, SHARED_EXPERTS},
};
use crate::{Result, rope::Rotary, settings::Settings};
use onebit_plan::{Graph, Score, Value};

pub(crate) static LLAMA_LIKE: Arch = Arch {
    hf: &["llama-like"],
    gguf: &[],
    tensors: &[TRUNK, PRE_NORMS, ATTENTION, QK_NORMS, FFN, EXPERTS, CORRECTION, SHARED_EXPERTS],
    ignored: &[],
    plan,
};

/// How queries and keys are normalised.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Normed {
    Not,
    EachHead,
    AllHeads,
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = Heads { biased: s.bool_or("attention_bias|qkv_bias", "", false)?, ..Heads::read(s, c.width)? };
    let rope = s.rotary(heads.head, Rotary::HALVES)?;
    let normed = normed(s, g, &heads)?;
    let window = if s.bool_or("use_sliding_window", "", true)? { s.window()? } else { None };
    let masks = masks(s, c.layers, window, s.count_or("max_window_layers", "", 0)?)?;
    let mixture = mixture(s, g, c.layers)?;
    let inner = if mixture.is_none() { s.size("intermediate_size", "")? } else { 0 };
    let act = s.activation("silu")?;
    Ok(c.build(g, |g, layer, x| {
        let prepare = |g: &mut Graph<'_>, q, name: &str| {
            let name = format!("{name}_norm");
            let q = match normed {
                Normed::Not => q,
                Normed::EachHead => g.head_norm(q, &name, heads.head, c.eps),
                Normed::AllHeads => g.rms_norm(q, &name, c.eps),
            };
            g.rope(q, heads.head, &rope)
        };
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, masks[layer], prepare));
        c.residual(g, x, "ffn_norm", |g, x| match &mixture {
            Some(mixture) => mixture.build(g, layer, x),
            None => g.gated_ffn(x, inner, act),
        })
    }))
}

/// As the first layer's tensors tell; a setting must not contradict them.
fn normed(s: &Settings<'_>, g: &Graph<'_>, heads: &Heads) -> Result<Normed> {
    const KEYS: &str = "use_qk_norm|qk_norm|qk_layernorm";
    let has = |n: usize| g.has("blk.0.attn_q_norm.weight", &[n]);
    let found = match (has(heads.head), has(heads.heads * heads.head)) {
        (true, _) => Normed::EachHead,
        (_, true) => Normed::AllHeads,
        _ => Normed::Not,
    };
    if s.bool_or(KEYS, "", found != Normed::Not)? != (found != Normed::Not) {
        return Err(s.wrong(KEYS, "", "says otherwise than the tensors, of which `q_norm` tells"));
    }
    Ok(found)
}

/// The mixture of experts, where the settings count experts. Scores that are corrected for the choice are sigmoids, as in DeepSeek-V3.
fn mixture(s: &Settings<'_>, g: &Graph<'_>, layers: usize) -> Result<Option<Mixture>> {
    const COUNT: &str = "n_routed_experts|num_experts|num_local_experts|moe_num_experts";
    const NORMALIZES: &str = "norm_topk_prob";
    let Some(experts) = s.optional_size(COUNT, "")? else { return Ok(None) };
    if s.json(NORMALIZES).is_none() {
        return Err(s.wrong(
            NORMALIZES,
            "",
            "is missing: nothing else tells whether the weights of the chosen experts are made to sum to one",
        ));
    }
    let corrected = (0..layers).any(|layer| g.has(&format!("blk.{layer}.exp_probs_b.bias"), &[experts]));
    let score = if corrected { Score::Sigmoid } else { Score::Softmax };
    let implied = Implied { score, corrected, normalize: true, says_normalize: true, scale: 1.0, shared: 0, dense: 0, best: 2 };
    Mixture::read(s, layers, &implied).map(Some)
}
