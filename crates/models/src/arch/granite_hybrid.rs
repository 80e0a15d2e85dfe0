//! Granite 4 (Granite Team 2025, IBM): Granite whose layers are mostly Mamba 2, with an expert that all tokens ask beside the mixture,
//! or alone. Reference: transformers' `models/granitemoehybrid`.

use super::{
    Arch,
    blocks::*,
    granite::{GRANITE_EXPERTS, SHARED_MLP, Scales},
    hybrid::attention_layers,
    mamba2::{GateAndNorm, HYBRID_MAMBA2, Mamba2},
};
use crate::{
    Result,
    names::{Entry, part, tensor},
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{Graph, Mask, RopeStyle, Value};

pub(crate) static GRANITE_HYBRID: Arch = Arch {
    hf: &["granitemoehybrid"],
    gguf: &["granitehybrid"],
    tensors: &[TRUNK, PRE_NORMS, HYBRID_MAMBA2, INTERLEAVED_ATTENTION, GRANITE_EXPERTS, SHARED_MLP, ONLY_MLP],
    ignored: &[],
    plan,
};

/// The expert that all tokens ask where it is the whole feed-forward layer.
const ONLY_MLP: &[Entry] = &[
    part("blk.{}.ffn_gate", "model.layers.{}.shared_mlp.input_linear.weight", 0, 2),
    part("blk.{}.ffn_up", "model.layers.{}.shared_mlp.input_linear.weight", 1, 2),
    tensor("blk.{}.ffn_down", "model.layers.{}.shared_mlp.output_linear"),
];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let scales = Scales::read(s)?;
    let c = scales.decoder(Decoder::read(s)?);
    let heads = scales.heads(Heads::read(s, c.width)?);
    let attention = attention_layers(s, c.layers, heads.kv_heads, |_| false)?;
    let turned = match s.is_gguf() {
        true => s.bool_or("", "rope.scaling.finetuned", false)?,
        false => s.text_or("position_embedding_type", "", "nope")? == "rope",
    };
    s.note("rope.scaling.finetuned", Meta::Bool(turned));
    let rope = s.rope(heads.head, RopeStyle::Pairs)?;
    let act = s.activation("silu")?;
    // GGUF files without mixtures do not count experts.
    let mixes = s.is_gguf() && s.gguf_value("ssm.conv_kernel").is_some();
    let moe = match s.count_or("num_local_experts", "expert_count", if mixes { 0 } else { 8 })? {
        0 => None,
        _ => Some(Moe::read(s, true, false)?),
    };
    // GGUF files have the expert's width elsewhere where there is no mixture.
    let shared_key = if moe.is_some() { "expert_shared_feed_forward_length" } else { "feed_forward_length" };
    let shared = s.size_or("shared_intermediate_size", shared_key, 1024)?;
    let mixer = if attention.contains(&false) { Some(Mamba2::read(s, c.width, act, GateAndNorm::GateFirst(c.eps))?) } else { None };
    Ok(c.build(g, |g, layer, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| match &mixer {
            Some(mixer) if !attention[layer] => mixer.build(g, x),
            _ => heads.attention(g, x, Mask::Causal, |g, q, _| if turned { g.rope(q, heads.head, &rope) } else { q }),
        });
        c.residual(g, x, "ffn_norm", |g, x| match &moe {
            Some(moe) => {
                let y = moe.build(g, x);
                let z = g.gated_ffn_named(x, ["ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"], shared, act);
                g.add(y, z)
            }
            None => g.gated_ffn(x, shared, act),
        })
    }))
}
