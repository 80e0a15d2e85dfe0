//! MiMo-V2-Flash (Xiaomi 2025, arXiv:2601.02780): layers with a window and layers without take turns; those with one have twice the
//! key/value heads, a rotary base of their own, and sinks (Agarwal et al. 2025, arXiv:2508.10925); values are scaled; the mixture
//! of experts is that of DeepSeek-V3. Reference: transformers' `models/mimo_v2_flash`.

use super::{
    Arch,
    blocks::*,
    mixture::{CORRECTION, Implied, Mixture},
};
use crate::{
    Result,
    names::{Entry, tensor},
    rope::{RopeKeys, Rotary},
    settings::Settings,
};
use onebit_plan::{Graph, Mask, Value};

pub(crate) static MIMO_V2_FLASH: Arch = Arch {
    hf: &["mimo_v2_flash"],
    gguf: &[],
    tensors: &[TRUNK, PRE_NORMS, ATTENTION, SINKS, FFN, EXPERTS, CORRECTION],
    ignored: &["model.mtp.*"],
    plan,
};

const SINKS: &[Entry] = &[tensor("blk.{}.attn_sinks.weight", "model.layers.{}.self_attn.attention_sink_bias")];

/// The layers with a window: all but the first and each sixth, unless the configuration says otherwise.
fn windowed(s: &Settings<'_>, layers: usize) -> Result<Vec<bool>> {
    if let Some(windowed) = s.kinds("layer_types", layers, &[("full_attention", false), ("sliding_attention", true)])? {
        return Ok(windowed);
    }
    Ok(match s.per_layer("hybrid_layer_pattern", layers)? {
        Some(flags) => flags.into_iter().map(|flag| flag.as_u64() == Some(1)).collect(),
        None => (0..layers).map(|i| i > 0 && (i + 1) % 6 != 0).collect(),
    })
}

/// A setting that published checkpoints repeat for the layers with a window must say what is known of them.
fn same(s: &Settings<'_>, key: &str, expected: usize) -> Result<()> {
    match s.optional_size(key, "")? {
        Some(n) if n != expected => Err(s.wrong(key, "", format!("is {n}, but only {expected} is known here"))),
        _ => Ok(()),
    }
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::with_norm(s, Norm::Rms, s.epsilon("rms_norm_eps|layernorm_epsilon", "")?)?;
    let heads = Heads::read(s, c.width)?;
    let full = Heads { value: s.optional_size("v_head_dim", "")?.unwrap_or(128), ..heads };
    let swa = Heads {
        kv_heads: s.optional_size("swa_num_key_value_heads", "")?.unwrap_or(2 * heads.kv_heads),
        sinks: Some("attn_sinks"),
        ..full
    };
    same(s, "swa_num_attention_heads", full.heads)?;
    same(s, "swa_head_dim", full.head)?;
    same(s, "swa_v_head_dim", full.value)?;
    if !swa.heads.is_multiple_of(swa.kv_heads) {
        return Err(s.wrong("num_attention_heads", "", format!("is {}, which {} key/value heads do not divide", swa.heads, swa.kv_heads)));
    }
    let value_scale = s.optional_float("attention_value_scale", "")?.unwrap_or(1.0) as f32;
    let window = match s.optional_size("sliding_window_size", "")? {
        Some(before) => before + 1,
        None => s.optional_size("sliding_window", "")?.unwrap_or(129),
    };
    let rotary = Rotary { part: 0.334, ..Rotary::HALVES };
    let full_rope = s.rotary(full.head, Rotary { base: 5e6, ..rotary })?;
    let swa_rope = s.rotary(full.head, Rotary { base: 1e4, keys: RopeKeys { base: "swa_rope_theta", ..RopeKeys::SLIDING }, ..rotary })?;
    let windowed = windowed(s, c.layers)?;
    let mixture = Mixture::read(s, c.layers, &Implied { shared: 0, ..Implied::SIGMOID })?;
    Ok(c.build(g, |g, layer, x| {
        let (heads, rope, mask) = if windowed[layer] { (swa, &swa_rope, Mask::Window(window)) } else { (full, &full_rope, Mask::Causal) };
        let x = c.residual(g, x, "attn_norm", |g, x| {
            let [q, k, v] = heads.project(g, x);
            let [q, k] = [q, k].map(|q| g.rope(q, heads.head, rope));
            let v = g.scale(v, value_scale);
            heads.mix(g, [q, k, v], mask, c.width)
        });
        c.residual(g, x, "ffn_norm", |g, x| mixture.build(g, layer, x))
    }))
}
