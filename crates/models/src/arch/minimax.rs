//! MiniMax-01 (MiniMax 2025, arXiv:2501.08313): layers of lightning attention, some of softmax attention, and a mixture of experts in
//! each; what a layer adds to is what it was given after the norm. Reference: transformers' `models/minimax`.

use super::{Arch, blocks::*, hybrid::attention_layers, llama::MIXTRAL_EXPERTS};
use crate::{
    Result,
    names::{Entry, tensor},
    rope::Rotary,
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{Function, Graph, Mask, RopeStyle, Value};

pub(crate) static MINIMAX: Arch = Arch {
    hf: &["minimax"],
    gguf: &["minimax-01"],
    tensors: &[TRUNK, PRE_NORMS, LIGHTNING, ATTENTION, MIXTRAL_EXPERTS],
    ignored: &[],
    plan,
};

const LIGHTNING: &[Entry] = &[
    tensor("blk.{}.attn_qkv", "model.layers.{}.self_attn.qkv_proj"),
    tensor("blk.{}.attn_gate", "model.layers.{}.self_attn.output_gate"),
    tensor("blk.{}.attn_norm_2", "model.layers.{}.self_attn.norm"),
    tensor("blk.{}.attn_output", "model.layers.{}.self_attn.o_proj").or("model.layers.{}.self_attn.out_proj"),
    tensor("blk.{}.decay_rate", "model.layers.{}.self_attn.slope_rate").made(|s, layer, shape| rates(s, layer, shape[0])),
    tensor("blk.{}.decay_queries", "model.layers.{}.self_attn.query_decay")
        .made(|s, layer, shape| decays(s, layer, shape[0], shape[1], |i| vec![i + 1])),
    tensor("blk.{}.decay_keys", "model.layers.{}.self_attn.key_decay").made(|s, layer, shape| {
        let block = shape[1];
        decays(s, layer, shape[0], block, |i| vec![block - 1 - i])
    }),
    tensor("blk.{}.decay_inner", "model.layers.{}.self_attn.diagonal_decay").made(|s, layer, shape| {
        let block = shape[1];
        // Nothing of what comes later.
        decays(s, layer, shape[0], block, |i| (0..block).map(|j| if j <= i { i - j } else { usize::MAX }).collect())
    }),
];

/// The rates of `heads` heads: a geometric series, less in later layers.
fn rates(s: &Settings<'_>, layer: usize, heads: usize) -> Result<Vec<f32>> {
    let base = 2f64.powf(-8.0 / heads as f64);
    let factor = 1.0 - layer as f64 / (s.layers()? as f64 - 1.0 + 1e-5) + 1e-5;
    Ok((1..=heads).map(|head| (base.powi(head as i32) * factor) as f32).collect())
}

/// What is left after each of the numbers of tokens that `after` gives for each of a block's tokens, head by head.
fn decays(s: &Settings<'_>, layer: usize, heads: usize, block: usize, after: impl Fn(usize) -> Vec<usize>) -> Result<Vec<f32>> {
    let left = |rate: f32, tokens: usize| if tokens == usize::MAX { 0.0 } else { (-f64::from(rate) * tokens as f64).exp() as f32 };
    let of_head = |rate: f32| (0..block).flat_map(|i| after(i).into_iter().map(move |tokens| left(rate, tokens))).collect::<Vec<_>>();
    Ok(rates(s, layer, heads)?.into_iter().flat_map(of_head).collect())
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = Heads::read(s, c.width)?;
    let rope = s.rotary(heads.head, Rotary { base: 1e6, ..Rotary::new(RopeStyle::Halves) })?;
    let mask = s.window()?.map_or(Mask::Causal, Mask::Window);
    s.hf_only(mask != Mask::Causal, "its attention has a sliding window");
    let attention = attention(s, &c, &heads)?;
    let block = s.size_or("block_size", "", 256)?;
    let act = s.activation("silu")?;
    let moe = Moe::read(s, true, false)?;
    let factors = factors(s)?;
    let sum = |g: &mut Graph<'_>, x, y, [alpha, beta]: [f32; 2]| {
        let (x, y) = (g.scale(x, alpha), g.scale(y, beta));
        g.add(x, y)
    };
    Ok(c.build(g, |g, layer, x| {
        let x = g.rms_norm(x, "attn_norm", c.eps);
        let x = match attention[layer] {
            true => {
                let y = heads.attention(g, x, mask, |g, q, _| g.rope(q, heads.head, &rope));
                sum(g, x, y, factors[0])
            }
            false => {
                let y = lightning(g, x, &heads, block, act);
                sum(g, x, y, factors[1])
            }
        };
        let x = g.rms_norm(x, "ffn_norm", c.eps);
        let y = moe.build(g, x);
        sum(g, x, y, factors[2])
    }))
}

/// Which layers have softmax attention. GGUF files list the others, or mean each eighth.
fn attention(s: &Settings<'_>, c: &Decoder, heads: &Heads) -> Result<Vec<bool>> {
    const RECURRENT: &str = "attention.recurrent_layers";
    if s.is_gguf() {
        let each = s.size_or("", "full_attention_interval", 8)?;
        let listed = s.flags(RECURRENT, c.layers)?.map(|flags| flags.into_iter().map(|recurrent| !recurrent).collect());
        return Ok(listed.unwrap_or_else(|| (0..c.layers).map(|layer| (layer + 1).is_multiple_of(each)).collect()));
    }
    let attention = attention_layers(s, c.layers, heads.kv_heads, |layer| layer % 2 == 0)?;
    s.note("attention.head_count_kv", Meta::Unsigned(heads.kv_heads as u64));
    s.note(RECURRENT, Meta::Bools(attention.iter().map(|attention| !attention).collect()));
    Ok(attention)
}

/// Factors on what is added to and on what is added: by softmax attention, by lightning attention and by the mixture.
fn factors(s: &Settings<'_>) -> Result<[[f32; 2]; 3]> {
    if s.is_gguf() {
        return Ok([[s.float_or("", "residual_scale", 1.0)? as f32, 1.0]; 3]);
    }
    let factor = |name: &str, which: &str| Ok::<_, crate::Error>(s.float_or(&format!("{name}_{which}_factor"), "", 1.0)? as f32);
    let both = |name: &str| Ok::<_, crate::Error>([factor(name, "alpha")?, factor(name, "beta")?]);
    let factors = [both("full_attn")?, both("linear_attn")?, both("mlp")?];
    let alpha = factors[0][0];
    s.note("residual_scale", Meta::Float(f64::from(alpha)));
    s.hf_only(factors != [[alpha, 1.0]; 3], "its layers weigh what they add differently, where GGUF files have one factor");
    Ok(factors)
}

/// Lightning attention; each head of the projection gives its query, its key, then its value.
fn lightning(g: &mut Graph<'_>, x: Value, h: &Heads, block: usize, act: Function) -> Value {
    let inner = h.heads * h.head;
    let all = g.linear(x, "attn_qkv", 3 * inner);
    let all = g.apply(all, act);
    let qkv = [0, 1, 2].map(|i| g.slice(all, h.heads, i * h.head, h.head));
    let y = g.lightning(qkv, ["decay_rate", "decay_queries", "decay_keys", "decay_inner"], h.heads, block);
    // The norm has the epsilon of its class.
    let y = g.rms_norm(y, "attn_norm_2", 1e-6);
    let gate = g.linear(x, "attn_gate", inner);
    let y = g.glu(gate, y, Function::Sigmoid);
    g.linear(y, "attn_output", g.width(x))
}
