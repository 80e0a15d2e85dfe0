//! Kimi Linear (Kimi Team 2025, arXiv:2510.26692): layers of Kimi Delta Attention, some of latent attention without positions, and the
//! mixture of DeepSeek-V3. Reference: transformers' `models/kimi_linear`.

use super::{
    Arch,
    blocks::*,
    hybrid::{attention_layers, listed},
    kda::{KIMI_KDA, Kda},
    latent::{LATENT, Latent},
    llama::MIXTRAL_EXPERTS,
    mixture::{Implied, Mixture},
};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{Graph, RopeStyle, Value};

pub(crate) static KIMI_LINEAR: Arch = Arch {
    hf: &["kimi_linear"],
    gguf: &["kimi-linear"],
    tensors: &[TRUNK, PRE_NORMS, KIMI_KDA, LATENT, MIXTRAL_EXPERTS, KIMI_MIXTURE],
    ignored: &[],
    plan,
};

/// The mixture has the name of Mixtral's, and dense layers may have it too.
const KIMI_MIXTURE: &[Entry] = &[
    tensor("blk.{}.ffn_gate", "model.layers.{}.mlp.gate_proj").or("model.layers.{}.block_sparse_moe.gate_proj"),
    tensor("blk.{}.ffn_up", "model.layers.{}.mlp.up_proj").or("model.layers.{}.block_sparse_moe.up_proj"),
    tensor("blk.{}.ffn_down", "model.layers.{}.mlp.down_proj").or("model.layers.{}.block_sparse_moe.down_proj"),
    tensor("blk.{}.exp_probs_b.bias", "model.layers.{}.block_sparse_moe.gate.e_score_correction_bias"),
    tensor("blk.{}.ffn_gate_shexp", "model.layers.{}.block_sparse_moe.shared_experts.gate_proj"),
    tensor("blk.{}.ffn_up_shexp", "model.layers.{}.block_sparse_moe.shared_experts.up_proj"),
    tensor("blk.{}.ffn_down_shexp", "model.layers.{}.block_sparse_moe.shared_experts.down_proj"),
];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let latent = Latent::read(s, RopeStyle::Pairs, c.eps)?.unturned();
    let kda = Kda::read(s, ["linear_attn_config.num_heads|linear_num_heads", "linear_attn_config.head_dim|linear_head_dim", KERNEL])?;
    // The list counts from one.
    let full = listed(s, "linear_attn_config.full_attn_layers");
    let usual = |layer: usize| full.as_ref().map_or(layer > 0 && layer.is_multiple_of(4), |full| full(layer + 1));
    let attention = attention_layers(s, c.layers, 1, usual)?;
    let mixture = Mixture::read(s, c.layers, &Implied { scale: 2.446, ..Implied::SIGMOID })?;
    Ok(c.build(g, |g, layer, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| if attention[layer] { latent.build(g, x, "") } else { kda.build(g, x, c.eps) });
        c.residual(g, x, "ffn_norm", |g, x| mixture.build(g, layer, x))
    }))
}

const KERNEL: &str = "linear_attn_config.short_conv_kernel_size|linear_conv_kernel_dim";
