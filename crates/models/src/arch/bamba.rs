//! Bamba (IBM, Princeton, CMU, UIUC 2024): Mamba 2 layers, and some of attention whose heads turn by half. Reference: transformers'
//! `models/bamba`.

use super::{
    Arch,
    blocks::*,
    hybrid::{attention_layers, listed},
    jamba::{HYBRID_FFN, HYBRID_TRUNK},
    mamba2::{GateAndNorm, HYBRID_MAMBA2, Mamba2},
};
use crate::{Result, rope::Rotary, settings::Settings};
use onebit_formats::Meta;
use onebit_plan::{Graph, Mask, RopeStyle, Value};

pub(crate) static BAMBA: Arch = Arch {
    hf: &["bamba"],
    gguf: &["granitehybrid"],
    tensors: &[HYBRID_TRUNK, HYBRID_MAMBA2, INTERLEAVED_ATTENTION, HYBRID_FFN],
    ignored: &[],
    plan,
};

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = Heads::read(s, c.width)?;
    let rope = s.rotary(heads.head, Rotary { part: 0.5, ..Rotary::new(RopeStyle::Pairs) })?;
    let usual = listed(s, "attn_layer_indices");
    let attention = attention_layers(s, c.layers, heads.kv_heads, |layer| usual.as_ref().is_some_and(|listed| listed(layer)))?;
    note_granite(s, &heads);
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.activation("silu")?;
    let mixer = Mamba2::read(s, c.width, act, GateAndNorm::GateFirst(c.eps))?;
    Ok(c.build(g, |g, layer, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| match attention[layer] {
            true => heads.attention(g, x, Mask::Causal, |g, q, _| g.rope(q, heads.head, &rope)),
            false => mixer.build(g, x),
        });
        c.residual(g, x, "ffn_norm", |g, x| g.gated_ffn(x, inner, act))
    }))
}

/// GGUF files hold it as a Granite whose factors change nothing, and whose heads turn.
fn note_granite(s: &Settings<'_>, heads: &Heads) {
    for (key, factor) in [("embedding_scale", 1.0), ("residual_scale", 1.0), ("logit_scale", 1.0), ("attention.scale", heads.scale)] {
        s.note(key, Meta::Float(f64::from(factor)));
    }
    s.note("rope.scaling.finetuned", Meta::Bool(true));
}
