//! PLaMo 2 (Preferred Networks 2025, arXiv:2509.04897): layers of Mamba, whose heads have one rate each, between layers of attention, with
//! norms before and behind. Those behind are stored as differences from small numbers, so that each layer adds little at first.
//! Reference: `modeling_plamo.py` of pfnet/plamo-2-8b.

use super::{Arch, blocks::*, hybrid::attention_layers};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{Function, Graph, Mask, Rope, RopeStyle, Value, ops::Scan};

pub(crate) static PLAMO2: Arch = Arch { hf: &["plamo2"], gguf: &["plamo2"], tensors: &[PLAMO_LAYERS, MIXERS], ignored: &[], plan };

/// Names outside of the mixers.
pub(super) const PLAMO_LAYERS: &[Entry] = &[
    tensor("token_embd", "model.embed_tokens"),
    tensor("output_norm", "model.norm").add_one(),
    tensor("output", "lm_head"),
    tensor("blk.{}.attn_norm", "model.layers.layers.{}.pre_mixer_norm").add_one(),
    tensor("blk.{}.attn_qkv", "model.layers.layers.{}.mixer.qkv_proj"),
    tensor("blk.{}.attn_output", "model.layers.layers.{}.mixer.o_proj"),
    tensor("blk.{}.post_attention_norm", "model.layers.layers.{}.post_mixer_norm").add(0.2).bare(),
    tensor("blk.{}.ffn_norm", "model.layers.layers.{}.pre_mlp_norm").add_one(),
    tensor("blk.{}.ffn_up", "model.layers.layers.{}.mlp.gate_up_proj"),
    tensor("blk.{}.ffn_down", "model.layers.layers.{}.mlp.down_proj"),
    // 5^-1.5
    tensor("blk.{}.post_ffw_norm", "model.layers.layers.{}.post_mlp_norm").add(0.089_442_72).bare(),
];

const MIXERS: &[Entry] = &[
    tensor("blk.{}.attn_q_norm.weight", "model.layers.layers.{}.mixer.q_weight"),
    tensor("blk.{}.attn_k_norm.weight", "model.layers.layers.{}.mixer.k_weight"),
    tensor("blk.{}.ssm_in", "model.layers.layers.{}.mixer.in_proj"),
    tensor("blk.{}.ssm_conv1d", "model.layers.layers.{}.mixer.conv1d"),
    tensor("blk.{}.ssm_x", "model.layers.layers.{}.mixer.bcdt_proj"),
    tensor("blk.{}.ssm_dt.bias", "model.layers.layers.{}.mixer.dt_bias"),
    tensor("blk.{}.ssm_dt", "model.layers.layers.{}.mixer.dt_proj"),
    tensor("blk.{}.ssm_dt_norm.weight", "model.layers.layers.{}.mixer.dt_norm_weight").bare(),
    tensor("blk.{}.ssm_b_norm.weight", "model.layers.layers.{}.mixer.B_norm_weight").bare(),
    tensor("blk.{}.ssm_c_norm.weight", "model.layers.layers.{}.mixer.C_norm_weight").bare(),
    tensor("blk.{}.ssm_a", "model.layers.layers.{}.mixer.A_log").neg_exp(),
    tensor("blk.{}.ssm_d", "model.layers.layers.{}.mixer.D"),
    tensor("blk.{}.ssm_out", "model.layers.layers.{}.mixer.out_proj"),
];

/// A layer of `mixer` and a gated feed-forward layer of width `inner`, with norms before and behind both.
pub(super) fn layer(
    c: &Decoder,
    g: &mut Graph<'_>,
    x: Value,
    (inner, act): (usize, Function),
    mixer: impl FnOnce(&mut Graph<'_>, Value) -> Value,
) -> Value {
    let x = c.residual(g, x, "attn_norm", |g, x| {
        let y = mixer(g, x);
        c.norm(g, y, "post_attention_norm")
    });
    c.residual(g, x, "ffn_norm", |g, x| {
        let y = g.fused_gated_ffn(x, inner, act);
        c.norm(g, y, "post_ffw_norm")
    })
}

/// The shape of a mixer of Mamba.
struct Mamba {
    heads: usize,
    head: usize,
    size: usize,
    kernel: usize,
    /// Numbers that the steps are made of.
    rank: usize,
    eps: f32,
}

impl Mamba {
    fn read(s: &Settings<'_>, c: &Decoder, head: usize) -> Result<Self> {
        const HEADS: (&str, &str) = ("mamba_num_heads", "ssm.time_step_rank");
        const INNER: &str = "ssm.inner_size";
        let heads = s.size_or(HEADS.0, HEADS.1, 64)?;
        let inner = if s.is_gguf() { s.size("", INNER)? } else { heads * head };
        if inner != heads * head {
            return Err(s.wrong("", INNER, format!("is {inner}, but {heads} heads of {head} need {}", heads * head)));
        }
        s.note(INNER, Meta::Unsigned(inner as u64));
        s.note("ssm.group_count", Meta::Unsigned(0));
        let size = s.size_or("mamba_d_state", "ssm.state_size", 64)?;
        let kernel = s.size_or("mamba_d_conv", "ssm.conv_kernel", 4)?;
        Ok(Self { heads, head, size, kernel, rank: (c.width / 16).max(64), eps: c.eps })
    }

    fn build(&self, g: &mut Graph<'_>, x: Value) -> Value {
        let &Self { heads, head, size, rank, eps, .. } = self;
        let (width, inner) = (g.width(x), heads * head);
        // Each head has its gate before its input.
        let both = g.linear(x, "ssm_in", 2 * inner);
        let (z, x) = (g.slice(both, heads, 0, head), g.slice(both, heads, head, head));
        let x = g.causal_conv(x, "ssm_conv1d", self.kernel, Some(Function::Silu));
        let selection = g.linear(x, "ssm_x", 2 * size + rank);
        let parts = [(0, size, "ssm_b_norm"), (size, size, "ssm_c_norm"), (2 * size, rank, "ssm_dt_norm")];
        let [b, c, step] = parts.map(|(start, len, norm)| {
            let part = g.slice(selection, 1, start, len);
            g.rms_norm(part, norm, eps)
        });
        let step = g.linear(step, "ssm_dt", heads);
        let step = g.apply(step, Function::Softplus);
        let y = g.selective_scan(x, step, (b, c), "ssm_a", "ssm_d", Scan { heads, groups: 1, head, size, row_rates: false });
        let y = g.glu(z, y, Function::Silu);
        g.linear(y, "ssm_out", width)
    }
}

/// The shape of an attention layer.
struct Attention {
    heads: Heads,
    rope: Rope,
    /// By layer.
    masks: Vec<Mask>,
    /// Added to the mean squares of queries and keys.
    eps: f32,
}

impl Attention {
    fn read(s: &Settings<'_>, c: &Decoder) -> Result<Self> {
        const KEYS: (&str, &str) = ("num_key_value_heads", "attention.head_count_kv");
        let (count, shared) = (Heads::count(s)?, s.size_or(KEYS.0, KEYS.1, 4)?);
        let head = s.size_or("hidden_size_per_head", "attention.key_length", 128)?;
        s.note("attention.value_length", Meta::Unsigned(head as u64));
        if !count.is_multiple_of(shared) {
            return Err(s.wrong(KEYS.0, KEYS.1, format!("is {shared}, which does not divide {count} heads")));
        }
        // Queries and keys have an epsilon of their own, which GGUF files cannot say.
        let eps = if s.is_gguf() { c.eps } else { 1e-6 };
        s.hf_only(eps != c.eps, "its epsilon is not the 1e-6 of its queries and keys");
        let heads = Heads::new(count, shared, head);
        Ok(Self { heads, rope: s.rope(head, RopeStyle::Halves)?, masks: masks(s, c.layers)?, eps })
    }

    fn build(&self, g: &mut Graph<'_>, layer: usize, x: Value) -> Value {
        let heads = &self.heads;
        heads.attention(g, x, self.masks[layer], |g, q, name| {
            let q = g.group_norm(q, &format!("{name}_norm"), g.width(q) / heads.head, self.eps);
            g.rope(q, heads.head, &self.rope)
        })
    }
}

/// Attention looks `attention_window_size` tokens back from its own, but for the layers in `full_attention_idx`. Not in llama.cpp.
fn masks(s: &Settings<'_>, layers: usize) -> Result<Vec<Mask>> {
    const WINDOW: &str = "attention.sliding_window";
    let window = match s.is_gguf() {
        true => s.window()?,
        false => Some(s.size_or("attention_window_size", "", 2048)? + 1),
    };
    let Some(window) = window else { return Ok(vec![Mask::Causal; layers]) };
    s.note(WINDOW, Meta::Unsigned(window as u64));
    s.unread_by_llama_cpp(window < s.context()?, "its layers have a sliding window");
    let whole: Vec<usize> =
        s.json("full_attention_idx").and_then(|v| v.as_array()).into_iter().flatten().filter_map(|v| Some(v.as_u64()? as usize)).collect();
    s.hf_only(!whole.is_empty(), "some of its layers have a window, and others have not");
    Ok((0..layers).map(|layer| if whole.contains(&layer) { Mask::Causal } else { Mask::Window(window) }).collect())
}

/// Which layers are attention layers: one of each `mamba_step`, in its middle.
fn attention_pattern(s: &Settings<'_>, layers: usize) -> Result<impl Fn(usize) -> bool> {
    let (enabled, step) = (s.bool_or("mamba_enabled", "", true)?, s.size_or("mamba_step", "", 2)?);
    Ok(move |layer: usize| match enabled {
        true if layers <= step / 2 => layer + 1 == layers,
        true => layer % step == step / 2,
        false => true,
    })
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    const HEADS: &str = "attention.head_count";
    let c = Decoder::read(s)?;
    let attention = Attention::read(s, &c)?;
    let is_attention = attention_layers(s, c.layers, attention.heads.kv_heads, attention_pattern(s, c.layers)?)?;
    let count = |a: &bool| if *a { attention.heads.heads as i64 } else { 0 };
    s.note(HEADS, Meta::Integers(is_attention.iter().map(count).collect()));
    let mamba = Mamba::read(s, &c, attention.heads.head)?;
    let feed_forward = (s.size("intermediate_size", "feed_forward_length")?, s.activation("silu")?);
    Ok(c.build(g, |g, i, x| {
        layer(&c, g, x, feed_forward, |g, x| if is_attention[i] { attention.build(g, i, x) } else { mamba.build(g, x) })
    }))
}
