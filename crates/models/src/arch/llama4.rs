//! Llama 4 (Meta 2025): layers that see their own chunk of the sequence only and know positions, and layers that see all, know none
//! (Yang et al. 2025, arXiv:2501.18795) and look harder in longer contexts; queries and keys that are normalised without weights; a
//! mixture of experts whose input is weighted, beside one expert that all tokens ask. Reference: transformers' `models/llama4`.

use super::{
    Arch,
    blocks::*,
    mixture::{Implied, Mixture},
};
use crate::{
    Result,
    names::{Entry, tensor},
    rope::Rotary,
    settings::Settings,
};
use onebit_plan::{Graph, Mask, Value, Weigh};

pub(crate) static LLAMA4: Arch = Arch {
    hf: &["llama4_text", "llama4"],
    gguf: &["llama4"],
    tensors: &[TRUNK, PRE_NORMS, ATTENTION, FEED_FORWARD],
    ignored: &["vision_model.*", "model.vision_model.*"],
    plan,
};

const GATE_UP: &str = "model.layers.{}.feed_forward.experts.gate_up_proj";

const FEED_FORWARD: &[Entry] = &[
    tensor("blk.{}.ffn_gate", "model.layers.{}.feed_forward.gate_proj"),
    tensor("blk.{}.ffn_up", "model.layers.{}.feed_forward.up_proj"),
    tensor("blk.{}.ffn_down", "model.layers.{}.feed_forward.down_proj"),
    tensor("blk.{}.ffn_gate_inp", "model.layers.{}.feed_forward.router"),
    tensor("blk.{}.ffn_gate_exps", "model.layers.{}.feed_forward.experts.{e}.gate_proj").or_fused("", GATE_UP, 0, 2).turned(),
    tensor("blk.{}.ffn_up_exps", "model.layers.{}.feed_forward.experts.{e}.up_proj").or_fused("", GATE_UP, 1, 2).turned(),
    tensor("blk.{}.ffn_down_exps", "model.layers.{}.feed_forward.experts.{e}.down_proj")
        .or_fused("", "model.layers.{}.feed_forward.experts.down_proj", 0, 1)
        .turned(),
    tensor("blk.{}.ffn_gate_shexp", "model.layers.{}.feed_forward.shared_expert.gate_proj"),
    tensor("blk.{}.ffn_up_shexp", "model.layers.{}.feed_forward.shared_expert.up_proj"),
    tensor("blk.{}.ffn_down_shexp", "model.layers.{}.feed_forward.shared_expert.down_proj"),
];

/// What GGUF files of the architecture mean: tokens in a chunk, layers from one that sees all to the next, how the scores grow.
const CHUNK: usize = 8192;
const PERIOD: usize = 4;
const TEMPERATURE: (f64, usize) = (0.1, 8192);

/// By layer, whether it knows positions.
fn turning(s: &Settings<'_>, layers: usize) -> Result<Vec<bool>> {
    let usual = |period: usize| (1..=layers).map(|i| i % period != 0).collect::<Vec<_>>();
    // An empty list counts as none.
    let listed = s.json("no_rope_layers").is_some_and(|v| v.as_array().is_some_and(|list| !list.is_empty()));
    let turning = match listed {
        true => s.per_layer("no_rope_layers", layers)?.into_iter().flatten().map(|turns| turns.as_u64() != Some(0)).collect(),
        false => usual(s.optional_size("no_rope_layer_interval", "")?.unwrap_or(PERIOD)),
    };
    s.hf_only(turning != usual(PERIOD), "its layers without positions are not each fourth, as GGUF files of `llama4` mean");
    Ok(turning)
}

/// What each layer sees.
fn masks(s: &Settings<'_>, turning: &[bool]) -> Result<Vec<Mask>> {
    let chunk = if s.is_gguf() { Some(CHUNK) } else { s.optional_size("attention_chunk_size", "")? };
    s.hf_only(chunk != Some(CHUNK), "its chunks are not the 8192 tokens that GGUF files of `llama4` mean");
    let chunked = chunk.map_or(Mask::Causal, Mask::Chunked);
    let usual: Vec<Mask> = turning.iter().map(|turns| if *turns { chunked } else { Mask::Causal }).collect();
    let listed = s.kinds("layer_types", turning.len(), &[("full_attention", Mask::Causal), ("chunked_attention", chunked)])?;
    let masks = listed.unwrap_or_else(|| usual.clone());
    s.hf_only(masks != usual, "its layers that see all are not those without positions, as GGUF files of `llama4` mean");
    Ok(masks)
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = Heads::read(s, c.width)?;
    let rope = s.rotary(heads.head, Rotary { base: 500_000.0, ..Rotary::PAIRS })?;
    let turning = turning(s, c.layers)?;
    let masks = masks(s, &turning)?;
    let mixture =
        Mixture::read(s, c.layers, &Implied { corrected: false, normalize: false, says_normalize: false, dense: 0, ..Implied::SIGMOID })?;
    let mixture = mixture.with_spec(|spec| spec.weigh = Weigh::Input);
    // The model of 128 experts has none, and GGUF files tell it by that.
    let normed = if s.is_gguf() { mixture.experts() != 128 } else { s.bool_or("use_qk_norm", "", true)? };
    s.hf_only(normed != (mixture.experts() != 128), "GGUF files of `llama4` mean the other value of `use_qk_norm` for so many experts");
    let growth = s.optional_float("attn_scale", "")?.unwrap_or(TEMPERATURE.0);
    let length = s.optional_size("floor_scale", "")?.unwrap_or(TEMPERATURE.1);
    let tuned = s.implied("attn_temperature_tuning", true)?;
    s.hf_only(!tuned || (growth, length) != TEMPERATURE, "its scores do not grow with the context as GGUF files of `llama4` mean");
    Ok(c.build(g, |g, layer, x| {
        let turns = turning[layer];
        let prepare = |g: &mut Graph<'_>, q, name: &str| match turns {
            true => {
                let q = g.rope(q, heads.head, &rope);
                if normed { g.plain_norm(q, heads.head, c.eps) } else { q }
            }
            false if tuned && name == "attn_q" => g.position_scale(q, growth as f32, length, 1),
            false => q,
        };
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, masks[layer], prepare));
        c.residual(g, x, "ffn_norm", |g, x| mixture.build(g, layer, x))
    }))
}
