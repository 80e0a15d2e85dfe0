//! GPT-2 (Radford et al. 2019): learned positions, LayerNorm before attention and a feed-forward layer without a gate, and biases
//! everywhere; and StarCoder (Li et al. 2023, arXiv:2305.06161), whose heads share one key and value (Shazeer 2019,
//! arXiv:1911.02150). Cerebras-GPT, SantaCoder and others have the same form. Reference code: transformers' `modeling_gpt2.py`
//! and `modeling_gpt_bigcode.py`.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{Graph, Mask, Value};

pub(crate) static GPT2: Arch = Arch {
    hf: &["gpt2"],
    gguf: &["gpt2"],
    tensors: &[GPT_TRUNK, GPT_NORMS, GPT2_MATRICES],
    ignored: CAUSAL_MASKS,
    plan: |s, g| plan(s, g, Heads::read(s, Decoder::width(s)?)?, "gelu_new"),
};

pub(crate) static GPT_BIGCODE: Arch = Arch {
    hf: &["gpt_bigcode"],
    gguf: &["starcoder"],
    tensors: &[GPT_TRUNK, GPT_NORMS, BIGCODE_MATRICES],
    ignored: CAUSAL_MASKS,
    plan: |s, g| plan(s, g, bigcode_heads(s)?, "gelu_pytorch_tanh"),
};

/// Names of a trunk with learned positions.
pub(super) const GPT_TRUNK: &[Entry] = &[
    tensor("token_embd", "model.wte"),
    tensor("position_embd", "model.wpe"),
    tensor("output_norm", "model.ln_f"),
    tensor("output", "lm_head"),
];

/// Names of the norms before attention and feed-forward layer.
pub(super) const GPT_NORMS: &[Entry] = &[tensor("blk.{}.attn_norm", "model.h.{}.ln_1"), tensor("blk.{}.ffn_norm", "model.h.{}.ln_2")];

/// Masks that older checkpoints hold as tensors.
pub(super) const CAUSAL_MASKS: &[&str] = &["*.attn.bias", "*.attn.masked_bias"];

/// The original's matrices have inputs as rows.
const GPT2_MATRICES: &[Entry] = &[
    tensor("blk.{}.attn_qkv", "model.h.{}.attn.c_attn").transposed(),
    tensor("blk.{}.attn_output", "model.h.{}.attn.c_proj").transposed(),
    tensor("blk.{}.ffn_up", "model.h.{}.mlp.c_fc").transposed(),
    tensor("blk.{}.ffn_down", "model.h.{}.mlp.c_proj").transposed(),
];

const BIGCODE_MATRICES: &[Entry] = &[
    tensor("blk.{}.attn_qkv", "model.h.{}.attn.c_attn").ordered(|s| Ok(bigcode_heads(s)?.ungrouped())),
    tensor("blk.{}.attn_output", "model.h.{}.attn.c_proj"),
    tensor("blk.{}.ffn_up", "model.h.{}.mlp.c_fc"),
    tensor("blk.{}.ffn_down", "model.h.{}.mlp.c_proj"),
];

/// One key and value for all heads; or one for each, which then lies behind the head's query. `num_key_value_heads`, which some
/// configurations state too, is not looked at by transformers.
fn bigcode_heads(s: &Settings<'_>) -> Result<Heads> {
    let (width, heads) = (Decoder::width(s)?, Heads::count(s)?);
    let shared = s.bool_or("multi_query", "", true)?;
    let fused = if shared || s.is_gguf() { Fused::PLAIN } else { Fused::runs(heads) };
    Ok(Heads { fused, ..Heads::with(s, width, heads, if shared { 1 } else { heads })? })
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>, heads: Heads, act: &str) -> Result<Value> {
    let c = Decoder::read_layer_norm(s, "layer_norm_epsilon")?;
    let inner = feed_forward_width(s, c.width)?;
    let act = s.activation(act)?;
    let (scaled, by_layer) = (s.implied("scale_attn_weights", true)?, s.implied("scale_attn_by_inverse_layer_idx", false)?);
    s.hf_only(!scaled || by_layer, "its attention scores are scaled in another way");
    let scale = if scaled { heads.scale } else { 1.0 };
    let x = g.embed("token_embd", c.width, 1.0);
    let positions = g.embed_position("position_embd", c.width, 0);
    let x = g.add(x, positions);
    Ok(c.build_on(g, x, |g, layer, x| {
        let heads = Heads { scale: if by_layer { scale / (layer + 1) as f32 } else { scale }, ..heads };
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, Mask::Causal, |_, q, _| q));
        c.residual(g, x, "ffn_norm", |g, x| g.ffn(x, inner, act))
    }))
}
