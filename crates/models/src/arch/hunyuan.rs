//! Hunyuan (Tencent 2025): Llama whose queries and keys are normalised after they were turned; and its mixture of experts
//! (Sun et al. 2024, arXiv:2411.02265), one of which all tokens ask. Reference: transformers' `models/hunyuan_v1_dense`, `hunyuan_v1_moe`.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, tensor},
    rope::Rotary,
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{Graph, Mask, Value};

pub(crate) static HUNYUAN: Arch = Arch {
    hf: &["hunyuan_v1_dense"],
    gguf: &["hunyuan-dense"],
    tensors: &[TRUNK, PRE_NORMS, ATTENTION, HUNYUAN_QK_NORMS, FFN],
    ignored: &[],
    plan: |s, g| plan(s, g, None, Rotary::HALVES),
};

pub(crate) static HUNYUAN_MOE: Arch = Arch {
    hf: &["hunyuan_v1_moe"],
    gguf: &["hunyuan-moe"],
    tensors: &[TRUNK, PRE_NORMS, ATTENTION, HUNYUAN_QK_NORMS, HUNYUAN_ROUTER, EXPERTS],
    ignored: &[],
    plan: |s, g| plan(s, g, Some(Moe::read(s, true, false)?.with_shared(shared_width(s)?)), Rotary::HALVES),
};

const HUNYUAN_QK_NORMS: &[Entry] = &[
    tensor("blk.{}.attn_q_norm", "model.layers.{}.self_attn.query_layernorm"),
    tensor("blk.{}.attn_k_norm", "model.layers.{}.self_attn.key_layernorm"),
];

/// Comes before [`EXPERTS`], whose router has another name.
const HUNYUAN_ROUTER: &[Entry] = &[
    tensor("blk.{}.ffn_gate_inp", "model.layers.{}.mlp.gate.wg"),
    tensor("blk.{}.ffn_gate_shexp", "model.layers.{}.mlp.shared_mlp.gate_proj"),
    tensor("blk.{}.ffn_up_shexp", "model.layers.{}.mlp.shared_mlp.up_proj"),
    tensor("blk.{}.ffn_down_shexp", "model.layers.{}.mlp.shared_mlp.down_proj"),
];

/// Width of all shared experts together.
fn shared_width(s: &Settings<'_>) -> Result<usize> {
    if s.is_gguf() {
        return s.size("", "expert_shared_feed_forward_length");
    }
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let expert = s.optional_size("moe_intermediate_size", "")?.unwrap_or(inner);
    s.note("expert_feed_forward_length", Meta::Unsigned(expert as u64));
    let width = inner * s.optional_size("num_shared_expert", "")?.unwrap_or(1);
    s.note("expert_shared_feed_forward_length", Meta::Unsigned(width as u64));
    Ok(width)
}

pub(super) fn plan(s: &Settings<'_>, g: &mut Graph<'_>, moe: Option<Moe>, rotary: Rotary) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = Heads::read(s, c.width)?;
    let rope = s.rotary(heads.head, rotary)?;
    let feed_forward = FeedForward::read(s, c.layers, moe)?;
    let prepare = |g: &mut Graph<'_>, q, name: &str| {
        let q = g.rope(q, heads.head, &rope);
        g.head_norm(q, &format!("{name}_norm"), heads.head, c.eps)
    };
    Ok(c.build(g, |g, layer, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, Mask::Causal, prepare));
        c.residual(g, x, "ffn_norm", |g, x| feed_forward.build(g, layer, x))
    }))
}
