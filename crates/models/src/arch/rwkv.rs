//! RWKV 4 (Peng et al. 2023, arXiv:2305.13048): attention without queries, whose weights decay, and feed-forward layers, both over a
//! mix of the token's row and the one before. Reference: transformers' `models/rwkv`.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{Binary, Function, Graph, Value};

pub(crate) static RWKV: Arch = Arch { hf: &["rwkv"], gguf: &[], tensors: &[BLOCKS], ignored: &[], plan };

const BLOCKS: &[Entry] = &[
    tensor("token_embd", "model.embeddings"),
    tensor("token_embd_norm", "model.blocks.0.pre_ln"),
    tensor("output_norm", "model.ln_out"),
    tensor("output", "head"),
    tensor("blk.{}.attn_norm", "model.blocks.{}.ln1"),
    tensor("blk.{}.ffn_norm", "model.blocks.{}.ln2"),
    tensor("blk.{}.time_mix_decay", "model.blocks.{}.attention.time_decay").neg_exp(),
    tensor("blk.{}.time_mix_first", "model.blocks.{}.attention.time_first"),
    tensor("blk.{}.time_mix_lerp_k", "model.blocks.{}.attention.time_mix_key"),
    tensor("blk.{}.time_mix_lerp_v", "model.blocks.{}.attention.time_mix_value"),
    tensor("blk.{}.time_mix_lerp_r", "model.blocks.{}.attention.time_mix_receptance"),
    tensor("blk.{}.time_mix_key", "model.blocks.{}.attention.key"),
    tensor("blk.{}.time_mix_value", "model.blocks.{}.attention.value"),
    tensor("blk.{}.time_mix_receptance", "model.blocks.{}.attention.receptance"),
    tensor("blk.{}.time_mix_output", "model.blocks.{}.attention.output"),
    tensor("blk.{}.channel_mix_lerp_k", "model.blocks.{}.feed_forward.time_mix_key"),
    tensor("blk.{}.channel_mix_lerp_r", "model.blocks.{}.feed_forward.time_mix_receptance"),
    tensor("blk.{}.channel_mix_key", "model.blocks.{}.feed_forward.key"),
    tensor("blk.{}.channel_mix_receptance", "model.blocks.{}.feed_forward.receptance"),
    tensor("blk.{}.channel_mix_value", "model.blocks.{}.feed_forward.value"),
];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::with_norm(s, Norm::Layer, s.epsilon_or("layer_norm_epsilon", "", 1e-5)?)?;
    // The last norm has PyTorch's epsilon.
    let last = Decoder { eps: 1e-5, ..c };
    let width = c.width;
    let attention = s.size_or("attention_hidden_size", "", width)?;
    let inner = s.size_or("intermediate_size", "", 4 * width)?;
    // The stream is halved every few layers, which changes what the norms' epsilons weigh.
    let every = s.count_or("rescale_every", "", 6)?;
    let halvings = |layers: usize| layers.checked_div(every).unwrap_or(0);
    Ok(last.build(g, |g, layer, x| {
        let x = if layer == 0 { g.weights_of(None, |g| g.layer_norm(x, "token_embd_norm", c.eps)) } else { x };
        let share = 0.5f32.powi(halvings(layer) as i32);
        let x = c.residual(g, x, "attn_norm", |g, x| {
            let last = g.delay(x);
            let [k, v, r] = ["key", "value", "receptance"].map(|name| {
                let mixed = lerp(g, last, x, &format!("time_mix_lerp_{}", &name[..1]));
                g.linear(mixed, &format!("time_mix_{name}"), attention)
            });
            let y = g.wkv(k, v, "time_mix_decay", "time_mix_first");
            let y = g.glu(r, y, Function::Sigmoid);
            let y = g.linear(y, "time_mix_output", width);
            g.scale(y, share)
        });
        let x = c.residual(g, x, "ffn_norm", |g, x| {
            let last = g.delay(x);
            let k = lerp(g, last, x, "channel_mix_lerp_k");
            let y = channel_mix(g, k, [inner, width], share);
            let r = lerp(g, last, x, "channel_mix_lerp_r");
            receive(g, r, y, width)
        });
        if halvings(layer + 1) > halvings(layer) { g.scale(x, 0.5) } else { x }
    }))
}

/// What the feed-forward layer makes of its mixed keys: a squared ReLU between two matrices, scaled.
pub(super) fn channel_mix(g: &mut Graph<'_>, k: Value, [inner, width]: [usize; 2], share: f32) -> Value {
    let k = g.linear(k, "channel_mix_key", inner);
    let k = g.apply(k, Function::ReluSquared);
    let y = g.linear(k, "channel_mix_value", width);
    g.scale(y, share)
}

/// How much of it is taken, by the mixed receptances.
pub(super) fn receive(g: &mut Graph<'_>, r: Value, y: Value, width: usize) -> Value {
    let r = g.linear(r, "channel_mix_receptance", width);
    g.glu(r, y, Function::Sigmoid)
}

/// `a + (b - a) * weight`.
fn lerp(g: &mut Graph<'_>, a: Value, b: Value, weight: &str) -> Value {
    let negative = g.scale(a, -1.0);
    let difference = g.add(b, negative);
    let part = g.with_weight(difference, Binary::Mul, weight);
    g.add(a, part)
}
