//! Norms, functions, rotations, caches and attention against plain loops in f64.

#![allow(clippy::unwrap_used)] // helpers outside of #[test] functions

mod common;

use common::{Gpu, Random, assert_near, rounded};
use half::f16;

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|v| f64::from(*v)).collect()
}

/// Flags of `norm`.
const WEIGHTED: u32 = 1;
const OWN: u32 = 2;
const ROUNDED: u32 = 4;
const CENTRED: u32 = 8;
const BIASED: u32 = 16;

#[test]
fn norms_with_and_without_weights_mean_and_rounding() {
    for (width, per_row, flags) in [
        (576, 1, WEIGHTED),
        (64, 3, 0),
        (96, 2, WEIGHTED | OWN | ROUNDED),
        (2048, 1, WEIGHTED | ROUNDED),
        (100, 1, CENTRED | WEIGHTED | BIASED),
        (1056, 1, CENTRED | WEIGHTED | BIASED | ROUNDED),
        (7, 1, 0),
    ] {
        let (rows, mut gpu, mut r) = (3, Gpu::checked(), Random(width as u64));
        let x: Vec<f32> = r.numbers(rows * per_row * width).iter().map(|v| v * 10.0 + 1.0).collect();
        let weights = r.numbers(width * if flags & OWN != 0 { per_row } else { 1 });
        let bias = r.numbers(weights.len());
        let (count, eps) = (x.len(), 1e-5f32);
        let pointers =
            [gpu.floats(&x), gpu.floats(&weights), gpu.floats(&bias), gpu.room(4 * count), gpu.room(count + 32), gpu.room(count / 4 + 8)];
        gpu.launch("norm", "norm", [(rows * per_row) as u32, 1, 1], &pointers, &[width as u32, per_row as u32, eps.to_bits(), flags]);
        let y = gpu.read_floats(pointers[3], count);
        let mut want = vec![];
        for (run, x) in x.chunks(width).enumerate() {
            let mean = if flags & CENTRED != 0 { wide(x).iter().sum::<f64>() / width as f64 } else { 0.0 };
            let square = wide(x).iter().map(|v| (v - mean).powi(2)).sum::<f64>() / width as f64;
            let own = if flags & OWN != 0 { run % per_row * width } else { 0 };
            for (i, v) in wide(x).iter().enumerate() {
                let weight = if flags & WEIGHTED != 0 { f64::from(weights[own + i]) } else { 1.0 };
                let bias = if flags & BIASED != 0 { f64::from(bias[own + i]) } else { 0.0 };
                want.push((v - mean) / (square + f64::from(eps)).sqrt() * weight + bias);
            }
        }
        assert_near(&format!("norm of {width}, flags {flags}"), &y, &want, |i| 2e-6 * want[i].abs() + 1e-6);
        if flags & ROUNDED != 0 {
            let (codes, steps, _) = rounded(&y);
            assert_eq!((gpu.read(pointers[4], count), gpu.read(pointers[5], count / 4)), (codes, steps), "width {width}");
        }
    }
}

#[test]
fn columns_are_rounded_as_on_the_cpu() {
    let (mut gpu, mut r) = (Gpu::checked(), Random(4));
    let mut x = r.numbers(32 * 50);
    x[32..64].fill(0.0);
    x[64..96].iter_mut().for_each(|v| *v *= 1e-33);
    x[100] = 1e30;
    x[130] = -3.0e38;
    let (codes, steps, _) = rounded(&x);
    let pointers = [gpu.floats(&x), gpu.room(x.len()), gpu.room(x.len() / 4)];
    gpu.launch("norm", "round_columns", [2, 1, 1], &pointers, &[x.len() as u32]);
    assert_eq!(gpu.read(pointers[1], x.len()), codes);
    assert_eq!(gpu.read(pointers[2], x.len() / 4), steps);
    // A block with a number that is not finite has NaN as its scale, and no other block has.
    for strange in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut x = r.numbers(96);
        x[40] = strange;
        let from = gpu.floats(&x);
        gpu.launch("norm", "round_columns", [1, 1, 1], &[from, pointers[1], pointers[2]], &[96]);
        let scales = gpu.read_floats(pointers[2], 6);
        assert!(scales[2].is_nan() && scales[0].is_finite() && scales[4].is_finite(), "{strange}: {scales:?}");
    }
}

/// In the order of `Function` in crates/plan, as its documentation has them.
const FUNCTIONS: [(&str, fn(f64) -> f64); 11] = [
    ("silu", |x| x / (1.0 + (-x).exp())),
    ("gelu", |x| 0.5 * x * (1.0 + error_function(x / 2f64.sqrt()))),
    ("gelu_tanh", |x| 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())),
    ("quick_gelu", |x| x / (1.0 + (-1.702 * x).exp())),
    ("relu", |x| x.max(0.0)),
    ("relu_squared", |x| x.max(0.0).powi(2)),
    ("sigmoid", |x| 1.0 / (1.0 + (-x).exp())),
    ("softplus", |x| if x > 20.0 { x } else { x.exp().ln_1p() }),
    ("tanh", f64::tanh),
    ("exp", f64::exp),
    ("signed_sqrt", |x| if x == 0.0 { 0.0 } else { x.signum() * x.abs().max(1e-6).sqrt() }),
];

/// The error function: near 0 by its series, further out by the continued fraction of its complement (Abramowitz and Stegun, 7.1.14).
fn error_function(x: f64) -> f64 {
    let a = x.abs();
    if a > 2.0 {
        let fraction = (1..=80).rev().fold(a, |f, n| a + f64::from(n) / 2.0 / f);
        return x.signum() * (1.0 - (-a * a).exp() / std::f64::consts::PI.sqrt() / fraction);
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..60 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

#[test]
fn functions_and_gates() {
    let (mut gpu, mut r) = (Gpu::checked(), Random(8));
    let mut x: Vec<f32> = (0..800).map(|i| (i as f32 - 400.0) / 23.0).collect();
    x.extend([0.0, -0.0, 1e-8, -1e-8, 0.1, 30.0, -60.0, 80.0]);
    let up = r.numbers(x.len());
    let (x_at, up_at, y) = (gpu.floats(&x), gpu.floats(&up), gpu.room(4 * x.len()));
    let grid = [(x.len() as u32).div_ceil(256), 1, 1];
    for (number, (name, function)) in FUNCTIONS.into_iter().enumerate() {
        gpu.launch("elementwise", "function", grid, &[x_at, y], &[x.len() as u32, number as u32]);
        let want: Vec<f64> = x.iter().map(|v| function(f64::from(*v))).collect();
        let got = gpu.read_floats(y, x.len());
        // 2^x of a rounded product loses as many places as the product has before the point.
        let bound = |i: usize| want[i].abs() * (2e-6 + 1.5e-7 * f64::from(x[i].abs())) + 1e-6 * f64::from(x[i].abs()).max(0.3);
        assert_near(name, &got, &want, bound);
        gpu.launch("elementwise", "gated", grid, &[x_at, up_at, y], &[x.len() as u32, number as u32]);
        let want: Vec<f64> = got.iter().zip(&up).map(|(f, u)| f64::from(f * u)).collect();
        assert_near(&format!("{name} as a gate"), &gpu.read_floats(y, x.len()), &want, |_| 0.0);
    }
}

#[test]
fn sums_products_scales_and_chosen_rows() {
    let (mut gpu, mut r) = (Gpu::checked(), Random(9));
    let (a, b) = (r.numbers(3 * 320), r.numbers(3 * 320));
    let (a_at, b_at, y) = (gpu.floats(&a), gpu.floats(&b), gpu.room(4 * a.len()));
    for (b_width, what) in [(320, 0), (320, 1), (10, 0), (1, 1)] {
        gpu.launch("elementwise", "binary", [4, 1, 1], &[a_at, b_at, y], &[960, 320, b_width, what]);
        let other = |i: usize| b[i / 320 * b_width as usize + i % 320 / (320 / b_width as usize)];
        let want: Vec<f32> = (0..960).map(|i| if what == 0 { a[i] + other(i) } else { a[i] * other(i) }).collect();
        assert_eq!(gpu.read_floats(y, 960), want);
    }
    gpu.launch("elementwise", "scale", [4, 1, 1], &[a_at, y], &[960, 0.3f32.to_bits()]);
    assert_eq!(gpu.read_floats(y, 960), a.iter().map(|v| v * 0.3).collect::<Vec<f32>>());
    let numbers = gpu.words(&[2, 0]);
    gpu.launch("elementwise", "rows", [2, 1, 1], &[a_at, numbers, y], &[320]);
    assert_eq!(gpu.read_floats(y, 640), [&a[640..], &a[..320]].concat());
}

#[test]
fn the_largest_of_a_row_is_the_first_of_several() {
    let (mut gpu, mut r) = (Gpu::checked(), Random(10));
    let width = 1003;
    let mut x = r.numbers(4 * width);
    (x[700], x[699], x[10]) = (5.0, 5.0, 4.0);
    (x[width + 1002], x[2 * width]) = (3.0, 3.0);
    x[3 * width..].fill(f32::NEG_INFINITY);
    let (from, out) = (gpu.floats(&x), gpu.room(16));
    gpu.launch("elementwise", "largest", [4, 1, 1], &[from, out], &[width as u32]);
    assert_eq!(gpu.device.read_words(out, 4).unwrap(), [699, 1002, 0, 0]);
}

#[test]
fn rotations_of_halves_and_pairs() {
    let (mut gpu, mut r) = (Gpu::checked(), Random(11));
    let positions = [0u32, 1, 77, 8191, 131_071];
    for (head, pairs, neighbours) in [(64, 32, 0), (64, 32, 1), (128, 32, 0), (96, 24, 1)] {
        let width = 2 * head;
        let x = r.numbers(positions.len() * width);
        let frequencies: Vec<f32> = (0..pairs).map(|i| 10_000f32.powf(-(i as f32) / pairs as f32)).collect();
        let pointers = [gpu.floats(&x), gpu.words(&positions), gpu.floats(&frequencies), gpu.room(4 * x.len())];
        let numbers = [width as u32, head as u32, pairs as u32, neighbours, 1.25f32.to_bits()];
        gpu.launch("rope", "rope", [5, 1, 1], &pointers, &numbers);
        let mut want = wide(&x);
        for (t, row) in want.chunks_mut(width).enumerate() {
            for head in row.chunks_mut(head) {
                for (i, frequency) in frequencies.iter().enumerate() {
                    let (a, b) = if neighbours == 1 { (2 * i, 2 * i + 1) } else { (i, i + pairs) };
                    let (sine, cosine) = f64::from(positions[t] as f32 * frequency).sin_cos();
                    (head[a], head[b]) = ((head[a] * cosine - head[b] * sine) * 1.25, (head[a] * sine + head[b] * cosine) * 1.25);
                }
            }
        }
        assert_near(&format!("heads of {head}"), &gpu.read_floats(pointers[3], x.len()), &want, |_| 2e-6);
        // In place.
        gpu.launch("rope", "rope", [5, 1, 1], &[pointers[0], pointers[1], pointers[2], pointers[0]], &numbers);
        assert_near("in place", &gpu.read_floats(pointers[0], x.len()), &want, |_| 2e-6);
    }
}

#[test]
fn positions_as_sines_and_cosines() {
    let mut gpu = Gpu::checked();
    let (positions, offset) = ([0u32, 1, 77, 8191], 2);
    let frequencies: Vec<f32> = (0..48).map(|i| 10_000f32.powf(-(i as f32) / 47.0)).collect();
    let pointers = [gpu.words(&positions), gpu.floats(&frequencies), gpu.room(4 * positions.len() * 96)];
    gpu.launch("rope", "sinusoid", [4, 1, 1], &pointers, &[48, offset]);
    let angle = |p: u32, f: &f32| f64::from((p + offset) as f32 * f);
    let row = |p: u32| frequencies.iter().map(move |f| angle(p, f).sin()).chain(frequencies.iter().map(move |f| angle(p, f).cos()));
    let want: Vec<f64> = positions.iter().flat_map(|p| row(*p)).collect();
    assert_near("sines and cosines", &gpu.read_floats(pointers[2], want.len()), &want, |_| 2e-6);
}

/// An attention layer with sequences in pages.
struct Layer {
    heads: usize,
    kv_heads: usize,
    key: usize,
    value: usize,
    softcap: f32,
    sinks: bool,
    /// For each query its sequence and the positions that it sees.
    queries: Vec<(usize, [usize; 2])>,
    /// Tokens of the sequences.
    lengths: Vec<usize>,
}

const PAGE: usize = 16;

impl Layer {
    /// Runs append and attention, and compares with a softmax in f64.
    fn check(&self, what: &str) {
        let (mut gpu, mut r) = (Gpu::checked(), Random(12 + self.key as u64));
        let most_pages = self.lengths.iter().max().unwrap().div_ceil(PAGE);
        // Pages lie in no order.
        let mut pages: Vec<u32> = (0..(self.lengths.len() * most_pages) as u32).collect();
        for i in (1..pages.len()).rev() {
            pages.swap(i, r.word() as usize % (i + 1));
        }
        let pages_at = gpu.words(&pages);
        let (mut caches, mut stored) = ([0; 2], [vec![], vec![]]);
        for (which, head) in [self.key, self.value].into_iter().enumerate() {
            let width = self.kv_heads * head;
            caches[which] = gpu.room(2 * pages.len() * PAGE * width);
            for (sequence, length) in self.lengths.iter().enumerate() {
                let x = r.numbers(length * width);
                let positions: Vec<u32> = (0..*length as u32).collect();
                let pointers = [gpu.floats(&x), gpu.words(&positions), gpu.words(&vec![sequence as u32; *length]), pages_at, caches[which]];
                gpu.launch(
                    "rope",
                    "append",
                    [*length as u32, 1, 1],
                    &pointers,
                    &[self.kv_heads as u32, head as u32, PAGE as u32, most_pages as u32],
                );
                stored[which].push(x.iter().map(|v| f64::from(f16::from_f32(*v).to_f32())).collect::<Vec<f64>>());
            }
        }
        let q: Vec<f32> = r.numbers(self.queries.len() * self.heads * self.key).iter().map(|v| v * 4.0).collect();
        let sinks = r.numbers(self.heads);
        let seen: Vec<u32> = self.queries.iter().flat_map(|(_, seen)| seen.map(|at| at as u32)).collect();
        let spans: Vec<u32> = self.queries.iter().map(|(sequence, _)| *sequence as u32).collect();
        let splits = self.queries.iter().map(|(_, [first, end])| (end - first).div_ceil(512)).max().unwrap();
        let scale = 1.0 / (self.key as f32).sqrt();
        let (q_at, seen_at, spans_at) = (gpu.floats(&q), gpu.words(&seen), gpu.words(&spans));
        let partial = gpu.room(4 * self.queries.len() * self.heads * splits * (self.value + 2));
        let kernel = format!("attention_{}", self.key.max(self.value).next_power_of_two().max(64));
        let group = self.heads / self.kv_heads;
        for first_head in (0..group).step_by(8) {
            let numbers = [self.heads, self.kv_heads, self.key, self.value, PAGE, most_pages, splits, first_head].map(|n| n as u32);
            let numbers = [&numbers[..], &[scale.to_bits(), self.softcap.to_bits()]].concat();
            let grid = [self.queries.len() as u32, self.kv_heads as u32, splits as u32];
            gpu.launch("attention", &kernel, grid, &[q_at, caches[0], caches[1], seen_at, spans_at, pages_at, partial], &numbers);
        }
        let out = gpu.room(4 * self.queries.len() * self.heads * self.value);
        let pointers = [partial, seen_at, gpu.floats(&sinks), out];
        let numbers = [self.heads as u32, self.value as u32, splits as u32, u32::from(self.sinks)];
        gpu.launch("attention", "join", [self.queries.len() as u32, self.heads as u32, 1], &pointers, &numbers);
        let mut want = vec![];
        for (t, (sequence, [first, end])) in self.queries.iter().enumerate() {
            for h in 0..self.heads {
                let q = wide(&q[(t * self.heads + h) * self.key..][..self.key]);
                let kv = |which: usize, at: usize, head: usize| {
                    let at = (at * self.kv_heads + h / group) * head;
                    stored[which][*sequence][at..at + head].to_vec()
                };
                let score = |at: usize| {
                    let dot: f64 = kv(0, at, self.key).iter().zip(&q).map(|(k, q)| k * q).sum::<f64>() * f64::from(scale);
                    let c = f64::from(self.softcap);
                    if c == 0.0 { dot } else { c * (dot / c).tanh() }
                };
                let scores: Vec<f64> = (*first..*end).map(score).collect();
                let total = scores.iter().map(|s| s.exp()).sum::<f64>() + if self.sinks { f64::from(sinks[h]).exp() } else { 0.0 };
                let mut sum = vec![0.0; self.value];
                for (at, score) in (*first..*end).zip(scores) {
                    sum.iter_mut().zip(kv(1, at, self.value)).for_each(|(s, v)| *s += score.exp() / total * v);
                }
                want.extend(sum);
            }
        }
        assert_near(what, &gpu.read_floats(out, want.len()), &want, |_| 3e-6);
    }
}

#[test]
fn attention_over_pages() {
    let base = Layer { heads: 4, kv_heads: 2, key: 64, value: 64, softcap: 0.0, sinks: false, queries: vec![], lengths: vec![45, 20] };
    let prompt: Vec<_> = (0..5).map(|t| (1, [0, t + 16])).chain([(0, [0, 45]), (0, [0, 1]), (0, [13, 40])]).collect();
    Layer { queries: prompt.clone(), ..base }.check("two sequences, causal and windows");
    let base =
        || Layer { heads: 4, kv_heads: 2, key: 64, value: 64, softcap: 0.0, sinks: false, queries: prompt.clone(), lengths: vec![45, 20] };
    Layer { heads: 12, kv_heads: 1, key: 128, value: 128, ..base() }.check("twelve heads with one of keys");
    Layer { heads: 3, kv_heads: 3, key: 96, value: 80, softcap: 5.0, ..base() }.check("values of another width, bounded scores");
    Layer { heads: 4, kv_heads: 4, key: 256, value: 256, sinks: true, ..base() }.check("sinks, wide heads");
    Layer { heads: 8, kv_heads: 1, key: 16, value: 32, ..base() }.check("small heads");
}

#[test]
fn attention_over_more_keys_than_one_part() {
    let queries = vec![(0, [0, 1100]), (0, [0, 513]), (0, [600, 1100]), (0, [0, 512])];
    Layer { heads: 4, kv_heads: 1, key: 64, value: 64, softcap: 0.0, sinks: true, queries, lengths: vec![1100] }.check("three parts");
}

/// Matrices of plain numbers: wide loads where rows allow them, and any width.
#[test]
fn products_with_plain_numbers() {
    for (name, bytes) in [("f32", 4), ("f16", 2), ("bf16", 2)] {
        for width in [512, 264, 100, 7] {
            let (mut gpu, mut r, rows) = (Gpu::new(rdna::Checks { alignment: false, ..rdna::Checks::ALL }), Random(width as u64), 6);
            let numbers = r.numbers(rows * width);
            let stored: Vec<Vec<u8>> = numbers
                .iter()
                .map(|v| match name {
                    "f32" => v.to_le_bytes().to_vec(),
                    "f16" => f16::from_f32(*v).to_le_bytes().to_vec(),
                    _ => half::bf16::from_f32(*v).to_le_bytes().to_vec(),
                })
                .collect();
            let value = |b: &Vec<u8>| match name {
                "f32" => f32::from_le_bytes([b[0], b[1], b[2], b[3]]),
                "f16" => f16::from_le_bytes([b[0], b[1]]).to_f32(),
                _ => half::bf16::from_le_bytes([b[0], b[1]]).to_f32(),
            };
            let values: Vec<f32> = stored.iter().map(value).collect();
            let weights = gpu.upload(&stored.concat());
            assert_eq!(stored.concat().len(), rows * width * bytes);
            let x = r.numbers(3 * width);
            let add = gpu.floats(&r.numbers(18));
            let (x_at, y) = (gpu.floats(&x), gpu.room(4 * 3 * rows));
            let launched = [rows as u32, width as u32, 3, 0];
            gpu.launch("floats", &format!("matvec_{name}_4"), [2, 1, 1], &[weights, x_at, add, y], &launched);
            let product =
                |c: usize, row: usize| (0..width).map(|k| f64::from(values[row * width + k]) * f64::from(x[c * width + k])).sum::<f64>();
            let want: Vec<f64> = (0..3).flat_map(|c| (0..rows).map(move |row| (c, row))).map(|(c, row)| product(c, row)).collect();
            let y = gpu.read_floats(y, 18);
            assert_near(&format!("{name}, width {width}"), &y, &want, |_| 2e-5);
            // One column gives the same bits.
            let one = gpu.room(4 * rows);
            gpu.launch("floats", &format!("matvec_{name}_1"), [2, 1, 1], &[weights, x_at, add, one], &[rows as u32, width as u32, 1, 0]);
            assert_eq!(gpu.read_floats(one, rows), y[..rows]);
            let (ids, rows_at) = (gpu.words(&[5, 1]), gpu.room(8 * width));
            gpu.launch("floats", &format!("embed_{name}"), [2, 1, 1], &[weights, ids, rows_at], &[rows as u32, width as u32]);
            assert_eq!(gpu.read_floats(rows_at, 2 * width), [&values[5 * width..6 * width], &values[width..2 * width]].concat());
        }
    }
}
