//! OLMo Hybrid (Ai2 2026): OLMo 2, with its norms behind and queries and keys normalised over all heads, whose layers are mostly
//! Gated DeltaNet with norms in front and write strengths up to two. Reference: transformers' `models/olmo_hybrid`.

use super::{
    Arch,
    blocks::*,
    qwen3_5::{Delta, Projected, linear_layers},
};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{Graph, Mask, RopeStyle, Value};

pub(crate) static OLMO_HYBRID: Arch =
    Arch { hf: &["olmo_hybrid"], gguf: &[], tensors: &[TRUNK, NORMS, ATTENTION, QK_NORMS, DELTA, FFN], ignored: &[], plan };

/// The norms of DeltaNet layers, then those of attention layers, of which transformers saves the first under the name of another.
const NORMS: &[Entry] = &[
    tensor("blk.{}.attn_norm", "model.layers.{}.attention_layer_norm").or("model.layers.{}.input_layernorm"),
    tensor("blk.{}.ffn_norm", "model.layers.{}.feedforward_layer_norm").or("model.layers.{}.post_attention_layernorm"),
    tensor("blk.{}.post_attention_norm", "model.layers.{}.post_attention_layernorm").or("model.layers.{}.feedforward_layer_norm"),
    tensor("blk.{}.post_ffw_norm", "model.layers.{}.post_feedforward_layernorm"),
];

/// The convolution's channels lie in three tensors, which need not end where queries and keys do.
const DELTA: &[Entry] = &[
    tensor("blk.{}.ssm_q", "model.layers.{}.linear_attn.q_proj"),
    tensor("blk.{}.ssm_k", "model.layers.{}.linear_attn.k_proj"),
    tensor("blk.{}.ssm_v", "model.layers.{}.linear_attn.v_proj"),
    tensor("blk.{}.attn_gate", "model.layers.{}.linear_attn.g_proj"),
    tensor("blk.{}.ssm_beta", "model.layers.{}.linear_attn.b_proj"),
    tensor("blk.{}.ssm_alpha", "model.layers.{}.linear_attn.a_proj"),
    tensor("blk.{}.ssm_a", "model.layers.{}.linear_attn.A_log").neg_exp(),
    tensor("blk.{}.ssm_dt.bias", "model.layers.{}.linear_attn.dt_bias"),
    tensor("blk.{}.ssm_conv1d", "model.layers.{}.linear_attn.q_conv1d")
        .then(&["model.layers.{}.linear_attn.k_conv1d", "model.layers.{}.linear_attn.v_conv1d"]),
    tensor("blk.{}.ssm_norm", "model.layers.{}.linear_attn.o_norm"),
    tensor("blk.{}.ssm_out", "model.layers.{}.linear_attn.o_proj"),
];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = Heads::read(s, c.width)?;
    // Without a base nothing turns.
    let turns = s.json("rope_parameters.rope_theta|rope_theta").is_some();
    let rope = if turns { Some(s.rope(heads.head, RopeStyle::Halves)?) } else { None };
    let strength = if s.bool_or("linear_allow_neg_eigval", "", true)? { 2.0 } else { 1.0 };
    let delta = Delta { strength, eps: Some(1e-5), ..Delta::read(s)? };
    let linear = linear_layers(s, c.layers, &["full_attention"])?;
    let inner = s.size("intermediate_size", "")?;
    let act = s.activation("silu")?;
    Ok(c.build(g, |g, layer, x| {
        if linear[layer] {
            let x = c.residual(g, x, "attn_norm", |g, x| {
                let projected = project(&delta, g, x);
                delta.build(g, &projected, c)
            });
            return c.residual(g, x, "ffn_norm", |g, x| g.gated_ffn(x, inner, act));
        }
        let y = heads.attention(g, x, Mask::Causal, |g, q, name| {
            let q = g.rms_norm(q, &format!("{name}_norm"), c.eps);
            if let Some(rope) = &rope { g.rope(q, heads.head, rope) } else { q }
        });
        let y = g.rms_norm(y, "post_attention_norm", c.eps);
        let x = g.add(x, y);
        let y = g.gated_ffn(x, inner, act);
        let y = g.rms_norm(y, "post_ffw_norm", c.eps);
        g.add(x, y)
    }))
}

fn project(d: &Delta, g: &mut Graph<'_>, x: Value) -> Projected {
    let (keys, values) = (d.k_heads * d.key, d.v_heads * d.value);
    let [q, k, v] = [("ssm_q", keys), ("ssm_k", keys), ("ssm_v", values)].map(|(name, width)| g.linear(x, name, width));
    let qk = g.concat(q, k, 1);
    Projected {
        qkv: g.concat(qk, v, 1),
        gate: g.linear(x, "attn_gate", values),
        beta: g.linear(x, "ssm_beta", d.v_heads),
        alpha: g.linear(x, "ssm_alpha", d.v_heads),
    }
}
