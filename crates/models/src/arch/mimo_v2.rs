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
use onebit_formats::Meta;
use onebit_plan::{Graph, Mask, Value};

pub(crate) static MIMO_V2_FLASH: Arch = Arch {
    hf: &["mimo_v2_flash"],
    gguf: &["mimo2"],
    tensors: &[TRUNK, PRE_NORMS, ATTENTION, SINKS, FFN, EXPERTS, CORRECTION],
    ignored: &["model.mtp.*"],
    plan,
};

const SINKS: &[Entry] = &[tensor("blk.{}.attn_sinks.weight", "model.layers.{}.self_attn.attention_sink_bias")];

const PATTERN: &str = "attention.sliding_window_pattern";
const KV_HEADS: &str = "attention.head_count_kv";

/// The layers with a window: all but the first and each sixth, unless the configuration says otherwise.
fn windowed(s: &Settings<'_>, layers: usize) -> Result<Vec<bool>> {
    let listed = s.kinds("layer_types", layers, &[("full_attention", false), ("sliding_attention", true)])?;
    let windowed: Vec<bool> = match (s.flags(PATTERN, layers)?, listed, s.per_layer("hybrid_layer_pattern", layers)?) {
        (Some(flags), _, _) | (None, Some(flags), _) => flags,
        (None, None, Some(flags)) => flags.into_iter().map(|flag| flag.as_u64() == Some(1)).collect(),
        (None, None, None) => (0..layers).map(|i| i > 0 && (i + 1) % 6 != 0).collect(),
    };
    s.note(PATTERN, Meta::Bools(windowed.clone()));
    Ok(windowed)
}

/// A setting that published checkpoints repeat for the layers with a window must say what is known of them.
fn same(s: &Settings<'_>, key: &str, expected: usize) -> Result<()> {
    match s.optional_size(key, "")? {
        Some(n) if n != expected => Err(s.wrong(key, "", format!("is {n}, but only {expected} is known here"))),
        _ => Ok(()),
    }
}

/// The heads of layers that see all, and of those with a window.
fn heads(s: &Settings<'_>, c: &Decoder, windowed: &[bool]) -> Result<[Heads; 2]> {
    let full = if s.is_gguf() { gguf_heads(s, windowed, false)? } else { hf_heads(s, c)? };
    let kv_heads = match s.is_gguf() {
        true => gguf_heads(s, windowed, true)?.kv_heads,
        false => s.optional_size("swa_num_key_value_heads", "")?.unwrap_or(2 * full.kv_heads),
    };
    let swa = Heads { kv_heads, sinks: Some("attn_sinks"), ..full };
    if !swa.heads.is_multiple_of(swa.kv_heads) {
        let what = format!("is {}, which {} key/value heads do not divide", swa.heads, swa.kv_heads);
        return Err(s.wrong("num_attention_heads", "attention.head_count", what));
    }
    s.note("attention.value_length", Meta::Unsigned(full.value as u64));
    s.note_sizes(KV_HEADS, &windowed.iter().map(|windowed| if *windowed { swa.kv_heads } else { full.kv_heads }).collect::<Vec<_>>());
    Ok([full, swa])
}

fn hf_heads(s: &Settings<'_>, c: &Decoder) -> Result<Heads> {
    let heads = Heads { value: s.optional_size("v_head_dim", "")?.unwrap_or(128), ..Heads::read(s, c.width)? };
    same(s, "swa_num_attention_heads", heads.heads)?;
    same(s, "swa_head_dim", heads.head)?;
    same(s, "swa_v_head_dim", heads.value)?;
    Ok(heads)
}

/// The heads of layers of one kind in a GGUF file.
fn gguf_heads(s: &Settings<'_>, windowed: &[bool], kind: bool) -> Result<Heads> {
    let all = s.sizes("", KV_HEADS, windowed.len())?;
    let mut those = windowed.iter().zip(&all).filter(|(windowed, _)| **windowed == kind).map(|(_, n)| *n);
    let kv_heads = those.next().unwrap_or(1);
    if those.any(|n| n != kv_heads) {
        return Err(s.wrong("", KV_HEADS, "has different numbers for layers that see the same"));
    }
    let (heads, head) = (Heads::count(s)?, s.size("", "attention.key_length")?);
    let value = s.size_or("", "attention.value_length", head)?;
    match heads.is_multiple_of(kv_heads) {
        true => Ok(Heads { value, ..Heads::new(heads, kv_heads, head) }),
        false => Err(s.wrong("", KV_HEADS, format!("has {kv_heads}, which does not divide {heads} heads"))),
    }
}

/// Tokens that layers with a window see.
fn window(s: &Settings<'_>) -> Result<usize> {
    let stated = if s.is_gguf() { None } else { s.optional_size("sliding_window_size", "")?.map(|before| before + 1) };
    let window = match stated {
        Some(window) => window,
        None => s.window()?.unwrap_or(129),
    };
    s.note("attention.sliding_window", Meta::Unsigned(window as u64));
    Ok(window)
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let eps = s.epsilon("rms_norm_eps|layernorm_epsilon", "attention.layer_norm_rms_epsilon")?;
    let c = Decoder::with_norm(s, Norm::Rms, eps)?;
    let windowed = windowed(s, c.layers)?;
    let [full, swa] = heads(s, &c, &windowed)?;
    let value_scale = s.optional_float("attention_value_scale", "attention.value_scale")?.unwrap_or(1.0) as f32;
    let window = window(s)?;
    let rotary = Rotary { part: 0.334, ..Rotary::HALVES };
    let full_rope = s.rotary(full.head, Rotary { base: 5e6, ..rotary })?;
    let swa_rope = s.rotary(full.head, Rotary { base: 1e4, keys: RopeKeys { base: "swa_rope_theta", ..RopeKeys::SLIDING }, ..rotary })?;
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
