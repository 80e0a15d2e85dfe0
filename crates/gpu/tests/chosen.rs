//! Products by runs and by choices: one matrix of many for each, as plain numbers and as planes, for few tokens and by tiles.

#![allow(clippy::unwrap_used)] // helpers outside of #[test] functions

mod common;

use common::{Gpu, Random, assert_near, random_rows, rounded};
use half::f16;
use onebit_gpu::{Form, pack};
use onebit_quants as quants;

const ADD_ROWS: u32 = 1;
const EACH: u32 = 32;
const GIVEN: u32 = 128;
const APART: u32 = 256;
const EVERY: u32 = 512;

/// Which products a token has.
#[derive(Clone, Copy)]
struct Case {
    matrices: usize,
    choices: usize,
    rows: usize,
    width: usize,
    /// A run of x for each product, or all of it for each.
    apart: bool,
    /// A product for each matrix.
    every: bool,
    biased: bool,
    weighted: bool,
}

const RUNS: Case = Case { matrices: 5, choices: 5, rows: 20, width: 64, apart: true, every: true, biased: true, weighted: false };
const CHOICES: Case = Case { matrices: 7, choices: 3, rows: 33, width: 96, apart: false, every: false, biased: false, weighted: true };

const TOKENS: usize = 40;

impl Case {
    /// Choices and their shares.
    fn route(&self, r: &mut Random) -> (Vec<u32>, Vec<f32>) {
        let count = TOKENS * self.choices;
        ((0..count).map(|_| r.word() % self.matrices as u32).collect(), r.numbers(count))
    }

    /// What comes of it in f64.
    fn want(&self, w: &[f32], x: &[f32], bias: &[f32], (chosen, shares): &(Vec<u32>, Vec<f32>)) -> Vec<f64> {
        let Self { choices, rows, width, .. } = *self;
        let one = |pair: usize, row: usize| {
            let matrix = if self.every { pair % choices } else { chosen[pair] as usize };
            let column = if self.apart { pair } else { pair / choices };
            let of = matrix * rows + row;
            let dot: f64 = (0..width).map(|k| f64::from(w[of * width + k]) * f64::from(x[column * width + k])).sum();
            let share = if self.weighted { f64::from(shares[pair]) } else { 1.0 };
            dot * share + if self.biased { f64::from(bias[of]) } else { 0.0 }
        };
        (0..TOKENS * choices).flat_map(|pair| (0..rows).map(move |row| (pair, row))).map(|(pair, row)| one(pair, row)).collect()
    }

    fn columns(&self) -> usize {
        if self.apart { TOKENS * self.choices } else { TOKENS }
    }

    fn flags(&self, [biased, given, apart, every]: [u32; 4]) -> u32 {
        let flag = |set: bool, flag: u32| if set { flag } else { 0 };
        flag(self.biased, biased) | flag(self.weighted, given) | flag(self.apart, apart) | flag(self.every, every)
    }
}

#[test]
fn products_with_plain_numbers() {
    for case in [RUNS, CHOICES, Case { apart: true, biased: true, ..CHOICES }] {
        for name in ["f32", "f16"] {
            let (mut gpu, mut r) = (Gpu::checked(), Random(21));
            let Case { matrices, choices, rows, width, .. } = case;
            let w: Vec<f32> = r.numbers(matrices * rows * width).iter().map(|v| f16::from_f32(*v).to_f32()).collect();
            let stored: Vec<u8> = match name {
                "f32" => w.iter().flat_map(|v| v.to_le_bytes()).collect(),
                _ => w.iter().flat_map(|v| f16::from_f32(*v).to_le_bytes()).collect(),
            };
            let (x, bias, route) = (r.numbers(case.columns() * width), r.numbers(matrices * rows), case.route(&mut r));
            let want = case.want(&w, &x, &bias, &route);
            let y = gpu.room(4 * want.len());
            let pointers = [gpu.upload(&stored), gpu.floats(&x), gpu.floats(&bias), y, gpu.words(&route.0), gpu.floats(&route.1)];
            let numbers = [rows, width, matrices, choices].map(|n| n as u32);
            let numbers = [&numbers[..], &[case.flags([1, 8, 4, 16])]].concat();
            let grid = [rows.div_ceil(4) as u32, (TOKENS * choices) as u32, 1];
            gpu.launch("floats", &format!("experts_{name}"), grid, &pointers, &numbers);
            assert_near(name, &gpu.read_floats(y, want.len()), &want, |_| 1e-5);
        }
    }
}

#[test]
fn products_with_planes() {
    for case in [RUNS, CHOICES, Case { apart: true, biased: true, ..CHOICES }] {
        let (mut gpu, mut r, ty) = (Gpu::checked(), Random(22), quants::Q8_0);
        let Case { matrices, choices, rows, width, .. } = case;
        let (bytes, w) = random_rows(ty, matrices * rows, width, &mut r);
        let (codes, steps, x) = rounded(&r.numbers(case.columns() * width));
        let (bias, route) = (r.numbers(matrices * rows), case.route(&mut r));
        let want = case.want(&w, &x, &bias, &route);
        // Numbers of random blocks can be large.
        let largest = want.iter().fold(0f64, |m, v| m.max(v.abs()));
        let weights = gpu.upload(&pack(ty, &bytes, matrices * rows, width).unwrap().bytes);
        let (codes, steps, bias) = (gpu.upload(&codes), gpu.upload(&steps), gpu.floats(&bias));
        let (chosen, shares) = (gpu.words(&route.0), gpu.floats(&route.1));
        let object = Form::of(ty).unwrap().object;
        let pairs = TOKENS * choices;
        let y = gpu.room(4 * want.len());
        let flags = EACH | case.flags([ADD_ROWS, GIVEN, APART, EVERY]);
        let sizes = [rows, width, 1, flags as usize, matrices, choices, 0, 0, 0, 0].map(|n| n as u32);
        let pointers = [weights, codes, steps, bias, y, chosen, shares, y, y, y, y];
        gpu.launch(object, "fused_1", [rows.div_ceil(8) as u32, pairs as u32, 1], &pointers, &sizes);
        assert_near("few tokens", &gpu.read_floats(y, want.len()), &want, |_| 1e-6 * largest);
        // By tiles.
        let most = pairs / 64 + matrices;
        let (order, tiles, y) = (gpu.room(4 * pairs), gpu.room(4 * (1 + 3 * most)), gpu.room(4 * want.len()));
        gpu.launch("moe", "group", [1, 1, 1], &[chosen, order, tiles], &[pairs as u32, matrices as u32, u32::from(case.every)]);
        let flags = case.flags([ADD_ROWS, GIVEN, 0, 0]) | if case.apart { 0 } else { EACH };
        let sizes = [rows, width, matrices, choices, flags as usize].map(|n| n as u32);
        let pointers = [weights, codes, steps, bias, y, order, tiles, shares];
        gpu.launch(object, "matmul_experts", [rows.div_ceil(64) as u32, most as u32, 1], &pointers, &sizes);
        assert_near("by tiles", &gpu.read_floats(y, want.len()), &want, |_| 1e-6 * largest);
    }
}
