//! Gemma 3n (Google DeepMind 2025): several streams of which each layer computes one and predicts the others (AltUp; Baykal et al. 2023,
//! arXiv:2301.13310), a path of low rank beside attention (LAuReL; Menghani et al. 2024, arXiv:2411.07501), feed-forward layers whose
//! gates are mostly zero, and, as in Gemma 4, an embedding for each layer and last layers that look at the keys and values of earlier
//! ones. Reference: transformers' `models/gemma3n`.
//!
//! Of checkpoints that also see or hear, the text model runs.

use super::{
    Arch,
    altup::{ALTUP, AltUp},
    blocks::*,
    gemma4::{IGNORED, NORMS, PER_LAYER, PerLayer, attention_layers, masks},
};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{Function, Graph, Value};

pub(crate) static GEMMA3N: Arch = Arch {
    hf: &["gemma3n_text", "gemma3n"],
    gguf: &[],
    tensors: &[TRUNK, NORMS, PER_LAYER, ALTUP, LAUREL, ATTENTION, QK_NORMS, FFN],
    ignored: IGNORED,
    plan,
};

const LAUREL: &[Entry] = &[
    tensor("blk.{}.laurel_l", "model.layers.{}.laurel.linear_left"),
    tensor("blk.{}.laurel_r", "model.layers.{}.laurel.linear_right"),
    tensor("blk.{}.laurel_post_norm", "model.layers.{}.laurel.post_laurel_norm"),
];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let logit_softcap = s.optional_positive("final_logit_softcapping", "")?.map(|cap| cap as f32);
    let c = Decoder { embed_scale: (c.width as f32).sqrt(), logit_softcap, ..c };
    let heads = Heads::read(s, c.width)?;
    let attention = attention_layers(s, masks(s, c.layers, 5)?.into_iter().map(|mask| (mask, heads, false)).collect())?;
    let act = s.activation("gelu_pytorch_tanh")?;
    let feed_forward = FeedForward { inner: inner_widths(s, c.layers)?, sparsity: sparsity(s, c.layers)?, act };
    let rank = s.size("laurel_rank", "")?;
    let altup = AltUp::read(s, c)?;
    let per_layer = PerLayer::read(s, act)?;
    let x = g.embed("token_embd", c.width, c.embed_scale);
    let extra = per_layer.embed(g, x, &c);
    let streams = altup.start(g, x);
    let mut caches = vec![];
    let streams = g.layers(c.layers, streams, |g, i, streams| {
        let predicted = altup.predict(g, streams);
        let x = altup.active(g, predicted);
        let h = c.norm(g, x, "attn_norm");
        let beside = laurel(g, h, rank, &c);
        let y = attention[i].attention(g, h, &mut caches, c.eps);
        let y = c.norm(g, y, "post_attention_norm");
        let x = g.add(x, y);
        let x = g.add(x, beside);
        let x = g.scale(x, std::f32::consts::FRAC_1_SQRT_2);
        let x = c.residual(g, x, "ffn_norm", |g, x| {
            let y = feed_forward.build(g, i, x);
            c.norm(g, y, "post_ffw_norm")
        });
        let corrected = altup.correct(g, predicted, x);
        let Some(extra) = extra else { return corrected };
        let x = altup.scaled(g, corrected);
        let y = per_layer.part(g, i, x, extra, &c);
        altup.add_to_others(g, corrected, y)
    });
    let streams = g.select(streams);
    let x = altup.end(g, streams);
    let x = c.norm(g, x, c.output_norm);
    Ok(c.logits(g, x))
}

/// `x + norm(right(left(x)))`.
fn laurel(g: &mut Graph<'_>, x: Value, rank: usize, c: &Decoder) -> Value {
    let y = g.linear(x, "laurel_l", rank);
    let y = g.linear(y, "laurel_r", c.width);
    let y = c.norm(g, y, "laurel_post_norm");
    g.add(x, y)
}

/// Gated feed-forward layers.
struct FeedForward {
    /// By layer.
    inner: Vec<usize>,
    /// By layer, by how many standard deviations a gate must be above their mean to count.
    sparsity: Vec<Option<f32>>,
    act: Function,
}

impl FeedForward {
    fn build(&self, g: &mut Graph<'_>, layer: usize, x: Value) -> Value {
        let inner = self.inner[layer];
        let Some(deviations) = self.sparsity[layer] else { return g.gated_ffn(x, inner, self.act) };
        let gate = g.linear(x, "ffn_gate", inner);
        let gate = above(g, gate, deviations);
        let up = g.linear(x, "ffn_up", inner);
        let h = g.glu(gate, up, self.act);
        g.linear(h, "ffn_down", g.width(x))
    }
}

/// By how much each number is above the mean of all and so many standard deviations; else 0.
fn above(g: &mut Graph<'_>, x: Value, deviations: f32) -> Value {
    let mean = mean(g, x, -1.0);
    let x = g.add(x, mean);
    let squares = g.mul(x, x);
    let deviation = self::mean(g, squares, 1.0);
    let deviation = g.apply(deviation, Function::SignedSqrt);
    let cutoff = g.scale(deviation, -deviations);
    let x = g.add(x, cutoff);
    g.apply(x, Function::Relu)
}

/// The mean of a row, times `by`.
fn mean(g: &mut Graph<'_>, x: Value, by: f32) -> Value {
    let width = g.width(x);
    let sum = g.sum(x, 1, width);
    g.scale(sum, by / width as f32)
}

/// Widths of the feed-forward layers: one for all, or a list.
fn inner_widths(s: &Settings<'_>, layers: usize) -> Result<Vec<usize>> {
    const KEY: &str = "intermediate_size";
    if !s.json(KEY).is_some_and(|v| v.is_array()) {
        return Ok(vec![s.size(KEY, "")?; layers]);
    }
    let one = |n: &serde_json::Value| n.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| (1..=1 << 20).contains(n));
    let list = s.per_layer(KEY, layers)?.unwrap_or_default();
    list.into_iter().map(|n| one(n).ok_or_else(|| s.wrong(KEY, "", format!("has {n}; from 1 to {} are allowed", 1 << 20)))).collect()
}

/// By layer, how many standard deviations leave the part of a normal distribution below them that should be zero.
fn sparsity(s: &Settings<'_>, layers: usize) -> Result<Vec<Option<f32>>> {
    const KEY: &str = "activation_sparsity_pattern";
    let Some(parts) = s.per_layer(KEY, layers)? else {
        return Ok((0..layers).map(|i| (layers > 10 && i < 10).then(|| deviations(0.95))).collect());
    };
    let one = |part: &serde_json::Value| match part.as_f64() {
        Some(part) if part <= 0.0 => Ok(None),
        Some(part) if part < 1.0 => Ok(Some(deviations(part))),
        _ => Err(s.wrong(KEY, "", format!("has {part}; numbers below 1 are allowed"))),
    };
    parts.into_iter().map(one).collect()
}

/// The number below which a standard normal variable lies with probability `p`, between 0 and 1.
fn deviations(p: f64) -> f32 {
    // Phi(x) = 1/2 + phi(x) (x + x^3 / 3 + x^5 / (3 5) + ...), inverted by bisection.
    let below = |x: f64| {
        let (mut term, mut sum) = (x, x);
        for n in 1..300 {
            term *= x * x / f64::from(2 * n + 1);
            sum += term;
        }
        0.5 + sum * (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
    };
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if below(middle) < p { low = middle } else { high = middle }
    }
    low as f32
}

#[cfg(test)]
mod tests {
    use super::deviations;

    /// Values from Python's `statistics.NormalDist().inv_cdf`.
    #[test]
    fn quantiles() {
        for (p, x) in [(0.5, 0.0), (0.95, 1.6448536269514715), (0.01, -2.3263478740408416), (0.999, 3.090232306167813)] {
            assert!((f64::from(deviations(p)) - x).abs() < 1e-6, "{p}: {}", deviations(p));
        }
    }
}
