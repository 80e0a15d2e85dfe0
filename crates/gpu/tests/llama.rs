//! A whole llama with random weights of mixed types, kernel after kernel, against the same in f64.

#![allow(clippy::unwrap_used)] // helpers outside of #[test] functions

mod common;

use common::{Gpu, Random, random_rows, rounded};
use half::f16;
use onebit_gpu::{Form, pack};
use onebit_quants::{self as quants, WeightType};
use rdna::Checks;

const WIDTH: usize = 256;
const INNER: usize = 512;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const HEAD: usize = 64;
const VOCABULARY: usize = 200;
const LAYERS: usize = 2;
const PAGE: usize = 16;
const MOST_PAGES: usize = 2;
const EPS: f32 = 1e-5;
const SILU: u32 = 0;
const ADD_COLUMNS: u32 = 2;
/// Norms are weighted and rounded in the same pass.
const NORM: u32 = 1 | 4;

/// A matrix on the device and its values.
struct Matrix {
    object: &'static str,
    at: u64,
    values: Vec<f32>,
    rows: usize,
    width: usize,
}

struct Layer {
    norms: [(u64, Vec<f32>); 2],
    /// q, k, v, output, gate, up, down.
    matrices: [Matrix; 7],
    caches: [u64; 2],
}

struct Llama {
    gpu: Gpu,
    embedding: Matrix,
    head: Matrix,
    last_norm: (u64, Vec<f32>),
    layers: Vec<Layer>,
    frequencies: (u64, Vec<f32>),
    pages: u64,
}

impl Matrix {
    /// Random weights of a type, made small enough that a layer changes its input by about as much as it is.
    fn new(gpu: &mut Gpu, ty: WeightType, rows: usize, width: usize, r: &mut Random) -> Self {
        let x: Vec<f32> = r.numbers(rows * width).iter().map(|v| v * 3.0 / (width as f32).sqrt()).collect();
        let mut bytes = vec![0; ty.row_bytes(width).unwrap() * rows];
        for (row, x) in bytes.chunks_mut(ty.row_bytes(width).unwrap()).zip(x.chunks(width)) {
            if ty.encode(x, None, row).is_none() {
                row.copy_from_slice(&random_rows(ty, 1, width, r).0);
            }
        }
        let mut values = vec![0.0; rows * width];
        let row_bytes = ty.row_bytes(width).unwrap();
        values.chunks_mut(width).zip(bytes.chunks(row_bytes)).for_each(|(values, row)| ty.decode(row, values));
        let at = gpu.upload(&pack(ty, &bytes, rows, width).unwrap().bytes);
        Self { object: Form::of(ty).unwrap().object, at, values, rows, width }
    }

    /// The product with a column, in f64.
    fn times(&self, x: &[f32]) -> Vec<f64> {
        self.values.chunks(self.width).map(|w| w.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum()).collect()
    }
}

impl Llama {
    fn new(checks: Checks) -> Self {
        let (mut gpu, mut r) = (Gpu::new(checks), Random(2024));
        let norm = |gpu: &mut Gpu, r: &mut Random| {
            let weights: Vec<f32> = r.numbers(WIDTH).iter().map(|v| 1.0 + v * 0.2).collect();
            (gpu.floats(&weights), weights)
        };
        let kv = KV_HEADS * HEAD;
        let shapes =
            [(HEADS * HEAD, WIDTH), (kv, WIDTH), (kv, WIDTH), (WIDTH, HEADS * HEAD), (INNER, WIDTH), (INNER, WIDTH), (WIDTH, INNER)];
        let types = [
            [quants::Q4_K, quants::Q6_K, quants::Q5_K, quants::Q4_0, quants::IQ4_XS, quants::Q3_K, quants::Q8_0],
            [quants::Q8_0, quants::IQ4_NL, quants::Q5_1, quants::Q4_K, quants::Q6_K, quants::Q4_1, quants::Q5_0],
        ];
        let layers = (0..LAYERS)
            .map(|l| Layer {
                norms: [norm(&mut gpu, &mut r), norm(&mut gpu, &mut r)],
                matrices: std::array::from_fn(|i| Matrix::new(&mut gpu, types[l][i], shapes[i].0, shapes[i].1, &mut r)),
                caches: [0, 1].map(|_| gpu.room(2 * MOST_PAGES * PAGE * kv)),
            })
            .collect();
        let frequencies: Vec<f32> = (0..HEAD / 2).map(|i| 10_000f32.powf(-2.0 * i as f32 / HEAD as f32)).collect();
        Self {
            embedding: Matrix::new(&mut gpu, quants::Q8_0, VOCABULARY, WIDTH, &mut r),
            head: Matrix::new(&mut gpu, quants::Q6_K, VOCABULARY, WIDTH, &mut r),
            last_norm: norm(&mut gpu, &mut r),
            layers,
            frequencies: (gpu.floats(&frequencies), frequencies),
            // In the wrong order, as an allocator might have it.
            pages: gpu.words(&[1, 0]),
            gpu,
        }
    }

    /// Appends up to eight tokens whose ids are in memory; gives the logits of all, and where the most likely ids are.
    fn step(&mut self, ids: u64, start: usize, count: usize) -> (Vec<f32>, u64) {
        let Self { gpu, embedding, head, last_norm, layers, frequencies, pages } = self;
        let (n, kv) = (count as u32, KV_HEADS * HEAD);
        let positions: Vec<u32> = (start..start + count).map(|p| p as u32).collect();
        let seen: Vec<u32> = positions.iter().flat_map(|p| [0, p + 1]).collect();
        let (positions, seen, spans) = (gpu.words(&positions), gpu.words(&seen), gpu.words(&vec![0; count]));
        let room = |gpu: &mut Gpu, numbers: usize| gpu.room(4 * numbers * count);
        let x = room(gpu, WIDTH);
        let normed = room(gpu, WIDTH.max(INNER));
        let (codes, steps) = (room(gpu, INNER), room(gpu, INNER));
        let [q, k, v, attended, gate, up] = [HEADS * HEAD, kv, kv, HEADS * HEAD, INNER, INNER].map(|width| room(gpu, width));
        let partial = room(gpu, HEADS * (HEAD + 2));
        let kernel = format!("matvec_{}", count.next_power_of_two());
        let product = |gpu: &mut Gpu, m: &Matrix, y: u64, flags: u32| {
            let grid = [m.rows.div_ceil(8) as u32, 1, 1];
            gpu.launch(m.object, &kernel, grid, &[m.at, codes, steps, y, y], &[m.rows as u32, m.width as u32, n, flags]);
        };
        let norm = |gpu: &mut Gpu, weights: u64| {
            let numbers = [WIDTH as u32, 1, EPS.to_bits(), NORM];
            gpu.launch("norm", "norm", [n, 1, 1], &[x, weights, weights, normed, codes, steps], &numbers);
        };
        let round = |gpu: &mut Gpu, from: u64, width: usize| {
            let numbers = width as u32 * n;
            gpu.launch("norm", "round_columns", [numbers.div_ceil(1024), 1, 1], &[from, codes, steps], &[numbers]);
        };
        gpu.launch(embedding.object, "embed", [n, 1, 1], &[embedding.at, ids, x], &[VOCABULARY as u32, WIDTH as u32]);
        for layer in layers {
            let [wq, wk, wv, output, w_gate, w_up, down] = &layer.matrices;
            norm(gpu, layer.norms[0].0);
            for (m, y) in [(wq, q), (wk, k), (wv, v)] {
                product(gpu, m, y, 0);
            }
            for (y, width) in [(q, HEADS * HEAD), (k, kv)] {
                let numbers = [width as u32, HEAD as u32, HEAD as u32 / 2, 0, 1f32.to_bits()];
                gpu.launch("rope", "rope", [n, 1, 1], &[y, positions, frequencies.0, y], &numbers);
            }
            for (y, cache) in [(k, layer.caches[0]), (v, layer.caches[1])] {
                let numbers = [KV_HEADS, HEAD, PAGE, MOST_PAGES].map(|n| n as u32);
                gpu.launch("rope", "append", [n, 1, 1], &[y, positions, spans, *pages, cache], &numbers);
            }
            let numbers = [HEADS, KV_HEADS, HEAD, HEAD, PAGE, MOST_PAGES, 1, 0].map(|n| n as u32);
            let numbers = [&numbers[..], &[(1.0 / (HEAD as f32).sqrt()).to_bits(), 0]].concat();
            let pointers = [q, layer.caches[0], layer.caches[1], seen, spans, *pages, partial];
            gpu.launch("attention", "attention_64", [n, KV_HEADS as u32, 1], &pointers, &numbers);
            gpu.launch("attention", "join", [n, HEADS as u32, 1], &[partial, seen, seen, attended], &[HEADS as u32, HEAD as u32, 1, 0]);
            round(gpu, attended, HEADS * HEAD);
            product(gpu, output, x, ADD_COLUMNS);
            norm(gpu, layer.norms[1].0);
            product(gpu, w_gate, gate, 0);
            product(gpu, w_up, up, 0);
            let numbers = INNER as u32 * n;
            gpu.launch("elementwise", "gated", [numbers.div_ceil(256), 1, 1], &[gate, up, normed], &[numbers, SILU]);
            round(gpu, normed, INNER);
            product(gpu, down, x, ADD_COLUMNS);
        }
        norm(gpu, last_norm.0);
        let (logits, best) = (gpu.room(4 * VOCABULARY * count), gpu.room(4 * count));
        product(gpu, head, logits, 0);
        gpu.launch("elementwise", "largest", [n, 1, 1], &[logits, best], &[VOCABULARY as u32]);
        (gpu.read_floats(logits, VOCABULARY * count), best)
    }

    /// The logits of each token in f64, with columns rounded to int8 and keys and values to f16 where the kernels do.
    fn expected(&self, tokens: &[u32]) -> Vec<f64> {
        let narrow = |x: &[f64]| x.iter().map(|v| *v as f32).collect::<Vec<f32>>();
        let column = |x: &[f64]| rounded(&narrow(x)).2;
        let norm = |x: &[f64], weights: &[f32]| {
            let scale = 1.0 / (x.iter().map(|v| v * v).sum::<f64>() / WIDTH as f64 + f64::from(EPS)).sqrt();
            x.iter().zip(weights).map(|(v, w)| v * scale * f64::from(*w)).collect::<Vec<f64>>()
        };
        let mut caches = vec![(vec![], vec![]); LAYERS];
        let mut logits = vec![];
        for (position, token) in tokens.iter().enumerate() {
            let row = &self.embedding.values[*token as usize * WIDTH..][..WIDTH];
            let mut x: Vec<f64> = row.iter().map(|v| f64::from(*v)).collect();
            for (layer, (keys, values)) in self.layers.iter().zip(&mut caches) {
                let [wq, wk, wv, output, gate, up, down] = &layer.matrices;
                let h = column(&norm(&x, &layer.norms[0].1));
                let turned = |mut y: Vec<f64>| {
                    for head in y.chunks_mut(HEAD) {
                        for (i, frequency) in self.frequencies.1.iter().enumerate() {
                            let (sine, cosine) = f64::from(position as f32 * frequency).sin_cos();
                            let (a, b) = (head[i], head[i + HEAD / 2]);
                            (head[i], head[i + HEAD / 2]) = (a * cosine - b * sine, a * sine + b * cosine);
                        }
                    }
                    y
                };
                let half = |y: Vec<f64>| y.iter().map(|v| f64::from(f16::from_f64(*v).to_f32())).collect::<Vec<f64>>();
                let q = turned(wq.times(&h));
                keys.push(half(turned(wk.times(&h))));
                values.push(half(wv.times(&h)));
                let mut attended = vec![];
                for (head, q) in q.chunks(HEAD).enumerate() {
                    let at = head / (HEADS / KV_HEADS) * HEAD;
                    let score =
                        |key: &Vec<f64>| (key[at..at + HEAD].iter().zip(q).map(|(k, q)| k * q).sum::<f64>() / (HEAD as f64).sqrt()).exp();
                    let weights: Vec<f64> = keys.iter().map(score).collect();
                    let total: f64 = weights.iter().sum();
                    attended.extend((at..at + HEAD).map(|d| weights.iter().zip(&*values).map(|(w, v)| w * v[d]).sum::<f64>() / total));
                }
                x.iter_mut().zip(output.times(&column(&attended))).for_each(|(x, y)| *x += y);
                let h = column(&norm(&x, &layer.norms[1].1));
                let inner: Vec<f64> = gate.times(&h).iter().zip(up.times(&h)).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
                x.iter_mut().zip(down.times(&column(&inner))).for_each(|(x, y)| *x += y);
            }
            logits.extend(self.head.times(&column(&norm(&x, &self.last_norm.1))));
        }
        logits
    }
}

const PROMPT: [u32; 20] = [5, 17, 199, 0, 42, 42, 7, 91, 3, 150, 151, 8, 64, 65, 66, 120, 2, 77, 31, 9];

/// In chunks of eight, across a page; then the same in chunks of one and three: the same bits.
#[test]
fn prompts_and_steps_give_the_logits_of_f64() {
    let mut model = Llama::new(Checks::NONE);
    let mut feed = |chunk: usize| {
        let ids = model.gpu.words(&PROMPT);
        let mut logits = vec![];
        for start in (0..PROMPT.len()).step_by(chunk) {
            logits.extend(model.step(ids + 4 * start as u64, start, chunk.min(PROMPT.len() - start)).0);
        }
        logits
    };
    let got = feed(8);
    assert_eq!(feed(1), got);
    assert_eq!(feed(3), got);
    let want = model.expected(&PROMPT);
    let mean = want.iter().sum::<f64>() / want.len() as f64;
    let deviation = (want.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / want.len() as f64).sqrt();
    let off: Vec<f64> = got.iter().zip(&want).map(|(g, w)| (f64::from(*g) - w).abs() / deviation).collect();
    let typical = (off.iter().map(|d| d * d).sum::<f64>() / off.len() as f64).sqrt();
    // Sums in f32 move a few numbers to the next code, which is worth about 1/254 of a block's largest.
    assert!(typical < 4e-3 && off.iter().all(|d| *d < 3e-2), "typical {typical}, worst {}", off.iter().copied().fold(0.0, f64::max));
}

/// The device goes on by itself: the id that `largest` wrote is the next step's token. With all checks.
#[test]
fn greedy_tokens_stay_on_the_device() {
    let mut model = Llama::new(Checks::ALL);
    let mut ids = model.gpu.words(&PROMPT[..4]);
    let (mut tokens, mut count) = (PROMPT[..4].to_vec(), 4);
    for _ in 0..3 {
        let (logits, best) = model.step(ids, tokens.len() - count, count);
        let last = &logits[VOCABULARY * (count - 1)..];
        let next = (0..VOCABULARY).rev().max_by(|a, b| last[*a].total_cmp(&last[*b])).unwrap() as u32;
        (ids, count) = (best + 4 * (count as u64 - 1), 1);
        assert_eq!(model.gpu.device.read_words(ids, 1).unwrap(), [next]);
        tokens.push(next);
    }
    // And they are those of f64, unless two logits are nearly equal.
    let want = model.expected(&tokens);
    for (i, token) in tokens.iter().enumerate().skip(4) {
        let logits = &want[VOCABULARY * (i - 1)..VOCABULARY * i];
        let best = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        assert!(best - logits[*token as usize] < 0.05, "token {i}");
    }
}
