//! CodeShell (Xie et al. 2024, arXiv:2403.15747): GPT-2 whose heads turn, and share keys and values. Reference: `modeling_codeshell.py`
//! of WisdomShell/CodeShell-7B.

use super::{
    Arch,
    blocks::*,
    gpt2::{CAUSAL_MASKS, GPT_NORMS, GPT_TRUNK},
};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{Graph, Mask, RopeStyle, Value};

pub(crate) static CODESHELL: Arch =
    Arch { hf: &["codeshell"], gguf: &["codeshell"], tensors: &[GPT_TRUNK, GPT_NORMS, MATRICES], ignored: CAUSAL_MASKS, plan };

const MATRICES: &[Entry] = &[
    tensor("blk.{}.attn_qkv", "model.h.{}.attn.c_attn"),
    tensor("blk.{}.attn_output", "model.h.{}.attn.c_proj"),
    tensor("blk.{}.ffn_up", "model.h.{}.mlp.c_fc"),
    tensor("blk.{}.ffn_down", "model.h.{}.mlp.c_proj"),
];

fn heads(s: &Settings<'_>, width: usize) -> Result<Heads> {
    let heads = Heads::count(s)?;
    let grouped = s.implied("group_query_attention", true)?;
    let keys = if grouped { s.optional_size("num_query_groups", "")?.unwrap_or(heads) } else { heads };
    Heads::with(s, width, heads, keys)
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let positions = s.text_or("position_embedding_type", "", "rope")?;
    if positions != "rope" {
        return Err(s.wrong("position_embedding_type", "", format!("is `{positions}`; only `rope` is known")));
    }
    let c = Decoder::read_layer_norm(s, "layer_norm_epsilon")?;
    let heads = heads(s, c.width)?;
    let rope = s.rope(heads.head, RopeStyle::Halves)?;
    let inner = feed_forward_width(s, c.width)?;
    let act = s.activation("gelu_pytorch_tanh")?;
    s.note_own_output();
    Ok(c.build(g, |g, _, x| {
        let turn = |g: &mut Graph<'_>, q, _: &str| g.rope(q, heads.head, &rope);
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, Mask::Causal, turn));
        c.residual(g, x, "ffn_norm", |g, x| g.ffn(x, inner, act))
    }))
}
