//! ModernBERT (Warner et al. 2024, arXiv:2412.13663): pre-norm layers with LayerNorm, gated feed-forward layers, and attention that is
//! local in two of three layers, where it turns by shorter wavelengths; and its decoder (Weller et al. 2025, arXiv:2507.11412), which
//! looks back only. Reference: transformers' `models/modernbert` and `modernbert_decoder`.

use super::{
    Arch,
    blocks::{Decoder, Heads},
    encoder,
};
use crate::{
    Result,
    names::{Entry, tensor},
    rope::{RopeKeys, Rotary},
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{Graph, Mask, Value};

pub(crate) static MODERNBERT_DECODER: Arch =
    Arch { hf: &["modernbert-decoder"], gguf: &[], tensors: &[TRUNK, HEAD, SPLIT_ATTENTION, LAYERS], ignored: &[], plan: decoder };

pub(crate) static MODERNBERT: Arch =
    Arch { hf: &["modernbert"], gguf: &["modern-bert"], tensors: &[TRUNK, FUSED_ATTENTION, LAYERS], ignored: UNUSED, plan: encoder };

/// Heads for other tasks than embedding.
const UNUSED: &[&str] = &["head.*", "decoder.*", "classifier.*"];

const FUSED_ATTENTION: &[Entry] = &[tensor("blk.{}.attn_qkv", "model.layers.{}.attn.Wqkv")];

const TRUNK: &[Entry] = &[
    tensor("token_embd", "model.embeddings.tok_embeddings"),
    tensor("token_embd_norm", "model.embeddings.norm"),
    tensor("output_norm", "model.final_norm"),
];

/// The prediction head.
const HEAD: &[Entry] = &[tensor("output_dense", "lm_head.dense"), tensor("output_dense_norm", "lm_head.norm"), tensor("output", "decoder")];

const SPLIT_ATTENTION: &[Entry] = &[
    tensor("blk.{}.attn_q", "model.layers.{}.attn.q_proj"),
    tensor("blk.{}.attn_k", "model.layers.{}.attn.k_proj"),
    tensor("blk.{}.attn_v", "model.layers.{}.attn.v_proj"),
];

const LAYERS: &[Entry] = &[
    tensor("blk.{}.attn_norm", "model.layers.{}.attn_norm"),
    tensor("blk.{}.attn_output", "model.layers.{}.attn.Wo"),
    tensor("blk.{}.ffn_norm", "model.layers.{}.mlp_norm"),
    tensor("blk.{}.ffn_up", "model.layers.{}.mlp.Wi"),
    tensor("blk.{}.ffn_down", "model.layers.{}.mlp.Wo"),
];

/// The rotary bases by the names that older configurations have.
const FULL: RopeKeys = RopeKeys { base: "global_rope_theta", ..RopeKeys::FULL };
const LOCAL: RopeKeys = RopeKeys { base: "local_rope_theta", ..RopeKeys::SLIDING };

fn encoder(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    encoder::says_nothing_of_causes(s)?;
    let c = Decoder::read_layer_norm(s, "norm_eps")?;
    let masks = masks_of(s, c.layers, Mask::Full, Mask::Near(width_of_window(s)? / 2))?;
    let x = layers(s, g, &c, &masks)?;
    Ok(encoder::end(&c, g, x))
}

/// Tokens that a local layer sees, on both sides together.
fn width_of_window(s: &Settings<'_>) -> Result<usize> {
    s.size_or("local_attention", "attention.sliding_window", 128)
}

fn decoder(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read_layer_norm(s, "norm_eps")?;
    // A window that is stated comes before the width of ModernBERT's, of which a decoder sees the half behind.
    let stated = s.window()?;
    let window = match stated {
        Some(window) => window,
        None => (width_of_window(s)? / 2).max(1),
    };
    let masks = masks_of(s, c.layers, Mask::Causal, Mask::Window(window))?;
    let act = s.activation_of("classifier_activation", "gelu")?;
    let x = layers(s, g, &c, &masks)?;
    let x = g.select(x);
    let x = c.norm(g, x, c.output_norm);
    let x = g.hidden(x);
    let x = g.linear(x, "output_dense", c.width);
    let x = g.apply(x, act);
    let x = c.norm(g, x, "output_dense_norm");
    Ok(c.logits(g, x))
}

/// What each layer sees: all where the list says so, or in every third layer, from the first on. GGUF files can say another period only.
fn masks_of(s: &Settings<'_>, layers: usize, full: Mask, local: Mask) -> Result<Vec<Mask>> {
    const PERIOD: &str = "attention.sliding_window_pattern";
    let periodic = |period: usize| -> Vec<Mask> { (0..layers).map(|i| if i % period == 0 { full } else { local }).collect() };
    let listed = s.kinds("layer_types", layers, &[("full_attention", full), ("sliding_attention", local)])?;
    let period = s.size_or("global_attn_every_n_layers", PERIOD, 3)?;
    let masks = listed.unwrap_or_else(|| periodic(period));
    match (1..=layers).find(|period| periodic(*period) == masks) {
        Some(period) => s.note(PERIOD, Meta::Unsigned(period as u64)),
        None => s.hf_only(true, "its layers that see the whole text do not come at a period"),
    }
    Ok(masks)
}

/// Embedding and layers.
fn layers(s: &Settings<'_>, g: &mut Graph<'_>, c: &Decoder, masks: &[Mask]) -> Result<Value> {
    let heads = Heads::read(s, c.width)?;
    let full = s.rotary(heads.head, Rotary { keys: FULL, base: 160_000.0, ..Rotary::HALVES })?;
    let local = s.rotary(heads.head, Rotary { keys: LOCAL, ..Rotary::HALVES })?;
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.activation("gelu")?;
    let x = g.embed("token_embd", c.width, 1.0);
    let x = c.norm(g, x, "token_embd_norm");
    Ok(g.layers(c.layers, x, |g, layer, x| {
        let rope = if masks[layer].window().is_none() { &full } else { &local };
        // The embedding's norm serves the first layer.
        let h = if layer == 0 { x } else { c.norm(g, x, "attn_norm") };
        let y = heads.attention(g, h, masks[layer], |g, q, _| g.rope(q, heads.head, rope));
        let x = g.add(x, y);
        c.residual(g, x, "ffn_norm", |g, x| g.fused_gated_ffn(x, inner, act))
    }))
}
