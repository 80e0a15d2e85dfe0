//! Attention with all kinds of caches: split over keys for few tokens, by tiles for prompts, against a softmax in f64.

#![allow(clippy::unwrap_used)] // helpers outside of #[test] functions

mod common;

use common::{Gpu, Random, assert_near, rounded, stored};

const JOINED: u32 = 1;
const ROUNDED: u32 = 2;
const SINKS: u32 = 4;
const SLOPES: u32 = 8;

/// A layer with sequences in pages.
#[derive(Clone)]
struct Layer {
    kind: &'static str,
    heads: usize,
    kv_heads: usize,
    key: usize,
    value: usize,
    softcap: f32,
    flags: u32,
    page: usize,
    /// For each query its sequence, its place, and the positions that it sees.
    queries: Vec<(usize, usize, [usize; 2])>,
    /// Tokens of the sequences.
    lengths: Vec<usize>,
}

/// What stands in memory.
struct Made {
    gpu: Gpu,
    q: Vec<f32>,
    caches: [u64; 2],
    pages: u64,
    most_pages: usize,
    sinks: Vec<f32>,
    slopes: Vec<f32>,
    /// By query and head.
    want: Vec<f64>,
}

impl Layer {
    /// Caches with random keys and values, pages in no order, and what attention over them gives.
    fn make(&self) -> Made {
        let (mut gpu, mut r) = (Gpu::checked(), Random(12 + self.key as u64 + self.heads as u64));
        let most_pages = self.lengths.iter().max().unwrap().div_ceil(self.page);
        let count = self.lengths.len() * most_pages;
        let mut pages: Vec<u32> = (0..count as u32).collect();
        for i in (1..pages.len()).rev() {
            pages.swap(i, r.word() as usize % (i + 1));
        }
        let (mut caches, mut kept) = ([0; 2], [vec![], vec![]]);
        for (which, width) in [self.key, self.value].into_iter().enumerate() {
            let (code_bytes, scale_bytes, _) = stored(self.kind, &vec![0.0; width]);
            let (code_bytes, scale_bytes) = (code_bytes.len(), scale_bytes.len());
            let of_page = self.page * (code_bytes + scale_bytes);
            let mut bytes = vec![0; count * self.kv_heads * of_page];
            for (sequence, length) in self.lengths.iter().enumerate() {
                let mut all = vec![];
                for t in 0..*length {
                    for h in 0..self.kv_heads {
                        let x = r.numbers(width);
                        let (codes, scales, values) = stored(self.kind, &x);
                        let page = pages[sequence * most_pages + t / self.page] as usize;
                        let start = (page * self.kv_heads + h) * of_page;
                        let token = t % self.page;
                        bytes[start + token * code_bytes..][..code_bytes].copy_from_slice(&codes);
                        bytes[start + self.page * code_bytes + token * scale_bytes..][..scale_bytes].copy_from_slice(&scales);
                        all.extend(values);
                    }
                }
                kept[which].push(all);
            }
            caches[which] = gpu.upload(&bytes);
        }
        let q: Vec<f32> = r.numbers(self.queries.len() * self.heads * self.key).iter().map(|v| v * 4.0).collect();
        let (sinks, slopes) = (r.numbers(self.heads), r.numbers(self.heads).iter().map(|v| v.abs() * 0.3).collect::<Vec<f32>>());
        let pages_at = gpu.words(&pages);
        let mut made = Made { gpu, q, caches, pages: pages_at, most_pages, sinks, slopes, want: vec![] };
        for (t, (sequence, place, [first, end])) in self.queries.iter().enumerate() {
            for h in 0..self.heads {
                let q = &made.q[(t * self.heads + h) * self.key..][..self.key];
                let kv_head = h / (self.heads / self.kv_heads);
                let number =
                    |which: usize, at: usize, width: usize| &kept[which][*sequence][(at * self.kv_heads + kv_head) * width..][..width];
                let score = |at: usize| {
                    let dot: f64 = number(0, at, self.key).iter().zip(q).map(|(k, q)| f64::from(*k) * f64::from(*q)).sum();
                    let (dot, c) = (dot * f64::from(self.scale()), f64::from(self.softcap));
                    let dot = if c == 0.0 { dot } else { c * (dot / c).tanh() };
                    dot - if self.flags & SLOPES != 0 { f64::from(made.slopes[h]) * at.abs_diff(*place) as f64 } else { 0.0 }
                };
                let weights: Vec<f64> = (*first..*end).map(|at| score(at).exp()).collect();
                let total = weights.iter().sum::<f64>() + if self.flags & SINKS != 0 { f64::from(made.sinks[h]).exp() } else { 0.0 };
                let mut sum = vec![0.0; self.value];
                for (at, weight) in (*first..*end).zip(weights) {
                    sum.iter_mut().zip(number(1, at, self.value)).for_each(|(s, v)| *s += weight / total * f64::from(*v));
                }
                made.want.extend(sum);
            }
        }
        made
    }

    fn scale(&self) -> f32 {
        1.0 / (self.key as f32).sqrt()
    }

    fn size(&self) -> usize {
        self.key.max(self.value).next_power_of_two().max(64)
    }

    /// Split over keys, joined by whoever is last, rounded.
    fn decode(&self, what: &str) {
        let mut m = self.make();
        let gpu = &mut m.gpu;
        let seen: Vec<u32> = self.queries.iter().flat_map(|(_, _, seen)| seen.map(|at| at as u32)).collect();
        let spans: Vec<u32> = self.queries.iter().flat_map(|(sequence, place, _)| [*sequence as u32, *place as u32]).collect();
        let splits = self.queries.iter().map(|(_, _, [first, end])| (end - first).div_ceil(512)).max().unwrap();
        let partial = gpu.room(4 * self.queries.len() * self.heads * splits * (self.value + 2));
        let count = self.queries.len() * self.heads * self.value;
        let (out, codes, steps) = (gpu.room(4 * count), gpu.room(count), gpu.room(count / 4));
        let group = self.heads / self.kv_heads;
        let counters = vec![0; self.queries.len() * self.kv_heads * group.div_ceil(8)];
        let counters_at = gpu.words(&counters);
        let pointers = [
            gpu.floats(&m.q),
            m.caches[0],
            m.caches[1],
            gpu.words(&seen),
            gpu.words(&spans),
            m.pages,
            partial,
            gpu.floats(&m.sinks),
            gpu.floats(&m.slopes),
            out,
            codes,
            steps,
            counters_at,
        ];
        let rounds = if self.value.is_multiple_of(32) { ROUNDED } else { 0 };
        for first_head in (0..group).step_by(8) {
            let numbers = [self.heads, self.kv_heads, self.key, self.value, self.page, m.most_pages, splits, first_head].map(|n| n as u32);
            let numbers = [&numbers[..], &[self.flags | JOINED | rounds, self.scale().to_bits(), self.softcap.to_bits()]].concat();
            let grid = [self.queries.len() as u32, self.kv_heads as u32, splits as u32];
            gpu.launch("attention", &format!("decode_{}_{}", self.kind, self.size()), grid, &pointers, &numbers);
        }
        let got = gpu.read_floats(out, count);
        // Numbers of q8 and q4 are products in f16.
        assert_near(what, &got, &m.want, |_| if self.kind == "f16" { 3e-6 } else { 2e-3 });
        assert_eq!(gpu.device.read_words(counters_at, counters.len()).unwrap(), counters);
        if rounds != 0 {
            let (c, s, _) = rounded(&got);
            assert_eq!((gpu.read(codes, count), gpu.read(steps, count / 4)), (c, s), "{what}");
        }
    }

    /// Sixteen heads at a time over shared keys.
    fn latent(&self, what: &str) {
        let mut m = self.make();
        let gpu = &mut m.gpu;
        let seen: Vec<u32> = self.queries.iter().flat_map(|(_, _, seen)| seen.map(|at| at as u32)).collect();
        let spans: Vec<u32> = self.queries.iter().flat_map(|(sequence, place, _)| [*sequence as u32, *place as u32]).collect();
        let splits = self.queries.iter().map(|(_, _, [first, end])| (end - first).div_ceil(512)).max().unwrap();
        let partial = gpu.room(4 * self.queries.len() * self.heads * splits * (self.value + 2));
        let count = self.queries.len() * self.heads * self.value;
        let (out, codes, steps) = (gpu.room(4 * count), gpu.room(count), gpu.room(count / 4));
        let groups = self.heads.div_ceil(16);
        let counters = gpu.words(&vec![0; self.queries.len() * groups]);
        let pointers = [
            gpu.floats(&m.q),
            m.caches[0],
            m.caches[1],
            gpu.words(&seen),
            gpu.words(&spans),
            m.pages,
            partial,
            gpu.floats(&m.sinks),
            out,
            codes,
            steps,
            counters,
        ];
        let numbers = [self.heads, self.key, self.value, self.page, m.most_pages, splits].map(|n| n as u32);
        let numbers = [&numbers[..], &[self.flags | JOINED | ROUNDED, self.scale().to_bits(), self.softcap.to_bits()]].concat();
        let grid = [self.queries.len() as u32, groups as u32, splits as u32];
        gpu.launch("attention", &format!("latent_{}", self.kind), grid, &pointers, &numbers);
        let got = gpu.read_floats(out, count);
        assert_near(what, &got, &m.want, |_| 3e-3);
        let (c, s, _) = rounded(&got);
        assert_eq!((gpu.read(codes, count), gpu.read(steps, count / 4)), (c, s), "{what}");
    }

    /// By tiles; the queries of a sequence are neighbours.
    fn prompt(&self, what: &str) {
        let mut m = self.make();
        let gpu = &mut m.gpu;
        let seen: Vec<u32> = self.queries.iter().flat_map(|(_, _, seen)| seen.map(|at| at as u32)).collect();
        let spans: Vec<u32> = self.queries.iter().flat_map(|(sequence, place, _)| [*sequence as u32, *place as u32]).collect();
        let mut blocks: Vec<[u32; 2]> = vec![];
        for (t, (sequence, ..)) in self.queries.iter().enumerate() {
            match blocks.last_mut() {
                Some([first, count]) if self.queries[*first as usize].0 == *sequence && *count < 64 => *count += 1,
                _ => blocks.push([t as u32, 1]),
            }
        }
        let count = self.queries.len() * self.heads * self.value;
        let out = gpu.room(4 * count);
        let pointers = [
            gpu.floats(&m.q),
            m.caches[0],
            m.caches[1],
            gpu.words(&seen),
            gpu.words(&spans),
            m.pages,
            gpu.words(blocks.as_flattened()),
            gpu.floats(&m.sinks),
            gpu.floats(&m.slopes),
            out,
        ];
        let numbers = [self.heads, self.kv_heads, self.key, self.value, self.page, m.most_pages].map(|n| n as u32);
        let numbers = [&numbers[..], &[self.flags, self.scale().to_bits(), self.softcap.to_bits()]].concat();
        let grid = [blocks.len() as u32, self.heads as u32, 1];
        gpu.launch("prompt", &format!("prompt_{}_{}", self.kind, self.size()), grid, &pointers, &numbers);
        // Queries and weights are f16: 2^-11 of a score of up to about 4, and of each weight.
        assert_near(what, &gpu.read_floats(out, count), &m.want, |_| 3e-3);
    }
}

fn base(kind: &'static str) -> Layer {
    let queries = (0..5).map(|t| (1, t + 15, [0, t + 16])).chain([(0, 44, [0, 45]), (0, 0, [0, 1]), (0, 39, [13, 40])]).collect();
    Layer { kind, heads: 4, kv_heads: 2, key: 64, value: 64, softcap: 0.0, flags: 0, page: 16, queries, lengths: vec![45, 20] }
}

#[test]
fn few_tokens_over_all_kinds_of_caches() {
    base("f16").decode("f16");
    Layer { heads: 3, kv_heads: 3, key: 96, value: 80, softcap: 5.0, flags: SLOPES, ..base("f16") }
        .decode("values of another width, biases");
    Layer { flags: SINKS, ..base("q8") }.decode("q8, sinks");
    Layer { heads: 12, kv_heads: 1, key: 128, value: 96, ..base("q8") }.decode("q8, twelve heads with one of keys");
    Layer { heads: 2, kv_heads: 1, key: 256, value: 256, ..base("q4") }.decode("q4, wide heads");
    Layer { heads: 8, kv_heads: 8, softcap: 3.0, flags: SINKS | SLOPES, ..base("q4") }.decode("q4, all at once");
}

#[test]
fn parts_of_keys_are_joined() {
    let queries = vec![(0, 1099, [0, 1100]), (0, 512, [0, 513]), (0, 1099, [600, 1100]), (0, 511, [0, 512])];
    Layer { heads: 4, kv_heads: 1, flags: SINKS, queries: queries.clone(), lengths: vec![1100], ..base("f16") }.decode("three parts");
    Layer { heads: 2, kv_heads: 1, queries, lengths: vec![1100], ..base("q4") }.decode("three parts of q4");
}

/// Latent attention as its up-projections are absorbed: all heads share keys and values.
#[test]
fn many_heads_with_one_of_keys() {
    let queries = vec![(0, 699, [0, 700]), (1, 19, [0, 20]), (0, 40, [11, 41]), (0, 511, [0, 512])];
    let wide = Layer { heads: 20, kv_heads: 1, key: 576, value: 512, page: 64, queries, lengths: vec![700, 20], ..base("f16") };
    wide.latent("f16, DeepSeek's widths");
    Layer { heads: 16, key: 192, value: 160, kind: "q8", flags: SINKS, ..wide }.latent("q8, other widths");
}

/// A prompt of a sequence behind what is in the cache, then one of another.
fn prompt(kind: &'static str, window: usize) -> Layer {
    let seen = |place: usize| [(place + 1).saturating_sub(window), place + 1];
    let queries = (10..97).map(|p| (0, p, seen(p))).chain((0..21).map(|p| (1, p, seen(p)))).collect();
    Layer { queries, lengths: vec![97, 21], ..base(kind) }
}

#[test]
fn prompts_by_tiles() {
    prompt("f16", 1000).prompt("causal");
    Layer { heads: 2, kv_heads: 1, key: 128, value: 128, ..prompt("f16", 19) }.prompt("a window");
    Layer { heads: 2, kv_heads: 2, key: 96, value: 80, softcap: 5.0, flags: SINKS, ..prompt("f16", 1000) }
        .prompt("other widths, sinks, bounded scores");
    Layer { heads: 1, kv_heads: 1, key: 256, value: 256, page: 64, ..prompt("f16", 40) }.prompt("wide heads");
    Layer { heads: 1, kv_heads: 1, key: 192, value: 128, flags: SLOPES, ..prompt("f16", 1000) }.prompt("keys wider than values, biases");
}

#[test]
fn prompts_over_small_caches() {
    prompt("q8", 1000).prompt("q8");
    Layer { heads: 2, kv_heads: 1, key: 128, value: 128, flags: SINKS, ..prompt("q8", 33) }.prompt("q8, sinks");
    Layer { heads: 2, kv_heads: 1, key: 128, value: 96, ..prompt("q4", 1000) }.prompt("q4");
    Layer { heads: 1, kv_heads: 1, key: 256, value: 256, page: 32, ..prompt("q4", 1000) }.prompt("q4, wide heads");
}

/// All see all: an image, an encoder.
#[test]
fn prompts_that_see_ahead() {
    let queries = (0..70).map(|p| (0, p, [0, 70])).collect();
    Layer { queries, lengths: vec![70], ..base("f16") }.prompt("not causal");
}
