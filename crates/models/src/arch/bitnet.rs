//! BitNet b1.58 (Ma et al. 2024, arXiv:2402.17764; 2B-4T: arXiv:2504.12285): Llama with ternary weights, inputs of linear layers rounded
//! to 8 bits token by token, norms before the output projections of attention and feed-forward layer, and squared ReLU.
//!
//! Inputs are rounded where weights are ternary: with what transformers calls `quant_method` `bitnet`, and in GGUF files with I2_S,
//! TQ1_0 and TQ2_0. Other weights are taken for a model that is not quantized.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{Graph, Mask, RopeStyle, Value};
use onebit_quants::{TQ1_0, TQ2_0, WeightType};

/// Of Microsoft; `bitnet-25` is what ik_llama.cpp calls it.
pub(crate) static BITNET_B158: Arch = Arch {
    hf: &["bitnet"],
    gguf: &["bitnet-b1.58", "bitnet-25"],
    tensors: &[TRUNK, PRE_NORMS, ATTENTION, FFN, SUB_NORMS],
    ignored: &[],
    plan: |s, g| plan(s, g, "relu2"),
};

/// Of 1bitLLM, with SiLU.
pub(crate) static BITNET: Arch = Arch {
    hf: &[],
    gguf: &["bitnet"],
    tensors: &[TRUNK, PRE_NORMS, ATTENTION, FFN, SUB_NORMS],
    ignored: &[],
    plan: |s, g| plan(s, g, "silu"),
};

const SUB_NORMS: &[Entry] = &[
    tensor("blk.{}.attn_sub_norm", "model.layers.{}.self_attn.attn_sub_norm"),
    tensor("blk.{}.ffn_sub_norm", "model.layers.{}.mlp.ffn_sub_norm"),
];

/// Whether a weight of a GGUF file, of a type that other models are quantized to as well, stands for a layer that rounds its input.
pub(crate) fn rounds_input(arch: &Arch, name: &str, ty: WeightType) -> bool {
    let bitnet = [&BITNET_B158, &BITNET].iter().any(|b| std::ptr::eq(*b, arch));
    bitnet && name.starts_with("blk.") && [TQ1_0, TQ2_0].contains(&ty)
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>, act: &str) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = Heads { sub_norm: Some(c.eps), ..Heads::read(s, c.width)? };
    let rope = s.rope(heads.head, RopeStyle::Halves)?;
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.activation(act)?;
    Ok(c.build(g, |g, _, x| {
        let turn = |g: &mut Graph<'_>, q, _: &str| g.rope(q, heads.head, &rope);
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, Mask::Causal, turn));
        c.residual(g, x, "ffn_norm", |g, x| {
            let (gate, up) = (g.linear(x, "ffn_gate", inner), g.linear(x, "ffn_up", inner));
            let y = g.glu(gate, up, act);
            let y = g.rms_norm(y, "ffn_sub_norm", c.eps);
            g.linear(y, "ffn_down", c.width)
        })
    }))
}
