//! Per-layer embeddings of hashed n-grams as Qwen4 has them: each head has a prime number of the table's rows, and the hashes'
//! multipliers follow from a seed. Reference: transformers' `models/qwen4_exp` (`NGramEmbedding`, `PLELayer`).

use super::hyper::Streams;
use crate::{Result, settings::Settings};
use onebit_formats::Meta;
use onebit_plan::{Function, Graph, Value, ops::NgramHead};

/// The n-gram layers.
#[derive(Clone, Debug)]
pub(super) struct Ngrams {
    /// Layers that have such an embedding, ascending.
    layers: Vec<usize>,
    /// The hashes of each of them.
    hashes: Vec<Hashes>,
    /// Tokens of the longest n-gram.
    size: usize,
    /// Numbers of all heads together.
    width: usize,
    kernel: usize,
    boundary: u32,
}

/// Which rows of its table a layer reads.
#[derive(Clone, Debug)]
struct Hashes {
    /// Rows of the table.
    rows: usize,
    heads: Vec<NgramHead>,
    /// A factor for each token of an n-gram.
    multipliers: Vec<u64>,
}

impl Ngrams {
    /// `width` is the model's; `linear` tells which layers have no attention.
    pub(super) fn read(s: &Settings<'_>, width: usize, linear: &[bool], vocabulary: usize) -> Result<Option<Self>> {
        let Some(layers) = listed_layers(s, linear)? else { return Ok(None) };
        let size = s.size_to("ngram_size", "ple.ngram_size", 64)?;
        let per_length = s.size_to("heads_per_ngram", "ple.heads_per_ngram", 1 << 10)?;
        let count = size.saturating_sub(1) * per_length;
        let embed = match s.is_gguf() {
            true => s.size("", HEAD_WIDTH)?.saturating_mul(count),
            false => s.size_or("ple_embed_dim", "", width)?,
        };
        if size < 2 || !embed.is_multiple_of(count) {
            let what = format!("is {embed}, which does not divide by {per_length} heads for n-grams of 2 to {size}");
            return Err(s.wrong("ple_embed_dim", HEAD_WIDTH, what));
        }
        s.note(HEAD_WIDTH, Meta::Unsigned((embed / count) as u64));
        let hashes = match s.is_gguf() {
            true => vec![gguf_hashes(s, size, per_length)?],
            false => {
                let seeded = Seeded::read(s, size, per_length)?;
                (0..layers.len()).map(|index| seeded.hashes(index, vocabulary)).collect()
            }
        };
        note_hashes(s, &layers, &hashes);
        let kernel = s.size("ple_conv_kernel_size", "ple.conv_kernel")?;
        Ok(Some(Self { layers, hashes, size, width: embed, kernel, boundary: boundary(s)? }))
    }

    /// The streams with what layer `layer` adds to them, if it has such an embedding: values that each stream gates by how its key fits,
    /// and their convolution.
    pub(super) fn add(&self, g: &mut Graph<'_>, layer: usize, x: Value, streams: &Streams) -> Value {
        let Some(index) = self.layers.iter().position(|l| *l == layer) else { return x };
        let Streams { count, width, .. } = *streams;
        let Hashes { rows, heads, multipliers } = self.hashes[index].clone();
        let shape = [rows, self.width / heads.len()];
        let ngrams = g.ngram_embed("ngram_embd", shape, heads, multipliers, self.boundary);
        let key = g.linear(ngrams, "ple_key", count * width);
        let key = streams.norm(g, key, "ple_norm_key");
        let query = streams.norm(g, x, "ple_norm_query");
        let products = g.mul(key, query);
        let fit = g.sum(products, count, width);
        let fit = g.scale(fit, 1.0 / (width as f32).sqrt());
        let fit = g.apply(fit, Function::SignedSqrt);
        let gate = g.apply(fit, Function::Sigmoid);
        let value = g.linear(ngrams, "ple_value", width);
        let value = g.repeat(value, 1, count);
        let value = g.mul(value, gate);
        let near = streams.norm(g, value, "ple_norm_conv");
        let near = g.dilated_conv(near, "ple_conv1d", (self.kernel, self.size), Some(Function::Silu));
        let x = g.add(x, value);
        g.add(x, near)
    }
}

/// What the hashes follow from.
struct Seeded {
    size: usize,
    /// Heads for each length.
    heads: usize,
    /// Rows of a head are a prime number from here on.
    base: usize,
    /// A table's rows are a multiple of this.
    multiple: usize,
    seed: u64,
}

impl Seeded {
    fn read(s: &Settings<'_>, size: usize, heads: usize) -> Result<Self> {
        Ok(Self {
            size,
            heads,
            base: s.size_to("ngram_vocab_size_base", "", 1 << 32)?,
            multiple: s.size("make_ngram_vocab_size_divisible_by", "")?,
            seed: s.json("seed").and_then(serde_json::Value::as_u64).ok_or_else(|| s.wrong("seed", "", "should be a whole number"))?,
        })
    }

    fn hashes(&self, index: usize, vocabulary: usize) -> Hashes {
        let heads = self.table(index);
        let rows = heads.last().map_or(0, |h| h.first + h.size).next_multiple_of(self.multiple as u64) as usize;
        Hashes { rows, heads, multipliers: self.multipliers(index, vocabulary) }
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

/// Numbers of one head in GGUF files, which hold the hashes of one layer as they are.
const HEAD_WIDTH: &str = "embedding_length_per_layer_input";
const MULTIPLIERS: &str = "ple.layer_multipliers";
const FIRST_ROWS: &str = "ple.head_offsets";
const ROWS: &str = "ple.head_vocab_sizes";
const LAYERS: &str = "ple.layers";
const TABLE: &str = "per_layer_token_embd.weight";

/// The hashes in GGUF metadata.
fn gguf_hashes(s: &Settings<'_>, size: usize, per_length: usize) -> Result<Hashes> {
    let list = |key: &str, least: usize| {
        let list: Option<Vec<u64>> = s.integers(key).and_then(|list| list.iter().map(|n| u64::try_from(*n).ok()).collect());
        let missing = || s.wrong("", key, format!("should be a list of {least} or more whole numbers"));
        list.filter(|list| list.len() >= least).ok_or_else(missing)
    };
    let count = (size - 1) * per_length;
    let (first, rows) = (list(FIRST_ROWS, count)?, list(ROWS, count)?);
    let head = |i: usize| NgramHead { tokens: 2 + i / per_length, size: rows[i], first: first[i] };
    let table = s.checkpoint.tensor(TABLE).map_or(0, |t| t.rows());
    Ok(Hashes { rows: table, heads: (0..count).map(head).collect(), multipliers: list(MULTIPLIERS, size)?[..size].to_vec() })
}

/// Notes the hashes as GGUF files have them.
fn note_hashes(s: &Settings<'_>, layers: &[usize], hashes: &[Hashes]) {
    s.hf_only(layers.len() > 1, "several of its layers have embeddings of n-grams, where GGUF files of `qwen4exp` have one");
    s.note(LAYERS, Meta::Integers(layers.iter().map(|layer| *layer as i64).collect()));
    if let Some(Hashes { heads, multipliers, .. }) = hashes.first() {
        s.note_wide(MULTIPLIERS, multipliers.clone());
        s.note_wide(FIRST_ROWS, heads.iter().map(|head| head.first).collect());
        s.note_wide(ROWS, heads.iter().map(|head| head.size).collect());
    }
}

/// The layers that `ple_layer_ids` lists, which counts from 1; GGUF files count from 0.
fn listed_layers(s: &Settings<'_>, linear: &[bool]) -> Result<Option<Vec<usize>>> {
    const KEYS: (&str, &str) = ("ple_layer_ids", LAYERS);
    let layers: Option<Vec<usize>> = if s.is_gguf() {
        let Some(list) = s.gguf_value(KEYS.1) else { return Ok(None) };
        match list {
            Meta::Integers(list) if list.len() <= 1 => list.iter().map(|n| usize::try_from(*n).ok()).collect(),
            _ => return Err(s.wrong("", KEYS.1, "should be a list of one layer")),
        }
    } else {
        let Some(list) = s.json(KEYS.0) else { return Ok(None) };
        let one = |id: &serde_json::Value| id.as_u64().and_then(|id| usize::try_from(id).ok()?.checked_sub(1));
        list.as_array().and_then(|list| list.iter().map(one).collect())
    };
    let Some(mut layers) = layers else { return Err(s.wrong(KEYS.0, KEYS.1, "should be a list of layers, counted from 1")) };
    layers.sort_unstable();
    layers.dedup();
    match layers.iter().find(|l| linear.get(**l) != Some(&true)) {
        Some(layer) => Err(s.wrong(KEYS.0, KEYS.1, format!("has layer {layer} (counted from 0), which is not one of linear attention"))),
        None => Ok(Some(layers).filter(|l| !l.is_empty())),
    }
}

/// The token that ends a text.
fn boundary(s: &Settings<'_>) -> Result<u32> {
    const KEYS: (&str, &str) = ("eos_token_id", "ple.eos_token_id");
    let id = match s.is_gguf() {
        true => s.count_or("", KEYS.1, usize::MAX).ok().map(|id| id as u64),
        false => {
            let id = s.json(KEYS.0).and_then(|id| id.as_array().map_or(Some(id), |list| list.first()));
            id.and_then(serde_json::Value::as_u64)
        }
    };
    let what = "should be a token, or a list of tokens: n-grams do not reach beyond the end of a text";
    let id = id.and_then(|id| u32::try_from(id).ok()).ok_or_else(|| s.wrong(KEYS.0, KEYS.1, what))?;
    s.note(KEYS.1, Meta::Unsigned(u64::from(id)));
    Ok(id)
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
        let it = Seeded { size: 3, heads: 2, base: 200, multiple: 8, seed: 1234 };
        let found: Vec<_> = it.table(0).iter().map(|h| (h.tokens, h.size, h.first)).collect();
        assert_eq!(found, [(2, 211, 0), (2, 223, 211), (3, 227, 434), (3, 229, 661)]);
        assert_eq!(it.multipliers(0, 256), [4295158889762567, 35454616657218897, 19285316470915801]);
    }
}
