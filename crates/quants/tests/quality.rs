//! Encoders' errors beside those of llama.cpp's encoders.

#![allow(clippy::unwrap_used)]

mod common;

use common::Vectors;
use onebit_quants::{ALL, WeightType};

/// Root of the mean squared error, weighted where importances are given.
fn error(t: WeightType, matrix: &[f32], columns: usize, importance: Option<&[f32]>) -> f64 {
    let (mut sum, mut weights) = (0.0, 0.0);
    let mut blocks = vec![0; t.row_bytes(columns).unwrap()];
    let mut back = vec![0.0; columns];
    for row in matrix.chunks_exact(columns) {
        t.encode(row, importance, &mut blocks).unwrap();
        t.decode(&blocks, &mut back);
        for (i, (a, b)) in row.iter().zip(&back).enumerate() {
            let w = importance.map_or(1.0, |w| f64::from(w[i]));
            sum += w * (f64::from(*a) - f64::from(*b)).powi(2);
            weights += w;
        }
    }
    (sum / weights).sqrt()
}

/// A table of errors, printed as it grows, and what in it is worse than llama.cpp.
struct Table {
    worse: Vec<String>,
}

impl Table {
    fn new() -> Self {
        eprintln!("{:9} {:8} {:>7} {:>8}  {:>12} {:>12} {:>7}", "matrix", "type", "bits", "", "error", "llama.cpp", "ratio");
        Self { worse: Vec::new() }
    }

    fn row(&mut self, matrix: &str, t: WeightType, label: &str, ours: f64, theirs: Option<f64>) {
        let beside = theirs.map_or_else(|| format!("{:>12} {:>7}", "-", "-"), |theirs| format!("{theirs:12.5e} {:7.4}", ours / theirs));
        eprintln!("{matrix:9} {:8} {:7.4} {label:>8}  {ours:12.5e} {beside}", t.name(), t.bits_per_value());
        // The stored errors are rounded: equal ones may differ by a hair.
        if theirs.is_some_and(|theirs| ours > theirs * (1.0 + 1e-6) + 1e-12) {
            self.worse.push(format!("{matrix} {t} {label}"));
        }
    }
}

fn encoded() -> impl Iterator<Item = WeightType> {
    ALL.iter().copied().filter(|t| t.info().codes.is_some() && t.info().encode.is_some())
}

#[test]
fn every_block_type_has_an_encoder() {
    assert_eq!(encoded().count(), 27);
}

#[test]
fn no_encoder_is_worse_than_llama_cpp_on_the_shared_matrix() {
    let vectors = Vectors::open("quants.safetensors");
    let gauss = vectors.floats("gauss").unwrap();
    let importance = vectors.floats("importance").unwrap();
    let mut table = Table::new();
    for t in encoded() {
        for (label, key, importance) in [("plain", "rmse", None), ("weighted", "rmse_imatrix", Some(importance.as_slice()))] {
            let theirs = vectors.floats(&format!("{t}.{key}")).map(|v| f64::from(v[0]));
            table.row("gauss", t, label, error(t, &gauss, 1024, importance), theirs);
        }
    }
    assert!(table.worse.is_empty(), "worse than llama.cpp: {:?}", table.worse);
}

/// SplitMix64 (Steele, Lea and Flood 2014), 24 bits of each number; `data/make_references.py` has the same.
fn splitmix(seed: u64, n: usize) -> impl Iterator<Item = u64> {
    (1..=n as u64).map(move |i| {
        let z = seed.wrapping_add(i.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) >> 40
    })
}

fn normal(seed: u64, n: usize) -> Vec<f64> {
    let uniform: Vec<u64> = splitmix(seed, 12 * n).collect();
    uniform.chunks_exact(12).map(|u| u.iter().sum::<u64>() as f64 / (1 << 24) as f64 - 6.0).collect()
}

#[test]
fn no_encoder_is_worse_than_llama_cpp_on_other_matrices() {
    const COLUMNS: usize = 1024;
    let values = |seed: u64, f: &dyn Fn(usize, f64) -> f64| -> Vec<f32> {
        normal(seed, 32 * COLUMNS).iter().enumerate().map(|(i, g)| f(i % COLUMNS, *g) as f32).collect()
    };
    let matrices = [
        ("normal", values(7, &|_, g| g * 0.02)),
        ("heavy", values(8, &|_, g| g * g.abs() * 0.02)),
        ("shifted", values(9, &|_, g| g * 0.02 + 0.03)),
        ("outliers", values(10, &|column, g| g * if column % 64 == 5 { 0.4 } else { 0.02 })),
        ("ternary", values(11, &|_, g| g.round_ties_even().clamp(-1.0, 1.0) * 0.0625)),
    ];
    let importance: Vec<f32> = splitmix(12, COLUMNS).map(|u| u as f64 / (1 << 24) as f64).map(|u| (u * u * u + 0.01) as f32).collect();
    let references = include_str!("data/references.txt");
    let mut table = Table::new();
    for line in references.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let (_, matrix) = matrices.iter().find(|m| m.0 == words[0]).unwrap();
        let t = WeightType::by_name(words[1]).unwrap();
        for (label, theirs, importance) in [("plain", words[2], None), ("weighted", words[3], Some(importance.as_slice()))] {
            table.row(words[0], t, label, error(t, matrix, COLUMNS, importance), theirs.parse().ok());
        }
    }
    assert_eq!(references.lines().count(), 120);
    assert!(table.worse.is_empty(), "worse than llama.cpp: {:?}", table.worse);
}
