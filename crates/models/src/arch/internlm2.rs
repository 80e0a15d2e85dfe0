//! InternLM 2 (Cai et al. 2024, arXiv:2403.17297): Llama with queries, keys and values of one matrix, in which each group of heads has a
//! run of rows. Reference: `modeling_internlm2.py` of internlm/internlm2-7b.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{Graph, Mask, RopeStyle, Value};

pub(crate) static INTERNLM2: Arch = Arch { hf: &["internlm2"], gguf: &["internlm2"], tensors: &[TENSORS], ignored: &[], plan };

const TENSORS: &[Entry] = &[
    tensor("token_embd", "model.tok_embeddings"),
    tensor("output_norm", "model.norm"),
    tensor("output", "output"),
    tensor("blk.{}.attn_norm", "model.layers.{}.attention_norm"),
    tensor("blk.{}.attn_qkv", "model.layers.{}.attention.wqkv")
        .ordered(|s| Ok(heads(s)?.ungrouped_pairs(s.rope(heads(s)?.head, RopeStyle::Pairs)?.dims()))),
    tensor("blk.{}.attn_output", "model.layers.{}.attention.wo"),
    tensor("blk.{}.ffn_norm", "model.layers.{}.ffn_norm"),
    tensor("blk.{}.ffn_gate", "model.layers.{}.feed_forward.w1"),
    tensor("blk.{}.ffn_up", "model.layers.{}.feed_forward.w3"),
    tensor("blk.{}.ffn_down", "model.layers.{}.feed_forward.w2"),
];

fn heads(s: &Settings<'_>) -> Result<Heads> {
    let heads = Heads::read(s, Decoder::width(s)?)?;
    Ok(Heads { biased: s.implied("bias", false)?, fused: Fused::runs(if s.is_gguf() { 1 } else { heads.kv_heads }), ..heads })
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = heads(s)?;
    let rope = s.rope(heads.head, RopeStyle::Pairs)?;
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.activation("silu")?;
    Ok(c.build(g, |g, _, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, Mask::Causal, |g, q, _| g.rope(q, heads.head, &rope)));
        c.residual(g, x, "ffn_norm", |g, x| g.gated_ffn(x, inner, act))
    }))
}
