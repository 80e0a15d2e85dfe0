//! RWKV 6 (Peng et al. 2024, arXiv:2404.05892): linear attention whose decays depend on the token, as does how much each of its inputs
//! takes of the token before. And QRWKV 6 (Recursal 2024), which is Qwen2 with such attention, gated linear attention to be exact.
//! Reference: `modeling_rwkv6.py` of RWKV/rwkv-6-world-1b6; llama.cpp's `models/rwkv6qwen2.cpp`.

use super::{
    Arch,
    blocks::*,
    rwkv::{channel_mix, receive},
};
use crate::{
    Result,
    names::{Entry, Order, tensor},
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{Binary, Function, Graph, Value, ops::LinearOperands};

pub(crate) static RWKV6: Arch = Arch { hf: &["rwkv6"], gguf: &["rwkv6"], tensors: &[BLOCKS], ignored: &[], plan };

pub(crate) static RWKV6_QWEN2: Arch =
    Arch { hf: &["rwkv6qwen2"], gguf: &["rwkv6qwen2"], tensors: &[TRUNK, PRE_NORMS, QWEN2_MIXER, FFN], ignored: &[], plan: qwen2_plan };

const BLOCKS: &[Entry] = &[
    tensor("token_embd", "model.embeddings"),
    tensor("token_embd_norm", "model.blocks.0.pre_ln"),
    tensor("output_norm", "model.ln_out"),
    tensor("output", "head"),
    tensor("blk.{}.attn_norm", "model.blocks.{}.ln1"),
    tensor("blk.{}.attn_norm_2", "model.blocks.{}.ln2"),
    tensor("blk.{}.time_mix_lerp_x.weight", "model.blocks.{}.attention.time_maa_x"),
    tensor("blk.{}.time_mix_lerp_fused.weight", "model.blocks.{}.attention.time_maa_w")
        .then(&[
            "model.blocks.{}.attention.time_maa_k",
            "model.blocks.{}.attention.time_maa_v",
            "model.blocks.{}.attention.time_maa_r",
            "model.blocks.{}.attention.time_maa_g",
        ])
        .ones(1, 2),
    tensor("blk.{}.time_mix_w1.weight", "model.blocks.{}.attention.time_maa_w1").transposed(),
    tensor("blk.{}.time_mix_w2.weight", "model.blocks.{}.attention.time_maa_w2").transposed(),
    tensor("blk.{}.time_mix_first.weight", "model.blocks.{}.attention.time_faaaa"),
    tensor("blk.{}.time_mix_decay.weight", "model.blocks.{}.attention.time_decay"),
    tensor("blk.{}.time_mix_decay_w1.weight", "model.blocks.{}.attention.time_decay_w1").transposed(),
    tensor("blk.{}.time_mix_decay_w2.weight", "model.blocks.{}.attention.time_decay_w2").transposed(),
    tensor("blk.{}.time_mix_key", "model.blocks.{}.attention.key"),
    tensor("blk.{}.time_mix_value", "model.blocks.{}.attention.value"),
    tensor("blk.{}.time_mix_receptance", "model.blocks.{}.attention.receptance"),
    tensor("blk.{}.time_mix_gate", "model.blocks.{}.attention.gate"),
    tensor("blk.{}.time_mix_ln", "model.blocks.{}.attention.ln_x"),
    tensor("blk.{}.time_mix_output", "model.blocks.{}.attention.output"),
    tensor("blk.{}.channel_mix_lerp_k.weight", "model.blocks.{}.feed_forward.time_maa_k"),
    tensor("blk.{}.channel_mix_lerp_r.weight", "model.blocks.{}.feed_forward.time_maa_r"),
    tensor("blk.{}.channel_mix_key", "model.blocks.{}.feed_forward.key"),
    tensor("blk.{}.channel_mix_receptance", "model.blocks.{}.feed_forward.receptance"),
    tensor("blk.{}.channel_mix_value", "model.blocks.{}.feed_forward.value"),
];

/// The five mixes come in another order on the Hub: `r k v w g`.
const QWEN2_MIXER: &[Entry] = &[
    tensor("blk.{}.time_mix_lerp_x.weight", "model.layers.{}.self_attn.time_maa_x"),
    tensor("blk.{}.time_mix_lerp_fused.weight", "model.layers.{}.self_attn.time_maa_w")
        .then(&[
            "model.layers.{}.self_attn.time_maa_k",
            "model.layers.{}.self_attn.time_maa_v",
            "model.layers.{}.self_attn.time_maa_r",
            "model.layers.{}.self_attn.time_maa_g",
        ])
        .ones(1, 2),
    tensor("blk.{}.time_mix_w1.weight", "model.layers.{}.self_attn.time_maa_w1").transposed().ordered(|s| exchanged(s, token_rank)),
    tensor("blk.{}.time_mix_w2.weight", "model.layers.{}.self_attn.time_maa_w2").transposed().ordered(|s| exchanged(s, Decoder::width)),
    tensor("blk.{}.time_mix_decay.weight", "model.layers.{}.self_attn.time_decay"),
    tensor("blk.{}.time_mix_decay_w1.weight", "model.layers.{}.self_attn.time_decay_w1").transposed(),
    tensor("blk.{}.time_mix_decay_w2.weight", "model.layers.{}.self_attn.time_decay_w2").transposed(),
    tensor("blk.{}.time_mix_key", "model.layers.{}.self_attn.k_proj"),
    tensor("blk.{}.time_mix_value", "model.layers.{}.self_attn.v_proj"),
    tensor("blk.{}.time_mix_receptance", "model.layers.{}.self_attn.q_proj"),
    tensor("blk.{}.time_mix_gate", "model.layers.{}.self_attn.gate"),
    tensor("blk.{}.time_mix_output", "model.layers.{}.self_attn.o_proj"),
];

/// Five runs of rows with the first and the fourth exchanged.
fn exchanged(s: &Settings<'_>, run: fn(&Settings<'_>) -> Result<usize>) -> Result<Order> {
    let run = run(s)?;
    Ok(Order::Rows([3, 1, 2, 0, 4].into_iter().flat_map(|i| i * run..(i + 1) * run).collect()))
}

/// Wide models have twice the rank.
fn ranked(s: &Settings<'_>, key: (&str, &str), usual: usize, is_wide: impl Fn(usize) -> bool) -> Result<usize> {
    let wide = is_wide(Decoder::width(s)?);
    s.size_or(key.0, key.1, if wide { 2 * usual } else { usual })
}

/// Numbers that each of the five mixes depends on, in QRWKV.
fn token_rank(s: &Settings<'_>) -> Result<usize> {
    ranked(s, ("lora_rank_tokenshift", "time_mix_extra_dim"), 32, |width| width >= 4096)
}

/// The shape of a mixer.
struct Mixer {
    heads: usize,
    kv_heads: usize,
    /// Numbers that the five mixes depend on, each; and those that the decay depends on.
    ranks: [usize; 2],
    /// Where those stand that decay, key, value, receptance and gate depend on.
    order: [usize; 5],
}

impl Mixer {
    /// Receptance, key, value, gate, and the logarithm of the decay.
    fn project(&self, g: &mut Graph<'_>, x: Value) -> ([Value; 4], Value) {
        let &Self { heads, kv_heads, ranks: [rank, decay_rank], order } = self;
        let width = g.width(x);
        let kv_width = kv_heads * (width / heads);
        let change = change(g, x);
        let mixed = towards(g, x, change, "time_mix_lerp_x.weight");
        let low = g.head_linear(mixed, "time_mix_w1", 1, 5 * rank, false);
        let low = g.apply(low, Function::Tanh);
        let shares = g.head_linear(low, "time_mix_w2", 5, width, false);
        let shares = reordered(g, shares, order);
        let shares = g.with_rows(shares, Binary::Add, "time_mix_lerp_fused.weight", 5);
        let [w, k, v, r, gate] = [0, 1, 2, 3, 4].map(|i| {
            let share = g.slice(shares, 1, i * width, width);
            let part = g.mul(change, share);
            g.add(x, part)
        });
        let r = g.linear(r, "time_mix_receptance", width);
        let k = g.linear(k, "time_mix_key", kv_width);
        let v = g.linear(v, "time_mix_value", kv_width);
        let gate = g.linear(gate, "time_mix_gate", width);
        let w = g.head_linear(w, "time_mix_decay_w1", 1, decay_rank, false);
        let w = g.apply(w, Function::Tanh);
        let w = g.head_linear(w, "time_mix_decay_w2", 1, width, false);
        let w = g.with_weight(w, Binary::Add, "time_mix_decay.weight");
        let w = g.apply(w, Function::Exp);
        ([r, k, v, gate], g.scale(w, -1.0))
    }
}

/// How the row before differs from the row.
pub(super) fn change(g: &mut Graph<'_>, x: Value) -> Value {
    let (last, negative) = (g.delay(x), g.scale(x, -1.0));
    g.add(last, negative)
}

/// `x + change * weight`.
pub(super) fn towards(g: &mut Graph<'_>, x: Value, change: Value, weight: &str) -> Value {
    let part = g.with_weight(change, Binary::Mul, weight);
    g.add(x, part)
}

/// Equal runs in another order.
fn reordered<const N: usize>(g: &mut Graph<'_>, x: Value, order: [usize; N]) -> Value {
    if order.is_sorted() {
        return x;
    }
    let run = g.width(x) / N;
    let runs = order.map(|i| g.slice(x, 1, i * run, run));
    runs.into_iter().reduce(|all, run| g.concat(all, run, 1)).unwrap_or(x)
}

/// The sum over a head of `a * b`, times the head's part of `v`.
pub(super) fn bonus(g: &mut Graph<'_>, a: Value, b: Value, v: Value, heads: usize) -> Value {
    let products = g.mul(a, b);
    let sums = g.sum(products, heads, g.width(products) / heads);
    g.mul(v, sums)
}

/// LayerNorm of each head.
pub(super) fn head_norm(g: &mut Graph<'_>, x: Value, heads: usize, eps: f32) -> Value {
    let x = g.plain_layer_norm(x, g.width(x) / heads, eps);
    let x = g.with_weight(x, Binary::Mul, "time_mix_ln.weight");
    g.with_weight(x, Binary::Add, "time_mix_ln.bias")
}

/// Heads of `head_size` numbers each.
pub(super) fn heads(s: &Settings<'_>, width: usize) -> Result<usize> {
    const SIZE: (&str, &str) = ("head_size|head_dim", "wkv.head_size");
    let head = s.size_or(SIZE.0, SIZE.1, 64)?;
    if !width.is_multiple_of(head) {
        return Err(s.wrong(SIZE.0, SIZE.1, format!("is {head}, which does not divide the width {width}")));
    }
    // GGUF files must have it.
    s.note("attention.head_count", Meta::Unsigned(0));
    Ok(width / head)
}

/// Refuses an epsilon of the heads' norms that GGUF files do not mean.
pub(super) fn head_eps(s: &Settings<'_>, eps: f32) -> f32 {
    const GGUF: f32 = 64e-5;
    s.hf_only((eps - GGUF).abs() > 1e-9, "the epsilon of its heads' norms is not the 64e-5 of GGUF files");
    if s.is_gguf() { GGUF } else { eps }
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::with_norm(s, Norm::Layer, s.epsilon_or("layer_norm_epsilon", "attention.layer_norm_epsilon", 1e-5)?)?;
    // The last norm has PyTorch's epsilon.
    let last = Decoder { eps: if s.is_gguf() { c.eps } else { 1e-5 }, ..c };
    s.hf_only(last.eps != c.eps, "its epsilon is not the 1e-5 of its last norm");
    let (width, heads) = (c.width, heads(s, c.width)?);
    let is_wide = |width| width == 4096;
    let ranks = [
        if s.is_gguf() { s.size("", "time_mix_extra_dim")? } else { ranked(s, ("", "time_mix_extra_dim"), 32, is_wide)? },
        if s.is_gguf() { s.size("", "time_decay_extra_dim")? } else { ranked(s, ("", "time_decay_extra_dim"), 64, is_wide)? },
    ];
    let eps = head_eps(s, 1e-5 * s.size_or("head_size_divisor", "", 8)?.pow(2) as f32);
    let inner = s.size_or("intermediate_size", "feed_forward_length", width * 7 / 2 / 32 * 32)?;
    let every = s.count_or("rescale_every", "rescale_every_n_layers", 0)?;
    let halvings = |layers: usize| layers.checked_div(every).unwrap_or(0) as i32;
    // Matrices in GGUF files are halved as the stream is.
    for (layer, name) in (0..c.layers).flat_map(|layer| [(layer, "time_mix_output"), (layer, "channel_mix_value")]) {
        s.note_factors(&format!("blk.{layer}.{name}"), &[0.5f32.powi(halvings(layer))]);
    }
    let mixer = Mixer { heads, kv_heads: heads, ranks, order: [0, 1, 2, 3, 4] };
    Ok(last.build(g, |g, layer, x| {
        let x = if layer == 0 { g.weights_of(None, |g| g.layer_norm(x, "token_embd_norm", c.eps)) } else { x };
        let share = if s.is_gguf() { 1.0 } else { 0.5f32.powi(halvings(layer)) };
        let x = c.residual(g, x, "attn_norm", |g, x| {
            let ([r, k, v, gate], decay) = mixer.project(g, x);
            let y = g.linear_attention(LinearOperands { qkv: [r, k, v], decay, swap: None }, heads, true, 1.0);
            let own = g.with_rows(k, Binary::Mul, "time_mix_first.weight", heads);
            let own = bonus(g, r, own, v, heads);
            let y = g.add(y, own);
            let y = head_norm(g, y, heads, eps);
            let y = g.glu(gate, y, Function::Silu);
            let y = g.linear(y, "time_mix_output", width);
            g.scale(y, share)
        });
        let x = c.residual(g, x, "attn_norm_2", |g, x| {
            let change = change(g, x);
            let k = towards(g, x, change, "channel_mix_lerp_k.weight");
            let y = channel_mix(g, k, [inner, width], share);
            let r = towards(g, x, change, "channel_mix_lerp_r.weight");
            receive(g, r, y, width)
        });
        if halvings(layer + 1) > halvings(layer) { g.scale(x, 0.5) } else { x }
    }))
}

fn qwen2_plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    const KEYS: (&str, &str) = ("num_key_value_heads", "attention.head_count_kv");
    let c = Decoder::read(s)?;
    let heads = match s.is_gguf() {
        true => heads(s, c.width)?,
        false => Heads::count(s)?,
    };
    let kv_heads = s.size_or(KEYS.0, KEYS.1, heads)?;
    if !c.width.is_multiple_of(heads) || !heads.is_multiple_of(kv_heads) {
        let what = format!("is {kv_heads}; {kv_heads} keys, {heads} heads and {} numbers do not divide each other", c.width);
        return Err(s.wrong(KEYS.0, KEYS.1, what));
    }
    let head = c.width / heads;
    for (key, n) in [("wkv.head_size", head), ("attention.head_count", 0), ("token_shift_count", 1)] {
        s.note(key, Meta::Unsigned(n as u64));
    }
    let decay_rank = ranked(s, ("lora_rank_decay", "time_decay_extra_dim"), 64, |width| width >= 4096)?;
    let order = if s.is_gguf() { [0, 1, 2, 3, 4] } else { [3, 1, 2, 0, 4] };
    let mixer = Mixer { heads, kv_heads, ranks: [token_rank(s)?, decay_rank], order };
    let (inner, act) = (s.size("intermediate_size", "feed_forward_length")?, s.activation("silu")?);
    let scale = 1.0 / (head as f32).sqrt();
    Ok(c.build(g, |g, _, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| {
            let ([r, k, v, gate], decay) = mixer.project(g, x);
            let [k, v] = [k, v].map(|x| g.repeat(x, kv_heads, heads / kv_heads));
            // What a key adds is what its decay takes away.
            let kept = g.apply(decay, Function::Exp);
            let kept = g.mul(k, kept);
            let kept = g.scale(kept, -1.0);
            let k = g.add(k, kept);
            let y = g.linear_attention(LinearOperands { qkv: [r, k, v], decay, swap: None }, heads, false, scale);
            let y = g.glu(gate, y, Function::Sigmoid);
            g.linear(y, "time_mix_output", c.width)
        });
        c.residual(g, x, "ffn_norm", |g, x| g.gated_ffn(x, inner, act))
    }))
}
