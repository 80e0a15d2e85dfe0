//! Qwen3.5: layers of Gated DeltaNet (Yang et al. 2024, arXiv:2412.06464), and every few layers one of attention whose output
//! is gated (Qiu et al. 2025, arXiv:2505.06708). Reference: transformers' `models/qwen3_5`.
//!
//! Of checkpoints that also see, the text model runs; the layers that predict further tokens (MTP) are left aside.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, Order, tensor},
    rope::{Axes, Rotary},
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{AttentionSpec, Binary, Function, Graph, Value};

pub(crate) static QWEN3_5: Arch = Arch {
    hf: &["qwen3_5_text", "qwen3_5"],
    gguf: &["qwen35"],
    tensors: &[GATED_NORMS, DELTA, ATTENTION, FFN],
    ignored: IGNORED,
    plan: |s, g| plan(s, g, None),
};

pub(crate) static QWEN3_5_MOE: Arch = Arch {
    hf: &["qwen3_5_moe_text", "qwen3_5_moe"],
    gguf: &["qwen35moe"],
    tensors: &[GATED_NORMS, DELTA, ATTENTION, EXPERTS, SHARED_EXPERT],
    ignored: IGNORED,
    plan: |s, g| plan(s, g, Some(Moe::read(s, true, true)?)),
};

const IGNORED: &[&str] = &["mtp.*"];

/// Names outside of DeltaNet, attention and feed-forward layers. GGUF files hold norms with the one added.
pub(crate) const GATED_NORMS: &[Entry] = &[
    tensor("token_embd", "model.embed_tokens"),
    tensor("output_norm", "model.norm").add_one(),
    tensor("output", "lm_head"),
    tensor("blk.{}.attn_norm", "model.layers.{}.input_layernorm").add_one(),
    tensor("blk.{}.post_attention_norm", "model.layers.{}.post_attention_layernorm").add_one(),
    tensor("blk.{}.attn_q_norm", "model.layers.{}.self_attn.q_norm").add_one(),
    tensor("blk.{}.attn_k_norm", "model.layers.{}.self_attn.k_norm").add_one(),
];

/// GGUF files hold decay rates as `-exp(A_log)`, and the value heads in the order of [`Delta::tiled`].
pub(crate) const DELTA: &[Entry] = &[
    tensor("blk.{}.attn_qkv", "model.layers.{}.linear_attn.in_proj_qkv").ordered(|s| Delta::read(s)?.after_keys()),
    tensor("blk.{}.attn_gate", "model.layers.{}.linear_attn.in_proj_z").ordered(|s| Delta::read(s)?.values(Order::Rows)),
    tensor("blk.{}.ssm_beta", "model.layers.{}.linear_attn.in_proj_b").ordered(|s| Delta::read(s)?.heads()),
    tensor("blk.{}.ssm_alpha", "model.layers.{}.linear_attn.in_proj_a").ordered(|s| Delta::read(s)?.heads()),
    tensor("blk.{}.ssm_a", "model.layers.{}.linear_attn.A_log").neg_exp().ordered(|s| Delta::read(s)?.heads()),
    tensor("blk.{}.ssm_dt.bias", "model.layers.{}.linear_attn.dt_bias").ordered(|s| Delta::read(s)?.heads()),
    tensor("blk.{}.ssm_conv1d", "model.layers.{}.linear_attn.conv1d").ordered(|s| Delta::read(s)?.after_keys()),
    tensor("blk.{}.ssm_norm", "model.layers.{}.linear_attn.norm"),
    tensor("blk.{}.ssm_out", "model.layers.{}.linear_attn.out_proj").ordered(|s| Delta::read(s)?.values(Order::Columns)),
];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>, moe: Option<Moe>) -> Result<Value> {
    gated_layers(s, g, Rotary { axes: Axes::Turns(&[11, 11, 10]), ..QUARTER }, moe, Delta::read(s)?, Delta::project)
}

/// Layers of Gated DeltaNet, whose projections `project` makes, and of gated attention.
pub(crate) fn gated_layers(
    s: &Settings<'_>,
    g: &mut Graph<'_>,
    rotary: Rotary,
    moe: Option<Moe>,
    delta: Delta,
    project: fn(&Delta, &mut Graph<'_>, Value) -> Projected,
) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = Heads::read(s, c.width)?;
    let rope = s.rotary(heads.head, rotary)?;
    let linear = linear_layers(s, c.layers, &["full_attention"])?;
    let feed_forward = FeedForward::read(s, c.layers, moe)?;
    Ok(c.build(g, |g, layer, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| match linear[layer] {
            true => {
                let projected = project(&delta, g, x);
                delta.build(g, &projected, c)
            }
            false => gated_attention(
                g,
                x,
                &heads,
                |g, q, name| {
                    let q = g.head_norm(q, name, heads.head, c.eps);
                    g.rope(q, heads.head, &rope)
                },
                Graph::attention,
            ),
        });
        c.residual(g, x, "post_attention_norm", |g, x| feed_forward.build(g, layer, x))
    }))
}

/// A quarter of each head turns.
pub(crate) const QUARTER: Rotary = Rotary { part: 0.25, ..Rotary::HALVES };

/// Attention whose output is multiplied by the sigmoid of a gate; each head of `attn_q` gives its query, then its gate. `attend` mixes
/// prepared queries and keys with values.
pub(crate) fn gated_attention<'a>(
    g: &mut Graph<'a>,
    x: Value,
    h: &Heads,
    prepare: impl Fn(&mut Graph<'a>, Value, &str) -> Value,
    attend: impl FnOnce(&mut Graph<'a>, Value, Value, Value, &AttentionSpec) -> Value,
) -> Value {
    let both = g.linear(x, "attn_q", h.heads * h.head * 2);
    let q = g.slice(both, h.heads, 0, h.head);
    let gate = g.slice(both, h.heads, h.head, h.head);
    let k = g.linear(x, "attn_k", h.kv_heads * h.head);
    let v = g.linear(x, "attn_v", h.kv_heads * h.head);
    let (q, k) = (prepare(g, q, "attn_q_norm"), prepare(g, k, "attn_k_norm"));
    let y = attend(g, q, k, v, &AttentionSpec::causal(h.heads, h.kv_heads, h.head));
    let y = g.glu(gate, y, Function::Sigmoid);
    g.linear(y, "attn_output", g.width(x))
}

/// The shape of the DeltaNet layers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delta {
    pub(crate) k_heads: usize,
    pub(crate) v_heads: usize,
    pub(crate) key: usize,
    pub(crate) value: usize,
    pub(crate) kernel: usize,
    /// Whether value head `h` uses key head `h % k_heads`, as GGUF files store them, or `h / (v_heads / k_heads)`.
    pub(crate) tiled: bool,
    /// The largest write strength.
    pub(crate) strength: f32,
    /// The norm's epsilon, where it is not the model's.
    pub(crate) eps: Option<f32>,
    /// What becomes of the output's gate.
    pub(crate) gate: Function,
}

/// What a DeltaNet layer projects its input to.
pub(crate) struct Projected {
    /// Queries, keys and values before the convolution.
    pub(crate) qkv: Value,
    /// The gate of the output.
    pub(crate) gate: Value,
    /// Write strengths before the sigmoid.
    pub(crate) beta: Value,
    /// Steps before bias and softplus.
    pub(crate) alpha: Value,
}

impl Delta {
    pub(crate) fn read(s: &Settings<'_>) -> Result<Self> {
        const V_HEADS: (&str, &str) = ("linear_num_value_heads", "ssm.time_step_rank");
        let k_heads = s.size("linear_num_key_heads", "ssm.group_count")?;
        let v_heads = s.size(V_HEADS.0, V_HEADS.1)?;
        if !v_heads.is_multiple_of(k_heads) {
            return Err(s.wrong(V_HEADS.0, V_HEADS.1, format!("is {v_heads}, which the {k_heads} key heads do not divide")));
        }
        let key = s.size("linear_key_head_dim", "ssm.state_size")?;
        let value = if s.is_gguf() { s.size("", "ssm.inner_size")? / v_heads } else { s.size("linear_value_head_dim", "")? };
        s.note("ssm.inner_size", Meta::Unsigned((value * v_heads) as u64));
        let kernel = s.size("linear_conv_kernel_dim", "ssm.conv_kernel")?;
        Ok(Self { k_heads, v_heads, key, value, kernel, tiled: s.is_gguf(), strength: 1.0, eps: None, gate: Function::Silu })
    }

    /// The projections of a row.
    pub(crate) fn project(&self, g: &mut Graph<'_>, x: Value) -> Projected {
        let (keys, values) = (self.k_heads * self.key, self.v_heads * self.value);
        Projected {
            qkv: g.linear(x, "attn_qkv", 2 * keys + values),
            gate: g.linear(x, "attn_gate", values),
            beta: g.linear(x, "ssm_beta", self.v_heads),
            alpha: g.linear(x, "ssm_alpha", self.v_heads),
        }
    }

    /// The layer's output, of the width of `c`.
    pub(crate) fn build(&self, g: &mut Graph<'_>, x: &Projected, c: Decoder) -> Value {
        let (keys, values) = (self.k_heads * self.key, self.v_heads * self.value);
        let qkv = g.causal_conv(x.qkv, "ssm_conv1d", self.kernel, Some(Function::Silu));
        let q = g.slice(qkv, 1, 0, keys);
        let k = g.slice(qkv, 1, keys, keys);
        let v = g.slice(qkv, 1, 2 * keys, values);
        let (q, k) = (g.l2_norm(q, self.key, 1e-6), g.l2_norm(k, self.key, 1e-6));
        let beta = g.apply(x.beta, Function::Sigmoid);
        let beta = g.scale(beta, self.strength);
        let step = g.with_weight(x.alpha, Binary::Add, "ssm_dt.bias");
        let step = g.apply(step, Function::Softplus);
        let decay = g.with_weight(step, Binary::Mul, "ssm_a");
        let y = g.gated_delta((q, k, v), decay, beta, (self.k_heads, self.v_heads), (self.key, self.value), self.tiled);
        let y = g.head_norm(y, "ssm_norm", self.value, self.eps.unwrap_or(c.eps));
        let y = g.glu(x.gate, y, self.gate);
        g.linear(y, "ssm_out", c.width)
    }

    /// The value head of a Hugging Face checkpoint that GGUF files hold as head `h`.
    fn tiled(&self, h: usize) -> usize {
        h % self.k_heads * (self.v_heads / self.k_heads) + h / self.k_heads
    }

    /// One row for each value head.
    fn heads(&self) -> Result<Order> {
        Ok(Order::Rows((0..self.v_heads).map(|h| self.tiled(h)).collect()))
    }

    /// A row or column for each number of each value head.
    fn values(&self, order: impl Fn(Vec<usize>) -> Order) -> Result<Order> {
        Ok(order((0..self.v_heads).flat_map(|h| (0..self.value).map(move |i| self.tiled(h) * self.value + i)).collect()))
    }

    /// Rows of queries and keys, then those of the value heads.
    fn after_keys(&self) -> Result<Order> {
        let keys = 2 * self.k_heads * self.key;
        let values = (0..self.v_heads).flat_map(|h| (0..self.value).map(move |i| keys + self.tiled(h) * self.value + i));
        Ok(Order::Rows((0..keys).chain(values).collect()))
    }
}

/// Which layers are DeltaNet layers; `full` are the names of the others.
pub(crate) fn linear_layers(s: &Settings<'_>, layers: usize, full: &[&str]) -> Result<Vec<bool>> {
    let every = |n: usize| (0..layers).map(|i| (i + 1) % n != 0).collect::<Vec<bool>>();
    if let Some(listed) = s.flags(RECURRENT, layers)? {
        return Ok(listed);
    }
    let Some(kinds) = s.per_layer("layer_types", layers)? else {
        return Ok(every(s.size_or("full_attention_interval", "full_attention_interval", 4)?));
    };
    let one = |kind: &serde_json::Value| match kind.as_str() {
        Some("linear_attention") => Ok(true),
        Some(kind) if full.contains(&kind) => Ok(false),
        _ => Err(s.wrong("layer_types", "", format!("has {kind}; known are linear_attention, {}", full.join(", ")))),
    };
    let linear = kinds.into_iter().map(one).collect::<Result<Vec<_>>>()?;
    match (1..=layers + 1).find(|n| every(*n) == linear) {
        Some(n) => s.note("full_attention_interval", Meta::Unsigned(n as u64)),
        None if s.gguf_name == "qwen4exp" => s.note(RECURRENT, Meta::Bools(linear.clone())),
        None => s.hf_only(true, "its attention layers do not come at a fixed interval"),
    }
    Ok(linear)
}

/// Which layers have no attention, in GGUF files that list them.
const RECURRENT: &str = "attention.recurrent_layers";
