//! RWKV 7 (Peng et al. 2025, arXiv:2503.14456): linear attention with a delta rule whose lookup, strength and place are learned, and whose
//! values are drawn to those of the first layer.
//! Reference: flash-linear-attention's `rwkv7`; llama.cpp's `models/rwkv7-base.cpp`.

use super::{
    Arch,
    blocks::*,
    rwkv6::{bonus, change, head_eps, head_norm, heads, towards},
};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{Binary, Function, Graph, Value, ops::LinearOperands};

pub(crate) static RWKV7: Arch = Arch {
    hf: &["rwkv7"],
    gguf: &["rwkv7"],
    tensors: &[BLOCKS],
    ignored: &["model.layers.0.attn.v_lora.*", "blk.0.time_mix_v*.weight"],
    plan,
};

const BLOCKS: &[Entry] = &[
    tensor("token_embd", "model.embeddings"),
    tensor("token_embd_norm", "model.layers.0.pre_norm"),
    tensor("output_norm", "model.norm"),
    tensor("output", "lm_head"),
    tensor("blk.{}.attn_norm", "model.layers.{}.attn_norm"),
    tensor("blk.{}.attn_norm_2", "model.layers.{}.ffn_norm"),
    tensor("blk.{}.time_mix_lerp_fused.weight", "model.layers.{}.attn.x_r")
        .then(&[
            "model.layers.{}.attn.x_w",
            "model.layers.{}.attn.x_k",
            "model.layers.{}.attn.x_v",
            "model.layers.{}.attn.x_a",
            "model.layers.{}.attn.x_g",
        ])
        .ones(1, 2),
    tensor("blk.{}.time_mix_receptance", "model.layers.{}.attn.r_proj"),
    tensor("blk.{}.time_mix_key", "model.layers.{}.attn.k_proj"),
    tensor("blk.{}.time_mix_value", "model.layers.{}.attn.v_proj"),
    tensor("blk.{}.time_mix_output", "model.layers.{}.attn.o_proj"),
    tensor("blk.{}.time_mix_w0.weight", "model.layers.{}.attn.w_lora.lora.2.bias"),
    tensor("blk.{}.time_mix_w1.weight", "model.layers.{}.attn.w_lora.lora.0.weight"),
    tensor("blk.{}.time_mix_w2.weight", "model.layers.{}.attn.w_lora.lora.2.weight"),
    tensor("blk.{}.time_mix_a0.weight", "model.layers.{}.attn.a_lora.lora.2.bias"),
    tensor("blk.{}.time_mix_a1.weight", "model.layers.{}.attn.a_lora.lora.0.weight"),
    tensor("blk.{}.time_mix_a2.weight", "model.layers.{}.attn.a_lora.lora.2.weight"),
    tensor("blk.{}.time_mix_v0.weight", "model.layers.{}.attn.v_lora.lora.2.bias"),
    tensor("blk.{}.time_mix_v1.weight", "model.layers.{}.attn.v_lora.lora.0.weight"),
    tensor("blk.{}.time_mix_v2.weight", "model.layers.{}.attn.v_lora.lora.2.weight"),
    tensor("blk.{}.time_mix_g1.weight", "model.layers.{}.attn.g_lora.lora.0.weight"),
    tensor("blk.{}.time_mix_g2.weight", "model.layers.{}.attn.g_lora.lora.2.weight"),
    tensor("blk.{}.time_mix_k_k.weight", "model.layers.{}.attn.k_k"),
    tensor("blk.{}.time_mix_k_a.weight", "model.layers.{}.attn.k_a"),
    tensor("blk.{}.time_mix_r_k.weight", "model.layers.{}.attn.r_k").flat(),
    tensor("blk.{}.time_mix_ln", "model.layers.{}.attn.g_norm"),
    tensor("blk.{}.channel_mix_lerp_k.weight", "model.layers.{}.ffn.x_k"),
    tensor("blk.{}.channel_mix_key", "model.layers.{}.ffn.key"),
    tensor("blk.{}.channel_mix_value", "model.layers.{}.ffn.value"),
];

/// Decays are at least `exp(-exp(-1/2))`.
const LEAST_DECAY: f32 = 0.606_530_66;

/// The shape of a mixer.
struct Mixer {
    heads: usize,
    /// Numbers that decays, strengths, values and gates depend on.
    ranks: [usize; 4],
    /// Epsilon of the heads' norms.
    eps: f32,
}

/// How many numbers each of the four depends on; where that is not stated, it follows from the width.
fn ranks(s: &Settings<'_>, width: usize) -> Result<[usize; 4]> {
    let usual = |power: f64, by: f64| ((width as f64).powf(power) * by / 32.0).round_ties_even().max(1.0) as usize * 32;
    Ok([
        s.size_or("decay_low_rank_dim|lora_rank_decay", "attention.decay_lora_rank", usual(0.5, 1.8))?,
        s.size_or("a_low_rank_dim|lora_rank_iclr", "attention.iclr_lora_rank", usual(0.5, 1.8))?,
        s.size_or("v_low_rank_dim|lora_rank_value_residual_mix", "attention.value_residual_mix_lora_rank", usual(0.5, 1.3))?,
        s.size_or("gate_low_rank_dim|lora_rank_gate", "attention.gate_lora_rank", usual(0.8, 0.6))?,
    ])
}

/// A product with two thin matrices, `f` between them, and a bias where it has one: `time_mix_w1` and so on.
fn thin(g: &mut Graph<'_>, x: Value, name: char, rank: usize, f: Option<Function>, biased: bool) -> Value {
    let width = g.width(x);
    let y = g.head_linear(x, &format!("time_mix_{name}1"), 1, rank, false);
    let y = f.map_or(y, |f| g.apply(y, f));
    let y = g.head_linear(y, &format!("time_mix_{name}2"), 1, width, false);
    if biased { g.with_weight(y, Binary::Add, &format!("time_mix_{name}0.weight")) } else { y }
}

impl Mixer {
    /// `first` are the values of the first layer, which it gives.
    fn build(&self, g: &mut Graph<'_>, x: Value, first: &mut Option<Value>) -> Value {
        let &Self { heads, ranks: [w_rank, a_rank, v_rank, g_rank], eps } = self;
        let width = g.width(x);
        let change = change(g, x);
        let change = g.repeat(change, 1, 6);
        let change = g.with_rows(change, Binary::Mul, "time_mix_lerp_fused.weight", 6);
        let [r, w, k, v, a, gate] = [0, 1, 2, 3, 4, 5].map(|i| {
            let part = g.slice(change, 1, i * width, width);
            g.add(x, part)
        });
        let r = g.linear(r, "time_mix_receptance", width);
        let k = g.linear(k, "time_mix_key", width);
        let w = thin(g, w, 'w', w_rank, Some(Function::Tanh), true);
        let w = g.apply(w, Function::Sigmoid);
        let decay = g.scale(w, -LEAST_DECAY);
        let values = g.linear(v, "time_mix_value", width);
        let v = match *first {
            None => values,
            Some(first) => {
                let share = thin(g, v, 'v', v_rank, None, true);
                let share = g.apply(share, Function::Sigmoid);
                let negative = g.scale(values, -1.0);
                let distance = g.add(first, negative);
                let part = g.mul(distance, share);
                g.add(values, part)
            }
        };
        first.get_or_insert(values);
        let a = thin(g, a, 'a', a_rank, None, true);
        let a = g.apply(a, Function::Sigmoid);
        let gate = thin(g, gate, 'g', g_rank, Some(Function::Sigmoid), false);
        let found = g.with_weight(k, Binary::Mul, "time_mix_k_k.weight");
        let found = g.l2_norm(found, width / heads, 1e-24);
        let place = g.mul(found, a);
        let lookup = g.scale(found, -1.0);
        // k (1 + (a - 1) k_a)
        let scaled = g.with_weight(k, Binary::Mul, "time_mix_k_a.weight");
        let negative = g.scale(scaled, -1.0);
        let scaled = g.mul(scaled, a);
        let k = g.add(k, scaled);
        let k = g.add(k, negative);
        let y = g.linear_attention(LinearOperands { qkv: [r, k, v], decay, swap: Some([lookup, place]) }, heads, false, 1.0);
        let y = head_norm(g, y, heads, eps);
        let own = g.with_rows(r, Binary::Mul, "time_mix_r_k.weight", heads);
        let own = bonus(g, own, k, v, heads);
        let y = g.add(y, own);
        let y = g.mul(y, gate);
        g.linear(y, "time_mix_output", width)
    }
}

/// Refuses what the reference code knows and is not known here.
fn refuse_others(s: &Settings<'_>, width: usize) -> Result<()> {
    if s.json("attn").is_some() {
        return Err(s.wrong("attn", "", "asks for layers of attention, which are not known here"));
    }
    for (key, known) in [("norm_first", true), ("norm_bias", true)] {
        if s.implied(key, known)? != known {
            return Err(s.wrong(key, "", format!("is {}, but models with {known} are known only", !known)));
        }
    }
    match s.optional_size("value_dim", "")? {
        Some(n) if n != width => Err(s.wrong("value_dim", "", format!("is {n}, but only the width, {width}, is known"))),
        _ => Ok(()),
    }
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::with_norm(s, Norm::Layer, s.epsilon_or("norm_eps|layer_norm_epsilon", "attention.layer_norm_epsilon", 1e-5)?)?;
    let (width, heads) = (c.width, heads(s, c.width)?);
    refuse_others(s, width)?;
    let ranks = ranks(s, width)?;
    // llama.cpp wants them in the first layer too, where nothing looks at them, as wide as those of the strengths.
    for (name, rows, columns) in [("v0", 1, width), ("v1", ranks[1], width), ("v2", width, ranks[1])] {
        let shape = if rows == 1 { vec![columns] } else { vec![rows, columns] };
        s.note_shaped_tensor(&format!("blk.0.time_mix_{name}.weight"), shape, vec![0.0; rows * columns]);
    }
    let mixer = Mixer { heads, ranks, eps: head_eps(s, (width / heads) as f32 * c.eps) };
    let inner = s.size_or("intermediate_size", "feed_forward_length", 4 * width)?;
    let act = s.activation("sqrelu")?;
    let mut first = None;
    Ok(c.build(g, |g, layer, x| {
        let x = if layer == 0 { g.weights_of(None, |g| g.layer_norm(x, "token_embd_norm", c.eps)) } else { x };
        let x = c.residual(g, x, "attn_norm", |g, x| mixer.build(g, x, &mut first));
        c.residual(g, x, "attn_norm_2", |g, x| {
            let change = change(g, x);
            let k = towards(g, x, change, "channel_mix_lerp_k.weight");
            let k = g.linear(k, "channel_mix_key", inner);
            let k = g.apply(k, act);
            g.linear(k, "channel_mix_value", width)
        })
    }))
}
