//! Attention over chosen tokens, and who chooses them.

use super::{Past, dot};
use onebit_plan::ops::{Index, SparseAttention};

/// `key(t)` is the indexer's key of token `t`.
pub(crate) fn index<'a>(op: &Index, q: &[f32], weights: Option<&[f32]>, key: impl Fn(usize) -> &'a [f32], position: usize) -> Vec<f32> {
    let width = q.len() / op.heads;
    let score = |block: usize| -> f32 {
        let key = key(block * op.block + op.block - 1);
        let head = |h: usize| weights.map_or(1.0, |w| f64::from(w[h])) * dot(&q[h * width..][..width], key).max(0.0);
        (0..op.heads).map(head).sum::<f64>() as f32
    };
    let scores: Vec<f32> = (0..(position + 1) / op.block).map(score).collect();
    let mut best: Vec<usize> = (0..scores.len()).collect();
    best.sort_by(|a, b| scores[*b].total_cmp(&scores[*a])); // stable: of equals the earlier comes first
    best.truncate(op.top);
    best.sort_unstable();
    let chosen = best.iter().flat_map(|b| b * op.block..(b + 1) * op.block).chain(scores.len() * op.block..position + 1);
    let mut out: Vec<f32> = chosen.map(|t| t as f32).collect();
    out.resize(Index::most(op.block, op.top), -1.0);
    out
}

pub(crate) fn sparse_attention(op: &SparseAttention, q: &[f32], past: &dyn Past, only: &[f32]) -> Vec<f32> {
    let mut out = Vec::with_capacity(op.heads * op.value);
    for (h, q) in q.chunks_exact(op.key).enumerate() {
        let kv_head = h / (op.heads / op.kv_heads);
        let positions: Vec<usize> = only.iter().filter(|p| **p >= 0.0).map(|p| *p as usize).collect();
        let score = |t: &usize| dot(q, &past.key(*t)[kv_head * op.key..][..op.key]) * f64::from(op.scale);
        let scores: Vec<f64> = positions.iter().map(score).collect();
        let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = scores.iter().map(|s| (s - largest).exp()).sum();
        let mut mixed = vec![0.0f64; op.value];
        for (t, s) in positions.iter().zip(scores) {
            let v = &past.value(*t)[kv_head * op.value..][..op.value];
            mixed.iter_mut().zip(v).for_each(|(m, v)| *m += (s - largest).exp() / sum * f64::from(*v));
        }
        out.extend(mixed.iter().map(|m| *m as f32));
    }
    out
}
