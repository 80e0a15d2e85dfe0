//! Qwen (Bai et al. 2023, arXiv:2309.16609): Llama with queries, keys and values of one matrix, which have biases. Reference:
//! `modeling_qwen.py` of Qwen/Qwen-7B. What it does beyond the context that it was trained with is not done.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{Graph, Mask, RopeStyle, Value};

pub(crate) static QWEN: Arch = Arch { hf: &["qwen"], gguf: &["qwen"], tensors: &[TENSORS], ignored: &["*.attn.masked_bias"], plan };

const TENSORS: &[Entry] = &[
    tensor("token_embd", "model.wte"),
    tensor("output_norm", "model.ln_f"),
    tensor("output", "lm_head"),
    tensor("blk.{}.attn_norm", "model.h.{}.ln_1"),
    tensor("blk.{}.attn_qkv", "model.h.{}.attn.c_attn"),
    tensor("blk.{}.attn_output", "model.h.{}.attn.c_proj"),
    tensor("blk.{}.ffn_norm", "model.h.{}.ln_2"),
    tensor("blk.{}.ffn_gate", "model.h.{}.mlp.w2"),
    tensor("blk.{}.ffn_up", "model.h.{}.mlp.w1"),
    tensor("blk.{}.ffn_down", "model.h.{}.mlp.c_proj"),
];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = Heads { biased: true, ..Heads::read(s, c.width)? };
    let rope = s.rope(heads.head, RopeStyle::Halves)?;
    // The width of gate and up together.
    let inner = s.size("intermediate_size", "feed_forward_length")? / 2;
    let act = s.activation("silu")?;
    Ok(c.build(g, |g, _, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, Mask::Causal, |g, q, _| g.rope(q, heads.head, &rope)));
        c.residual(g, x, "ffn_norm", |g, x| g.gated_ffn(x, inner, act))
    }))
}
