//! PLaMo (Preferred Networks 2023): attention and feed-forward layer side by side behind one norm; heads that share a key stand a round
//! of all keys apart. Reference: `modeling_plamo.py` of pfnet/plamo-13b.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, Order, tensor},
    settings::Settings,
};
use onebit_plan::{Graph, Mask, RopeStyle, Value};

pub(crate) static PLAMO: Arch = Arch { hf: &["plamo"], gguf: &["plamo"], tensors: &[TENSORS], ignored: &[], plan };

const TENSORS: &[Entry] = &[
    tensor("token_embd", "model.embed_tokens"),
    tensor("output_norm", "model.norm"),
    tensor("output", "lm_head"),
    tensor("blk.{}.attn_norm", "model.layers.layers.{}.norm"),
    tensor("blk.{}.attn_q", "model.layers.layers.{}.self_attn.q_proj").ordered(|s| Ok(Order::Rows(grouped(&heads(s)?)))),
    tensor("blk.{}.attn_k", "model.layers.layers.{}.self_attn.k_proj"),
    tensor("blk.{}.attn_v", "model.layers.layers.{}.self_attn.v_proj"),
    tensor("blk.{}.attn_output", "model.layers.layers.{}.self_attn.o_proj").ordered(|s| Ok(Order::Columns(grouped(&heads(s)?)))),
    tensor("blk.{}.ffn_gate", "model.layers.layers.{}.mlp.gate_proj"),
    tensor("blk.{}.ffn_up", "model.layers.layers.{}.mlp.up_proj"),
    tensor("blk.{}.ffn_down", "model.layers.layers.{}.mlp.down_proj"),
];

/// `num_key_value_heads`, which configurations state too, is not looked at.
fn heads(s: &Settings<'_>) -> Result<Heads> {
    const SHARED: &str = "n_shared_head";
    let (width, heads) = (Decoder::width(s)?, Heads::count(s)?);
    let shared = if s.is_gguf() { 1 } else { s.size_or(SHARED, "", 8)? };
    if !heads.is_multiple_of(shared) {
        return Err(s.wrong(SHARED, "", format!("is {shared}, which does not divide {heads} heads")));
    }
    Heads::with(s, width, heads, heads / shared)
}

/// The dimensions of all heads with those of one key next to each other, as GGUF files have them.
fn grouped(heads: &Heads) -> Vec<usize> {
    let (keys, head) = (heads.kv_heads, heads.head);
    let order = (0..keys).flat_map(|key| (key..heads.heads).step_by(keys));
    order.flat_map(|h| h * head..(h + 1) * head).collect()
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = heads(s)?;
    let rope = s.rope(heads.head, RopeStyle::Halves)?;
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.activation("silu")?;
    let (keys, shared) = (heads.kv_heads, heads.heads / heads.kv_heads);
    let regrouped = |g: &mut Graph<'_>, x, rows, columns| if s.is_gguf() { x } else { g.transpose(x, rows, columns) };
    Ok(c.build(g, |g, _, x| {
        let attention = |g: &mut Graph<'_>, x| {
            let [q, k, v] = heads.project(g, x);
            let q = regrouped(g, q, shared, keys);
            let [q, k] = [q, k].map(|x| g.rope(x, heads.head, &rope));
            let y = heads.attend(g, [q, k, v], Mask::Causal);
            let y = regrouped(g, y, keys, shared);
            g.linear(y, "attn_output", c.width)
        };
        c.parallel(g, x, "attn_norm", attention, |g, x| g.gated_ffn(x, inner, act))
    }))
}
