//! gpt-oss (OpenAI 2025, arXiv:2508.10925): grouped-query attention with biases and sinks, every other layer with a window, YaRN; a mixture
//! of experts in each layer, with biases and a bounded gate. Reference: transformers' `models/gpt_oss`. Published checkpoints hold the
//! experts' matrices in MXFP4, as they were trained, and they stay so.

use super::{
    Arch,
    blocks::*,
    mixture::{Implied, Mixture},
    windows::periodic_masks,
};
use crate::{
    Result,
    names::{Entry, tensor},
    rope::Rotary,
    settings::Settings,
};
use onebit_plan::{Function, Gating, Graph, Score, Value};

pub(crate) static GPT_OSS: Arch =
    Arch { hf: &["gpt_oss"], gguf: &["gpt-oss"], tensors: &[TRUNK, NORMS, ATTENTION, MIXTURE], ignored: &[], plan };

/// GGUF files call the second norm as if it stood behind the attention layer.
const NORMS: &[Entry] = &[
    tensor("blk.{}.attn_norm", "model.layers.{}.input_layernorm"),
    tensor("blk.{}.post_attention_norm", "model.layers.{}.post_attention_layernorm"),
    tensor("blk.{}.attn_sinks.weight", "model.layers.{}.self_attn.sinks"),
];

const GATE_UP: &str = "model.layers.{}.mlp.experts.gate_up_proj";
const GATE_UP_BIAS: &str = "model.layers.{}.mlp.experts.gate_up_proj_bias";

/// On the Hub, rows of gate and up take turns.
const MIXTURE: &[Entry] = &[
    tensor("blk.{}.ffn_gate_inp", "model.layers.{}.mlp.router"),
    tensor("blk.{}.ffn_gate_exps.weight", "").of_turns(GATE_UP, 0, 2).turned(),
    tensor("blk.{}.ffn_up_exps.weight", "").of_turns(GATE_UP, 1, 2).turned(),
    tensor("blk.{}.ffn_down_exps.weight", "").or_fused("", "model.layers.{}.mlp.experts.down_proj", 0, 1).turned(),
    tensor("blk.{}.ffn_gate_exps.bias", "").of_turns(GATE_UP_BIAS, 0, 2),
    tensor("blk.{}.ffn_up_exps.bias", "").of_turns(GATE_UP_BIAS, 1, 2),
    tensor("blk.{}.ffn_down_exps.bias", "model.layers.{}.mlp.experts.down_proj_bias"),
];

/// The factor in the gate's sigmoid, as [`Function::QuickGelu`] has it.
const ALPHA: f64 = 1.702;
const LIMIT: f64 = 7.0;

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = Heads { sinks: Some("attn_sinks"), ..Heads::read(s, c.width)? };
    let rope = s.rotary(heads.head, Rotary { base: 150_000.0, whole: false, ..Rotary::HALVES })?;
    let masks = periodic_masks(s, c.layers, 2)?;
    let alpha = s.optional_float("swiglu_alpha", "")?.unwrap_or(ALPHA);
    if (alpha - ALPHA).abs() > 1e-6 {
        return Err(s.wrong("swiglu_alpha", "", format!("is {alpha}; only {ALPHA} is known")));
    }
    let limit = s.optional_positive("swiglu_limit", "")?.unwrap_or(LIMIT);
    s.hf_only(limit != LIMIT, "its `swiglu_limit` is not the 7 that GGUF files of `gpt-oss` mean");
    let gating = Gating { f: Function::QuickGelu, limit: Some(limit as f32), offset: 1.0 };
    let implied = Implied { score: Score::Softmax, corrected: false, says_normalize: false, shared: 0, dense: 0, ..Implied::SIGMOID };
    let mixture = Mixture::read(s, c.layers, &implied)?.with_spec(|spec| {
        spec.gating = gating;
        spec.biased = true;
    });
    Ok(c.build(g, |g, layer, x| {
        let turn = |g: &mut Graph<'_>, q, _: &str| g.rope(q, heads.head, &rope);
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, masks[layer], turn));
        c.residual(g, x, "post_attention_norm", |g, x| mixture.build(g, layer, x))
    }))
}
