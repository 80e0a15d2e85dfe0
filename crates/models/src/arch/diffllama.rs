//! DiffLlama: Llama with differential attention (Ye et al. 2024, arXiv:2410.05258): of two softmaxes over the same values, one is taken
//! off the other. Reference: transformers' `models/diffllama`.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{AttentionSpec, Graph, RopeStyle, Value};

pub(crate) static DIFFLLAMA: Arch = Arch {
    hf: &["diffllama"],
    gguf: &[],
    tensors: &[TRUNK, PRE_NORMS, ATTENTION, LAMBDAS, FFN],
    // Read while the plan is made.
    ignored: &["*.lambda_q1", "*.lambda_k1", "*.lambda_q2", "*.lambda_k2"],
    plan,
};

const LAMBDAS: &[Entry] = &[
    tensor("blk.{}.lambda_q1", "model.layers.{}.self_attn.lambda_q1"),
    tensor("blk.{}.lambda_k1", "model.layers.{}.self_attn.lambda_k1"),
    tensor("blk.{}.lambda_q2", "model.layers.{}.self_attn.lambda_q2"),
    tensor("blk.{}.lambda_k2", "model.layers.{}.self_attn.lambda_k2"),
];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = Heads::read(s, c.width)?;
    if !heads.kv_heads.is_multiple_of(2) {
        return Err(s.wrong("num_key_value_heads", "", format!("is {}, but should be even", heads.kv_heads)));
    }
    let rope = s.rope(heads.head, RopeStyle::Halves)?;
    let inner = s.size("intermediate_size", "")?;
    let act = s.activation("silu")?;
    Ok(c.build(g, |g, layer, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| {
            let [q, k, v] = heads.project(g, x);
            let (q, k) = (g.rope(q, heads.head, &rope), g.rope(k, heads.head, &rope));
            let y = differential(g, &heads, [q, k, v], layer, c.eps);
            g.linear(y, "attn_output", c.width)
        });
        c.residual(g, x, "ffn_norm", |g, x| g.gated_ffn(x, inner, act))
    }))
}

/// `(1 - l0) norm(attention(q1, k1, v) - l attention(q2, k2, v))`: the first half of the heads and the second, which share their values,
/// a pair of heads at a time.
fn differential(g: &mut Graph<'_>, h: &Heads, [q, k, v]: [Value; 3], layer: usize, eps: f32) -> Value {
    let start = 0.8 - 0.6 * (-0.3 * layer as f64).exp();
    let mut similarity = |a: &str, b: &str| {
        let (a, b) = (g.constant(a, &[h.head]), g.constant(b, &[h.head]));
        a.iter().zip(&b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>().exp()
    };
    let lambda = similarity("lambda_q1", "lambda_k1") - similarity("lambda_q2", "lambda_k2") + start;

    let half = |g: &mut Graph<'_>, x, i: usize| {
        let len = g.width(x) / 2;
        g.slice(x, 1, i * len, len)
    };
    let (first, second) = (half(g, v, 0), half(g, v, 1));
    let pairs = g.concat(first, second, h.kv_heads / 2);
    let usual = AttentionSpec::causal(h.heads / 2, h.kv_heads / 2, h.head);
    let spec = AttentionSpec { value: 2 * h.head, ..usual };
    let [y, noise] = [0, 1].map(|i| {
        let (q, k) = (half(g, q, i), half(g, k, i));
        g.attention(q, k, pairs, &spec)
    });
    let noise = g.scale(noise, -lambda as f32);
    let y = g.add(y, noise);
    let y = g.plain_norm(y, 2 * h.head, eps);
    g.scale(y, (1.0 - start) as f32)
}
