//! MiniMax-01 (MiniMax 2025, arXiv:2501.08313): layers of lightning attention, some of softmax attention, and a mixture of experts in
//! each; what a layer adds to is what it was given after the norm. Reference: transformers' `models/minimax`.

use super::{Arch, blocks::*, hybrid::attention_layers, llama::MIXTRAL_EXPERTS};
use crate::{
    Result,
    names::{Entry, tensor},
    rope::Rotary,
    settings::Settings,
};
use onebit_plan::{Function, Graph, Mask, RopeStyle, Value};

pub(crate) static MINIMAX: Arch =
    Arch { hf: &["minimax"], gguf: &[], tensors: &[TRUNK, PRE_NORMS, ATTENTION, LIGHTNING, MIXTRAL_EXPERTS], ignored: &[], plan };

const LIGHTNING: &[Entry] = &[
    tensor("blk.{}.attn_qkv_heads", "model.layers.{}.self_attn.qkv_proj"),
    tensor("blk.{}.attn_gate", "model.layers.{}.self_attn.output_gate"),
    tensor("blk.{}.attn_sub_norm", "model.layers.{}.self_attn.norm"),
    tensor("blk.{}.attn_out", "model.layers.{}.self_attn.out_proj"),
    tensor("blk.{}.decay_rate", "model.layers.{}.self_attn.slope_rate"),
    tensor("blk.{}.decay_queries", "model.layers.{}.self_attn.query_decay"),
    tensor("blk.{}.decay_keys", "model.layers.{}.self_attn.key_decay"),
    tensor("blk.{}.decay_inner", "model.layers.{}.self_attn.diagonal_decay"),
];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = Heads::read(s, c.width)?;
    let rope = s.rotary(heads.head, Rotary { base: 1e6, ..Rotary::new(RopeStyle::Halves) })?;
    let mask = s.window()?.map_or(Mask::Causal, Mask::Window);
    let attention = attention_layers(s, c.layers, heads.kv_heads, |layer| layer % 2 == 0)?;
    let block = s.size_or("block_size", "", 256)?;
    let act = s.activation("silu")?;
    let moe = Moe::read(s, true, false)?;
    let factors = |name: &str| -> Result<[f32; 2]> {
        let factor = |which: &str| s.float_or(&format!("{name}_{which}_factor"), "", 1.0);
        Ok([factor("alpha")? as f32, factor("beta")? as f32])
    };
    let (full, linear, mlp) = (factors("full_attn")?, factors("linear_attn")?, factors("mlp")?);
    let sum = |g: &mut Graph<'_>, x, y, [alpha, beta]: [f32; 2]| {
        let (x, y) = (g.scale(x, alpha), g.scale(y, beta));
        g.add(x, y)
    };
    Ok(c.build(g, |g, layer, x| {
        let x = g.rms_norm(x, "attn_norm", c.eps);
        let x = match attention[layer] {
            true => {
                let y = heads.attention(g, x, mask, |g, q, _| g.rope(q, heads.head, &rope));
                sum(g, x, y, full)
            }
            false => {
                let y = lightning(g, x, &heads, block, act);
                sum(g, x, y, linear)
            }
        };
        let x = g.rms_norm(x, "ffn_norm", c.eps);
        let y = moe.build(g, x);
        sum(g, x, y, mlp)
    }))
}

/// Lightning attention; each head of the projection gives its query, its key, then its value.
fn lightning(g: &mut Graph<'_>, x: Value, h: &Heads, block: usize, act: Function) -> Value {
    let inner = h.heads * h.head;
    let all = g.linear(x, "attn_qkv_heads", 3 * inner);
    let all = g.apply(all, act);
    let qkv = [0, 1, 2].map(|i| g.slice(all, h.heads, i * h.head, h.head));
    let y = g.lightning(qkv, ["decay_rate", "decay_queries", "decay_keys", "decay_inner"], h.heads, block);
    // The norm has the epsilon of its class.
    let y = g.rms_norm(y, "attn_sub_norm", 1e-6);
    let gate = g.linear(x, "attn_gate", inner);
    let y = g.glu(gate, y, Function::Sigmoid);
    g.linear(y, "attn_out", g.width(x))
}
