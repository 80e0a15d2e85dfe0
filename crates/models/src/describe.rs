//! What a plan computes, in words: for people who have to judge whether a checkpoint was understood.

use crate::evidence::pairs;
use onebit_plan::{Edit, Function, Mask, Model, Op, Score, WeightId, ops::Lookup};

/// What the model does, each thing once, in the order in which it is first done.
pub fn describe(model: &Model) -> Vec<String> {
    let mut said: Vec<String> = vec![];
    for op in &model.plan.ops {
        let text = words(model, op);
        if !text.is_empty() && !said.contains(&text) {
            said.push(text);
        }
    }
    said
}

fn words(model: &Model, op: &Op) -> String {
    match op {
        Op::Embed(op) if matches!(op.by, Lookup::Position { .. }) => "learned positions".into(),
        Op::Embed(op) if op.scale != 1.0 => format!("embeddings times {}", op.scale),
        Op::RmsNorm(op) => format!("RMSNorm{} (epsilon {:e}{})", one_of(model, op.x, op.dim), op.eps, stored(model, op.weight)),
        Op::LayerNorm(op) => format!("LayerNorm{} (epsilon {:e}{})", one_of(model, op.x, op.dim), op.eps, stored(model, op.weight)),
        Op::ApplyRope(op) => {
            format!("rotation of {} of a head's {} dimensions, {} together", op.rope.dims(), op.head, pairs(op.rope.style))
        }
        Op::Attention(op) => {
            let mask = match op.mask {
                Mask::Causal => "the whole context".into(),
                Mask::Window(n) => format!("the last {n} tokens"),
                Mask::Chunked(n) => format!("chunks of {n} tokens"),
                Mask::Full => "all of the sequence".into(),
                Mask::Source => "all of the source".into(),
                Mask::Near(n) => format!("{n} tokens on either side"),
            };
            let softcap = op.softcap.map_or(String::new(), |cap| format!(", scores bounded by {cap}"));
            let sinks = if op.sinks.is_some() { ", sinks" } else { "" };
            let alibi = if op.alibi.is_some() { ", linear biases" } else { "" };
            let relative = if op.relative.is_some() { ", biases by distance" } else { "" };
            let [heads, kv] = [op.heads, op.kv_heads];
            format!(
                "attention to {mask} ({heads} heads on {kv} of keys and values, scores times {}{softcap}{sinks}{alibi}{relative})",
                op.scale
            )
        }
        Op::Glu(op) => format!("gates by {}", function(op.f)),
        Op::Elementwise(op) => function(op.f).into(),
        Op::Scale(op) => format!("a factor of {}", op.by),
        Op::Route(op) => {
            let score = match op.score {
                Score::Softmax => "softmax",
                Score::Sigmoid => "sigmoid",
                Score::SparseMixer { .. } => "SparseMixer",
            };
            let sum = if op.normalize { ", made to sum to one" } else { "" };
            let bias = if op.bias.is_some() { ", corrected for the choice" } else { "" };
            format!("a router that chooses {} experts by {score}{bias}{sum}", op.top_k)
        }
        Op::Experts(op) => format!("experts gated by {}", function(op.gating.f)),
        Op::Linear(_)
        | Op::Embed(_)
        | Op::Pairwise(_)
        | Op::Select(_)
        | Op::Slice(_)
        | Op::Concat(_)
        | Op::Sum(_)
        | Op::Transpose(_)
        | Op::Remember(_)
        | Op::Hadamard(_)
        | Op::RoundRows(_) => String::new(),
        other => other.name().replace('_', " "),
    }
}

/// Whether a norm is that of a part of the row.
fn one_of(model: &Model, x: onebit_plan::Value, dim: usize) -> String {
    if model.plan.value(x).width == dim { String::new() } else { format!(" of each {dim} numbers") }
}

/// How the weights of a norm are stored.
fn stored(model: &Model, weight: Option<WeightId>) -> &'static str {
    match weight.map(|id| model.weight(id).edit) {
        None => ", without weights",
        Some(Edit::Add(1.0)) => ", stored less one",
        Some(Edit::Add(_)) => ", stored less a number",
        Some(_) => "",
    }
}

fn function(f: Function) -> &'static str {
    match f {
        Function::Silu => "SiLU",
        Function::Gelu => "GELU",
        Function::GeluTanh => "GELU (tanh)",
        Function::QuickGelu => "quick GELU",
        Function::Relu => "ReLU",
        Function::ReluSquared => "squared ReLU",
        Function::Sigmoid => "sigmoid",
        Function::Softplus => "softplus",
        Function::Tanh => "tanh",
        Function::Exp => "exp",
        Function::SignedSqrt => "signed square root",
    }
}
