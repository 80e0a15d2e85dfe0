//! Per-layer embeddings of hashed n-grams as Qwen4 has them: each head has a prime number of the table's rows, and the hashes'
//! multipliers follow from a seed. Reference: transformers' `models/qwen4_exp` (`NGramEmbedding`, `PLELayer`).

use super::hyper::Streams;
use crate::{Result, settings::Settings};
use onebit_plan::{Function, Graph, Value, ops::NgramHead};

/// The n-gram layers.
#[derive(Clone, Debug)]
pub(super) struct Ngrams {
    /// Layers that have such an embedding, ascending.
    layers: Vec<usize>,
    /// Tokens of the longest n-gram.
    size: usize,
    /// Heads for each length.
    heads: usize,
    /// Rows of a head are a prime number from here on.
    base: usize,
    /// The table's rows are a multiple of this.
    multiple: usize,
    /// Numbers of all heads together.
    width: usize,
    kernel: usize,
    seed: u64,
    boundary: u32,
}

impl Ngrams {
    /// `width` is the model's; `linear` tells which layers have no attention.
    pub(super) fn read(s: &Settings<'_>, width: usize, linear: &[bool]) -> Result<Option<Self>> {
        let Some(layers) = listed_layers(s, linear)? else { return Ok(None) };
        let size = s.size_to("ngram_size", "", 64)?;
        let heads = s.size_to("heads_per_ngram", "", 1 << 10)?;
        let embed = s.size_or("ple_embed_dim", "", width)?;
        if size < 2 || !embed.is_multiple_of((size - 1) * heads) {
            return Err(s.wrong(
                "ple_embed_dim",
                "",
                format!("is {embed}, which does not divide by {heads} heads for n-grams of 2 to {size}"),
            ));
        }
        Ok(Some(Self {
            layers,
            size,
            heads,
            base: s.size_to("ngram_vocab_size_base", "", 1 << 32)?,
            multiple: s.size("make_ngram_vocab_size_divisible_by", "")?,
            width: embed,
            kernel: s.size("ple_conv_kernel_size", "")?,
            seed: s.json("seed").and_then(serde_json::Value::as_u64).ok_or_else(|| s.wrong("seed", "", "should be a whole number"))?,
            boundary: boundary(s)?,
        }))
    }

    /// The streams with what layer `layer` adds to them, if it has such an embedding: values that each stream gates by how its key fits,
    /// and their convolution.
    pub(super) fn add(&self, g: &mut Graph<'_>, layer: usize, x: Value, streams: &Streams) -> Value {
        let Some(index) = self.layers.iter().position(|l| *l == layer) else { return x };
        let Streams { count, width, .. } = *streams;
        let heads = self.table(index);
        let rows = heads.last().map_or(0, |h| h.first + h.size).next_multiple_of(self.multiple as u64) as usize;
        let multipliers = self.multipliers(index, g.vocabulary());
        let shape = [rows, self.width / heads.len()];
        let ngrams = g.ngram_embed("ngram_embd", shape, heads, multipliers, self.boundary);
        let key = g.linear(ngrams, "ngram_k", count * width);
        let key = streams.norm(g, key, "ngram_k_norm");
        let query = streams.norm(g, x, "ngram_q_norm");
        let products = g.mul(key, query);
        let fit = g.sum(products, count, width);
        let fit = g.scale(fit, 1.0 / (width as f32).sqrt());
        let fit = g.apply(fit, Function::SignedSqrt);
        let gate = g.apply(fit, Function::Sigmoid);
        let value = g.linear(ngrams, "ngram_v", width);
        let value = g.repeat(value, 1, count);
        let value = g.mul(value, gate);
        let near = streams.norm(g, value, "ngram_conv_norm");
        let near = g.dilated_conv(near, "ngram_conv", (self.kernel, self.size), Some(Function::Silu));
        let x = g.add(x, value);
        g.add(x, near)
    }

    /// The heads of table `index`: rows in primes that no head of a table before it has.
    fn table(&self, index: usize) -> Vec<NgramHead> {
        let count = (self.size - 1) * self.heads;
        let primes = (self.base as u64..).filter(|n| is_prime(*n)).skip(index * count).take(count);
        let mut first = 0;
        let head = |(i, size): (usize, u64)| {
            first += size;
            NgramHead { tokens: 2 + i / self.heads, size, first: first - size }
        };
        primes.enumerate().map(head).collect()
    }

    /// An odd factor for each token, small enough for its product with any token to fit 63 bits.
    fn multipliers(&self, index: usize, vocabulary: usize) -> Vec<u64> {
        let bound = (i64::MAX as u64 / vocabulary.max(1) as u64 / 2).max(1);
        let seed = self.seed.wrapping_add(10_007 * index as u64);
        let state = |i: usize| seed.wrapping_add(GOLDEN.wrapping_mul(i as u64 + 1));
        (0..self.size).map(|i| 2 * (split_mix(state(i)) % bound) + 1).collect()
    }
}

/// The layers that `ple_layer_ids` lists, which counts from 1.
fn listed_layers(s: &Settings<'_>, linear: &[bool]) -> Result<Option<Vec<usize>>> {
    const KEY: &str = "ple_layer_ids";
    let Some(list) = s.json(KEY) else { return Ok(None) };
    let one = |id: &serde_json::Value| id.as_u64().and_then(|id| usize::try_from(id).ok()?.checked_sub(1));
    let layers: Option<Vec<usize>> = list.as_array().and_then(|list| list.iter().map(one).collect());
    let Some(mut layers) = layers else { return Err(s.wrong(KEY, "", "should be a list of layers, counted from 1")) };
    layers.sort_unstable();
    layers.dedup();
    match layers.iter().find(|l| linear.get(**l) != Some(&true)) {
        Some(layer) => Err(s.wrong(KEY, "", format!("has {}, which is not a layer of linear attention", layer + 1))),
        None => Ok(Some(layers).filter(|l| !l.is_empty())),
    }
}

/// The token that ends a text.
fn boundary(s: &Settings<'_>) -> Result<u32> {
    const KEY: &str = "eos_token_id";
    let id = s.json(KEY).and_then(|id| id.as_array().map_or(Some(id), |list| list.first()));
    let id = id.and_then(serde_json::Value::as_u64).and_then(|id| u32::try_from(id).ok());
    id.ok_or_else(|| s.wrong(KEY, "", "should be a token, or a list of tokens: n-grams do not reach beyond the end of a text"))
}

fn is_prime(n: u64) -> bool {
    n == 2 || n > 2 && !n.is_multiple_of(2) && (3..=n.isqrt()).step_by(2).all(|d| !n.is_multiple_of(d))
}

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The output of SplitMix64 (Steele et al. 2014, "Fast splittable pseudorandom number generators") after `state`.
fn split_mix(state: u64) -> u64 {
    let z = state.wrapping_add(GOLDEN);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that transformers' `Qwen4ExpTextNGramEmbedding` holds for these settings.
    #[test]
    fn primes_and_multipliers() {
        let it = Ngrams { layers: vec![1], size: 3, heads: 2, base: 200, multiple: 8, width: 64, kernel: 4, seed: 1234, boundary: 2 };
        let found: Vec<_> = it.table(0).iter().map(|h| (h.tokens, h.size, h.first)).collect();
        assert_eq!(found, [(2, 211, 0), (2, 223, 211), (3, 227, 434), (3, 229, 661)]);
        assert_eq!(it.multipliers(0, 256), [4295158889762567, 35454616657218897, 19285316470915801]);
    }
}
