//! Mixtures of experts: the choice, one pass for a token and tiles for prompts, against the reference device.

#![allow(clippy::unwrap_used)] // helpers outside of #[test] functions

mod common;

use common::{Gpu, Random, assert_near, oracle, random_rows, rounded};
use onebit_gpu::{Form, pack};
use onebit_plan::{
    Function, Gating,
    ops::{ExpertsSpec, Groups, Route, Score, Weigh},
};
use onebit_quants as quants;

const NORMALIZED: u32 = 1;
const BIASED: u32 = 2;
const FACTORS: u32 = 4;

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|v| f64::from(*v)).collect()
}

/// How tokens are routed, and the numbers that the kernel is told.
struct Routing {
    experts: usize,
    route: Route,
    bias: bool,
    factors: bool,
}

impl Routing {
    fn numbers(&self) -> Vec<u32> {
        let r = &self.route;
        let (score, jitter) = match r.score {
            Score::Softmax => (0, 0.0),
            Score::Sigmoid => (1, 0.0),
            Score::SparseMixer { jitter } => (2, jitter),
        };
        let flags = u32::from(r.normalize) * NORMALIZED + u32::from(self.bias) * BIASED + u32::from(self.factors) * FACTORS;
        let groups = r.groups.map_or([0, 0, 0], |g| [g.count, g.chosen, g.best]);
        let numbers = [self.experts, r.top_k, score, flags as usize, groups[0], groups[1], groups[2], r.nothing].map(|n| n as u32);
        [&numbers[..], &[r.scale.to_bits(), jitter.to_bits()]].concat()
    }

    /// Runs the kernel, and compares with the reference: experts of one number in and out, expert e of which gives 1000^place... the
    /// weights of a token are told apart by asking one expert after the other.
    fn check(&self, what: &str) {
        let (mut gpu, mut r, tokens) = (Gpu::checked(), Random(self.experts as u64), 6);
        let Self { experts, .. } = *self;
        let logits: Vec<f32> = r.numbers(tokens * experts).iter().map(|v| v * 6.0).collect();
        let (bias, factors) = (r.numbers(experts), r.numbers(experts));
        let top_k = self.route.top_k;
        let (chosen, shares) = (gpu.room(4 * tokens * top_k), gpu.room(4 * tokens * top_k));
        let pointers = [gpu.floats(&logits), gpu.floats(&bias), gpu.floats(&factors), chosen, shares];
        gpu.launch("moe", "route", [tokens as u32, 1, 1], &pointers, &self.numbers());
        let (chosen, shares) = (gpu.device.read_words(chosen, tokens * top_k).unwrap(), gpu.read_floats(shares, tokens * top_k));
        // An expert that gives 1 in number e of its output alone: the output is the share of every expert.
        let with = experts - self.route.nothing;
        let gate = vec![1f32; with * experts];
        let mut down = vec![0f32; with * experts];
        (0..with).for_each(|e| down[e * experts + e] = 1.0);
        let rows: Vec<Vec<f32>> = logits.chunks(experts).map(|l| [l, &vec![1.0 / experts as f32; experts]].concat()).collect();
        let mut weights = vec![("ffn_gate_exps.weight", &gate[..]), ("ffn_up_exps.weight", &gate[..]), ("ffn_down_exps.weight", &down[..])];
        if self.bias {
            weights.push(("b", &bias));
        }
        if self.factors {
            weights.push(("f", &factors));
        }
        let out = oracle::op(&rows, experts, &weights, |g| {
            let (logits, x) = (g.given(0, experts), g.given(experts, experts));
            let bias = self.bias.then(|| g.weight("b", &[experts]));
            let factors = self.factors.then(|| g.weight("f", &[experts]));
            let route = g.route(logits, Route { bias, factors, ..self.route.clone() });
            let spec = ExpertsSpec { identities: self.route.nothing, ..ExpertsSpec::new(with, 1, Function::Relu) };
            g.experts(x, route, &spec)
        });
        let mut got = vec![0f32; tokens * experts];
        for (t, pair) in (0..tokens).flat_map(|t| (0..top_k).map(move |k| (t, t * top_k + k))) {
            got[t * experts + chosen[pair] as usize] += shares[pair];
        }
        for t in 0..tokens {
            let mut ids = chosen[t * top_k..(t + 1) * top_k].to_vec();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), top_k, "{what}: an expert was chosen twice");
        }
        assert_near(what, &got, &wide(&out), |i| 3e-6 * f64::from(out[i].abs()) + 1e-6);
    }
}

#[test]
fn experts_are_chosen() {
    let base = |experts, top_k, score| Routing { experts, route: Route::new(top_k, score), bias: false, factors: false };
    base(8, 2, Score::Softmax).check("softmax, 2 of 8");
    let mut r = base(128, 8, Score::Softmax);
    r.route.normalize = true;
    r.check("normalised, 8 of 128");
    let mut r = base(256, 8, Score::Sigmoid);
    (r.route.normalize, r.route.scale, r.bias) = (true, 2.5, true);
    r.route.groups = Some(Groups { count: 8, chosen: 4, best: 2 });
    r.check("sigmoid with a bias, groups by their two best");
    let mut r = base(160, 6, Score::Softmax);
    (r.route.scale, r.route.groups) = (16.0, Some(Groups { count: 8, chosen: 3, best: 1 }));
    r.check("softmax, groups by their best");
    let mut r = base(33, 4, Score::Softmax);
    (r.route.normalize, r.factors, r.route.nothing) = (true, true, 1);
    r.check("an odd number of experts with factors, of which one is none");
    base(16, 2, Score::SparseMixer { jitter: 0.01 }).check("one after the other");
    base(515, 10, Score::Softmax).check("more experts than a wave has lanes");
}

/// Flags of products.
const ADD_ROWS: u32 = 1;
const ADD_COLUMNS: u32 = 2;
const GLU: u32 = 4;
const ROUND: u32 = 8;
const EACH: u32 = 32;
const ALL: u32 = 64;
const GIVEN: u32 = 128;

/// A layer of experts, by one pass for each token and by tiles, against the reference with the numbers that the weights and the rounded
/// columns stand for.
#[test]
fn experts_of_tokens_and_of_prompts() {
    for (what, weigh, biased, limit) in
        [("plain", Weigh::Output, false, None), ("gpt-oss", Weigh::Output, true, Some(7.0)), ("Llama 4", Weigh::Input, false, None)]
    {
        let (mut gpu, mut r) = (Gpu::checked(), Random(77));
        let (experts, width, inner, tokens, top_k) = (4usize, 256usize, 64usize, 13usize, 3usize);
        let (ty, ty_down) = (quants::Q4_K, quants::Q5_0);
        // Gates, then what they gate, of one expert after the other.
        let (up_bytes, up_values) = random_rows(ty, experts * 2 * inner, width, &mut r);
        let (down_bytes, down_values) = random_rows(ty_down, experts * width, inner, &mut r);
        // Numbers of a size that gates do not saturate.
        let scale = 1.0 / up_values.iter().map(|v| v * v).sum::<f32>().sqrt() * (experts as f32 * 2.0 * inner as f32).sqrt();
        let x: Vec<f32> = r.numbers(tokens * width).iter().map(|v| v * 4.0 * scale).collect();
        let (codes, steps, x) = rounded(&x);
        let up_bias = r.numbers(experts * 2 * inner);
        let down_bias = r.numbers(experts * width);
        let residual = r.numbers(tokens * width);
        let logits: Vec<f32> = r.numbers(tokens * experts).iter().map(|v| v * 3.0).collect();
        let gating = Gating { f: Function::Silu, limit, offset: if limit.is_some() { 1.0 } else { 0.0 } };
        let count = tokens * top_k;
        // The kernels.
        let route = Routing { experts, route: Route { normalize: true, ..Route::new(top_k, Score::Softmax) }, bias: false, factors: false };
        let (chosen, shares) = (gpu.room(4 * count), gpu.room(4 * count));
        let logits_at = gpu.floats(&logits);
        gpu.launch("moe", "route", [tokens as u32, 1, 1], &[logits_at, logits_at, logits_at, chosen, shares], &route.numbers());
        let up = gpu.upload(&pack(ty, &up_bytes, experts * 2 * inner, width).unwrap().bytes);
        let down = gpu.upload(&pack(ty_down, &down_bytes, experts * width, inner).unwrap().bytes);
        let (codes, steps) = (gpu.upload(&codes), gpu.upload(&steps));
        let (up_bias_at, down_bias_at, residual_at) = (gpu.floats(&up_bias), gpu.floats(&down_bias), gpu.floats(&residual));
        let (h, h_codes, h_steps) = (gpu.room(4 * count * inner), gpu.room(count * inner), gpu.room(count * inner / 4));
        let counters = gpu.words(&vec![0; count * inner / 32]);
        let objects = [ty, ty_down].map(|ty| Form::of(ty).unwrap().object);
        let given = if weigh == Weigh::Input { GIVEN } else { 0 };
        let bias_flag = if biased { ADD_ROWS } else { 0 };
        let gate_numbers = [Function::Silu as u32, limit.unwrap_or(0.0).to_bits(), gating.offset.to_bits()];
        let numbers = |rows: usize, width: usize, flags: u32| {
            [&[rows as u32, width as u32, 1, flags, experts as u32, top_k as u32][..], &gate_numbers, &[0]].concat()
        };
        let pointers = [up, codes, steps, up_bias_at, h, chosen, shares, h, h_codes, h_steps, counters];
        gpu.launch(
            objects[0],
            "fused_1",
            [(inner / 4) as u32, count as u32, 1],
            &pointers,
            &numbers(inner, width, GLU | ROUND | EACH | given | bias_flag),
        );
        let ones = gpu.floats(&vec![1.0; count]);
        let down_shares = if weigh == Weigh::Input { ones } else { shares };
        let y = gpu.room(4 * tokens * width);
        // A bias and a residual do not go together: the residual is added where there is no bias.
        let flags = ALL + if biased { ADD_ROWS } else { ADD_COLUMNS };
        let add = if biased { down_bias_at } else { residual_at };
        let pointers = [down, h_codes, h_steps, add, y, chosen, down_shares, y, h_codes, h_steps, counters];
        gpu.launch(objects[1], "fused_1", [(width / 8) as u32, tokens as u32, 1], &pointers, &numbers(width, inner, flags));
        let one_pass = gpu.read_floats(y, tokens * width);
        let (_, _, h_values) = rounded(&gpu.read_floats(h, count * inner));
        // The reference on what was given and, as the products of `down` see rounded numbers, on those.
        let part =
            |all: &[f32], n: usize, of: usize| all.chunks(n * 2).flat_map(|e| e[of * n..(of + 1) * n].to_vec()).collect::<Vec<f32>>();
        let (gate_w, up_w) = (part(&up_values, inner * width, 0), part(&up_values, inner * width, 1));
        let (gate_b, up_b) = (part(&up_bias, inner, 0), part(&up_bias, inner, 1));
        let weights = [
            ("ffn_gate_exps.weight", &gate_w[..]),
            ("ffn_up_exps.weight", &up_w[..]),
            ("ffn_down_exps.weight", &down_values[..]),
            ("ffn_gate_exps.bias", &gate_b[..]),
            ("ffn_up_exps.bias", &up_b[..]),
            ("ffn_down_exps.bias", &down_bias[..]),
        ];
        let rows: Vec<Vec<f32>> = logits.chunks(experts).zip(x.chunks(width)).map(|(l, x)| [l, x].concat()).collect();
        let mut want = oracle::op(&rows, width, &weights, |g| {
            let (logits, x) = (g.given(0, experts), g.given(experts, width));
            let chosen = g.route(logits, route.route.clone());
            g.experts(x, chosen, &ExpertsSpec { experts, inner, gating, biased, weigh, identities: 0 })
        });
        if !biased {
            want.iter_mut().zip(&residual).for_each(|(w, r)| *w += r);
        }
        let size = (want.iter().map(|v| v * v).sum::<f32>() / want.len() as f32).sqrt();
        // The reference does not round what is between the products, which is 1/254 of a block's largest number: far more than a typical one.
        assert_near(what, &one_pass, &wide(&want), |_| 0.15 * f64::from(size));
        // By hand from the rounded numbers: near.
        let (ids, by) = (gpu.device.read_words(chosen, count).unwrap(), gpu.read_floats(down_shares, count));
        let exact: Vec<f64> = (0..tokens * width)
            .map(|i| {
                let (t, row) = (i / width, i % width);
                let of_pair = |pair: usize| {
                    let at = (ids[pair] as usize * width + row) * inner;
                    let dot: f64 = (0..inner).map(|k| f64::from(down_values[at + k]) * f64::from(h_values[pair * inner + k])).sum();
                    f64::from(by[pair]) * (dot + if biased { f64::from(down_bias[ids[pair] as usize * width + row]) } else { 0.0 })
                };
                (t * top_k..(t + 1) * top_k).map(of_pair).sum::<f64>() + if biased { 0.0 } else { f64::from(residual[i]) }
            })
            .collect();
        assert_near(what, &one_pass, &exact, |_| 1e-5 * f64::from(size));
        // Prompts: choices in the order of their experts, in tiles.
        let (order, tiles) = (gpu.room(4 * count), gpu.room(4 * (1 + 3 * (count / 64 + experts))));
        gpu.launch("moe", "group", [1, 1, 1], &[chosen, order, tiles], &[count as u32, experts as u32, 0]);
        let most = (count / 64 + experts) as u32;
        let both = gpu.room(4 * count * 2 * inner);
        let pointers = [up, codes, steps, up_bias_at, both, order, tiles, shares];
        let numbers = |rows: usize, width: usize, flags: u32| [rows as u32, width as u32, experts as u32, top_k as u32, flags];
        gpu.launch(
            objects[0],
            "matmul_experts",
            [(2 * inner).div_ceil(64) as u32, most, 1],
            &pointers,
            &numbers(2 * inner, width, EACH | given | bias_flag),
        );
        let (h2, c2, s2) = (gpu.room(4 * count * inner), gpu.room(count * inner), gpu.room(count * inner / 4));
        let gate = [&[inner as u32, (count * inner) as u32][..], &gate_numbers, &[1]].concat();
        gpu.launch("elementwise", "gated_rows", [(count * inner).div_ceil(1024) as u32, 1, 1], &[both, h2, c2, s2], &gate);
        let parts = gpu.room(4 * count * width);
        let pointers = [down, c2, s2, down_bias_at, parts, order, tiles, shares];
        gpu.launch(objects[1], "matmul_experts", [width.div_ceil(64) as u32, most, 1], &pointers, &numbers(width, inner, bias_flag));
        let y2 = gpu.room(4 * tokens * width);
        let flags = u32::from(!biased) + if weigh == Weigh::Input { 0 } else { 2 };
        let pointers = [parts, chosen, shares, parts, residual_at, y2];
        gpu.launch(
            "moe",
            "combine",
            [tokens as u32, width.div_ceil(128) as u32, 1],
            &pointers,
            &[width as u32, top_k as u32, experts as u32, flags],
        );
        let tiled = gpu.read_floats(y2, tokens * width);
        // Sums in another order move a few numbers to the next code.
        assert_near(what, &tiled, &exact, |_| 0.02 * f64::from(size));
    }
}

/// Choices by experts, and tiles of at most 64; some choices are of experts without matrices.
#[test]
fn choices_are_grouped() {
    let (mut gpu, mut r) = (Gpu::checked(), Random(8));
    let experts = 9u32;
    // The first two are asked most.
    let chosen: Vec<u32> = (0..601).map(|_| if r.word() % 3 > 0 { r.word() % 2 } else { r.word() % 11 }).collect();
    let most = 601 / 64 + experts as usize;
    let (order, tiles) = (gpu.room(4 * chosen.len()), gpu.room(4 * (1 + 3 * most)));
    let at = gpu.words(&chosen);
    gpu.launch("moe", "group", [1, 1, 1], &[at, order, tiles], &[601, experts, 0]);
    let count = gpu.device.read_words(tiles, 1).unwrap()[0] as usize;
    assert!(count <= most);
    let tiles = gpu.device.read_words(tiles + 4, 3 * count).unwrap();
    let with: Vec<usize> = (0..chosen.len()).filter(|i| chosen[*i] < experts).collect();
    let order = gpu.device.read_words(order, with.len()).unwrap();
    let mut seen = vec![];
    for tile in tiles.chunks(3) {
        assert!((1..=64).contains(&tile[2]));
        let of_tile = &order[tile[1] as usize..(tile[1] + tile[2]) as usize];
        assert!(of_tile.iter().all(|i| chosen[*i as usize] == tile[0]), "{tile:?}");
        seen.extend(of_tile.iter().map(|i| *i as usize));
    }
    seen.sort_unstable();
    assert_eq!(seen, with);
}

/// Experts without matrices give back what they are given.
#[test]
fn identities_are_combined() {
    let (mut gpu, mut r, width) = (Gpu::checked(), Random(6), 100);
    let (x, given) = (r.numbers(4 * width), r.numbers(2 * width));
    let (chosen, shares) = ([3u32, 5, 0, 9], [0.5f32, 0.25, 2.0, 0.125]);
    let y = gpu.room(8 * width);
    let pointers = [gpu.floats(&x), gpu.words(&chosen), gpu.floats(&shares), gpu.floats(&given), y, y];
    gpu.launch("moe", "combine", [2, 1, 1], &pointers, &[width as u32, 2, 5, 2 | 4]);
    let of = |t: usize, i: usize| {
        let pair = |k: usize| shares[2 * t + k] * if chosen[2 * t + k] < 5 { x[(2 * t + k) * width + i] } else { given[t * width + i] };
        pair(0) + pair(1)
    };
    let want: Vec<f64> = (0..2 * width).map(|i| f64::from(of(i / width, i % width))).collect();
    assert_near("identities", &gpu.read_floats(y, 2 * width), &want, |_| 1e-6);
}
