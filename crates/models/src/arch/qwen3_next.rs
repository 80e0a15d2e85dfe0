//! Qwen3-Next (Qwen Team 2025): Qwen3.5 before its time. Its DeltaNet layers project queries, keys, values and gate by one matrix, and
//! write strength and decay by another, each grouped by key heads. Reference: transformers' `models/qwen3_next`.

use super::{
    Arch,
    blocks::*,
    qwen3_5::{Delta, GATED_NORMS, Projected, QUARTER, gated_layers},
};
use crate::names::{Entry, tensor};
use onebit_plan::{Graph, Value};

pub(crate) static QWEN3_NEXT: Arch = Arch {
    hf: &["qwen3_next"],
    gguf: &["qwen3next"],
    tensors: &[GATED_NORMS, DELTA, ATTENTION, EXPERTS, SHARED_EXPERT, FFN],
    ignored: &["mtp.*"],
    plan: |s, g| {
        let delta = Delta { tiled: false, ..Delta::read(s)? };
        gated_layers(s, g, QUARTER, Some(Moe::read(s, true, true)?), delta, project)
    },
};

/// GGUF files hold queries, keys and values without the gate, or as here.
const DELTA: &[Entry] = &[
    tensor("blk.{}.ssm_in", "model.layers.{}.linear_attn.in_proj_qkvz"),
    tensor("blk.{}.attn_qkv", ""),
    tensor("blk.{}.attn_gate", ""),
    tensor("blk.{}.ssm_ba", "model.layers.{}.linear_attn.in_proj_ba"),
    tensor("blk.{}.ssm_a", "model.layers.{}.linear_attn.A_log").neg_exp(),
    tensor("blk.{}.ssm_dt.bias", "model.layers.{}.linear_attn.dt_bias"),
    tensor("blk.{}.ssm_conv1d", "model.layers.{}.linear_attn.conv1d"),
    tensor("blk.{}.ssm_norm", "model.layers.{}.linear_attn.norm"),
    tensor("blk.{}.ssm_out", "model.layers.{}.linear_attn.out_proj"),
];

/// For each key head its query, its key, and the values and gates of the value heads that use it.
fn project(d: &Delta, g: &mut Graph<'_>, x: Value) -> Projected {
    let values = d.v_heads / d.k_heads * d.value;
    let channels = d.k_heads * (2 * d.key + values);
    let (qkv, gate) = if g.has("attn_qkv.weight", &[channels, g.width(x)]) {
        (g.linear(x, "attn_qkv", channels), g.linear(x, "attn_gate", d.k_heads * values))
    } else {
        let all = g.linear(x, "ssm_in", d.k_heads * 2 * (d.key + values));
        let mut start = 0;
        let [q, k, v, gate] = [d.key, d.key, values, values].map(|len| {
            start += len;
            g.slice(all, d.k_heads, start - len, len)
        });
        let qk = g.concat(q, k, 1);
        (g.concat(qk, v, 1), gate)
    };
    let each = d.v_heads / d.k_heads;
    let both = g.linear(x, "ssm_ba", 2 * d.v_heads);
    let (beta, alpha) = (g.slice(both, d.k_heads, 0, each), g.slice(both, d.k_heads, each, each));
    Projected { qkv, gate, beta, alpha }
}
