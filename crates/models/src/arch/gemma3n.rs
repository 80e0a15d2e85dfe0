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
    gemma4::{IGNORED, NORMS, PER_LAYER, PerLayer, inner_widths, logit_softcap},
    gemma4_attention::{Kind, attention_layers, masks},
};
use crate::{
    Result,
    names::{Entry, tensor},
    rope::RopeKeys,
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{Function, Graph, Mask, Value};

pub(crate) static GEMMA3N: Arch = Arch {
    hf: &["gemma3n_text", "gemma3n"],
    gguf: &["gemma3n"],
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
    let logit_softcap = logit_softcap(s)?;
    s.unread_by_llama_cpp(logit_softcap != Some(30.0), "its logits are not bounded by 30");
    let c = Decoder { embed_scale: (c.width as f32).sqrt(), logit_softcap, ..c };
    let heads = Heads::read(s, c.width)?;
    let masks = masks(s, c.layers, 5)?;
    let kinds: Vec<Kind> = masks.iter().map(|mask| Kind { mask: *mask, heads, values_are_keys: false }).collect();
    let attention = attention_layers(s, &kinds, RopeKeys::SLIDING, c.layers.saturating_sub(built_in::LAYERS_WITH_KEYS))?;
    let act = s.activation("gelu_pytorch_tanh")?;
    let feed_forward = FeedForward { inner: inner_widths(s, &vec![false; c.layers])?, sparsity: sparsity(s, c.layers)?, act };
    let rank = laurel_rank(s)?;
    let altup = AltUp::read(s, c)?;
    let per_layer = PerLayer::read(s, act)?;
    built_in::compare(s, &masks, rank, &altup, &per_layer, &feed_forward.sparsity)?;
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

/// By layer, how many standard deviations leave the part of a normal distribution below them that should be zero.
fn sparsity(s: &Settings<'_>, layers: usize) -> Result<Vec<Option<f32>>> {
    const KEYS: (&str, &str) = ("activation_sparsity_pattern", "activation_sparsity_scale");
    let usual = || (0..layers).map(|i| (layers > 10 && i < built_in::SPARSE_LAYERS).then(|| deviations(0.95))).collect();
    let stated: Vec<Option<f32>> = match (s.gguf_value(KEYS.1), s.per_layer(KEYS.0, layers)?) {
        (Some(Meta::Floats(list)), _) if list.len() >= layers && !list.iter().any(|x| x.is_nan() || *x == f32::INFINITY) => {
            list.iter().take(layers).map(|x| Some(*x).filter(|x| x.is_finite())).collect()
        }
        (Some(_), _) => return Err(s.wrong("", KEYS.1, format!("should be a number for each of {layers} layers"))),
        (None, None) => usual(),
        (None, Some(parts)) => {
            let one = |part: &serde_json::Value| match part.as_f64() {
                Some(part) if part <= 0.0 => Ok(None),
                Some(part) if part < 1.0 => Ok(Some(deviations(part))),
                _ => Err(s.wrong(KEYS.0, "", format!("has {part}; numbers below 1 are allowed"))),
            };
            parts.into_iter().map(one).collect::<Result<_>>()?
        }
    };
    s.note(KEYS.1, Meta::Floats(stated.iter().map(|x| x.unwrap_or(f32::NEG_INFINITY)).collect()));
    Ok(stated)
}

/// Numbers between the matrices of a path of low rank, which GGUF files do not state.
fn laurel_rank(s: &Settings<'_>) -> Result<usize> {
    match s.is_gguf() {
        true => Ok(s.checkpoint.tensor("blk.0.laurel_l.weight").map_or(built_in::LAUREL_RANK, |t| t.rows())),
        false => s.size("laurel_rank", ""),
    }
}

/// What llama.cpp does not read, but has built in.
mod built_in {
    use super::{AltUp, Mask, PerLayer, Result, Settings, deviations};

    /// Layers with keys and values of their own.
    pub(super) const LAYERS_WITH_KEYS: usize = 20;
    /// Layers at the start whose gates are mostly zero.
    pub(super) const SPARSE_LAYERS: usize = 10;
    pub(super) const LAUREL_RANK: usize = 64;
    const PERIOD: usize = 5;
    const PER_LAYER_WIDTH: usize = 256;

    /// Says where the model has something else.
    pub(super) fn compare(
        s: &Settings<'_>,
        masks: &[Mask],
        rank: usize,
        altup: &AltUp,
        per_layer: &PerLayer,
        sparsity: &[Option<f32>],
    ) -> Result<()> {
        let layers = masks.len();
        let shared = s.count_or("num_kv_shared_layers", "", 0)?;
        let sparse = |i: usize| (i < SPARSE_LAYERS).then(|| deviations(0.95));
        s.unread_by_llama_cpp(layers.saturating_sub(shared) != LAYERS_WITH_KEYS, "it has not 20 layers with keys and values of their own");
        s.unread_by_llama_cpp(
            (0..layers).any(|i| (masks[i] == Mask::Causal) != ((i + 1) % PERIOD == 0)),
            "not each fifth of its layers sees all",
        );
        s.unread_by_llama_cpp((0..layers).any(|i| sparsity[i] != sparse(i)), "its layers with sparse gates are not the first ten");
        s.unread_by_llama_cpp(rank != LAUREL_RANK, "the rank of its LAuReL paths is not 64");
        s.unread_by_llama_cpp(per_layer.width != PER_LAYER_WIDTH, "its embeddings of each layer have not 256 numbers");
        s.unread_by_llama_cpp(!altup.is_usual(), "its stream has not four parts of which layers compute the first");
        Ok(())
    }
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
