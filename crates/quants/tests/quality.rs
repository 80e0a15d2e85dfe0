//! Encoders' errors beside llama.cpp's.

#![allow(clippy::unwrap_used)]

mod common;

use common::Vectors;
use onebit_quants::{ALL, WeightType};

/// Root of the mean squared error, weighted where importances are given.
fn error(t: WeightType, matrix: &[f32], columns: usize, importance: Option<&[f32]>) -> f64 {
    let Some(encode) = t.info().encode else { panic!("{t} has no encoder") };
    let (mut sum, mut weights) = (0.0, 0.0);
    let mut blocks = vec![0; t.bytes_for(columns).unwrap()];
    let mut back = vec![0.0; columns];
    for row in matrix.chunks_exact(columns) {
        encode(row, importance, &mut blocks);
        t.decode(&blocks, &mut back);
        for (i, (a, b)) in row.iter().zip(&back).enumerate() {
            let w = importance.map_or(1.0, |w| f64::from(w[i]));
            sum += w * (f64::from(*a) - f64::from(*b)).powi(2);
            weights += w;
        }
    }
    (sum / weights).sqrt()
}

#[test]
fn no_encoder_is_worse_than_llama_cpp() {
    let vectors = Vectors::open("quants.safetensors");
    let gauss = vectors.floats("gauss").unwrap();
    let importance = vectors.floats("importance").unwrap();
    let mut worse = Vec::new();
    eprintln!("{:8} {:>7} {:>8}  {:>11} {:>11} {:>7}", "type", "bits", "", "error", "llama.cpp", "ratio");
    for t in ALL.iter().filter(|t| t.info().codes.is_some() && t.info().encode.is_some()) {
        for (label, key, importance) in [("plain", "rmse", None), ("weighted", "rmse_imatrix", Some(importance.as_slice()))] {
            // The first use of a type may make tables; they are not what is timed.
            error(*t, &gauss[..1024], 1024, importance);
            let start = std::time::Instant::now();
            let ours = error(*t, &gauss, 1024, importance);
            let ns = start.elapsed().as_nanos() as f64 / gauss.len() as f64;
            let theirs = vectors.floats(&format!("{t}.{key}")).map(|v| f64::from(v[0]));
            let ratio = theirs.map(|theirs| ours / theirs);
            let columns = theirs.map_or_else(|| format!("{:>11} {:>7}", "-", "-"), |theirs| format!("{theirs:11.8} {:7.4}", ours / theirs));
            eprintln!("{:8} {:7.4} {label:>8}  {ours:11.8} {columns} {ns:7.1} ns", t.name(), t.bits_per_value());
            // Stored errors are f32: a ratio of one may show as a hair more.
            if ratio.is_some_and(|r| r > 1.0 + 1e-6) {
                worse.push(format!("{t} {label}"));
            }
        }
    }
    assert!(worse.is_empty(), "worse than llama.cpp: {worse:?}");
}
