//! Linear attention with decay, in blocks: a matrix for each head that changes at the end of a block, and the block's keys and values.
//!
//! Heads do not depend on each other, and are divided among the threads. A token is done alike whether it comes alone or with others.

use super::{WorkOp, effort::Effort, pieces::each_piece};
use crate::{
    exec::{rows::RowsOf, states::Slots, step::StepView},
    pool::Worker,
};
use onebit_plan::ops::Lightning as Op;
use std::sync::Arc;

pub(crate) struct Lightning {
    pub(crate) inputs: [RowsOf; 3],
    pub(crate) out: RowsOf,
    /// For each head the matrix, then keys, then values.
    pub(crate) state: Arc<Slots>,
    pub(crate) tables: Tables,
    pub(crate) heads: usize,
    pub(crate) dim: usize,
    pub(crate) block: usize,
}

/// The decays, as the op describes them.
pub(crate) struct Tables {
    /// What is left of the matrix after a block, for each head.
    whole: Vec<f32>,
    queries: Arc<[f32]>,
    keys: Arc<[f32]>,
    inner: Arc<[f32]>,
}

impl Tables {
    pub(crate) fn new(op: &Op, rate: &[f32], [queries, keys, inner]: [Arc<[f32]>; 3]) -> Self {
        Self { whole: rate.iter().map(|r| (-r * op.block as f32).exp()).collect(), queries, keys, inner }
    }
}

impl WorkOp for Lightning {
    fn run(&self, view: &StepView<'_>, worker: &Worker<'_>) {
        let n = (self.dim + 2 * self.block) * self.dim;
        each_piece(view, worker, &self.state, (self.heads, n), |head, tokens, state| {
            let part = head * self.dim..(head + 1) * self.dim;
            for t in tokens {
                // SAFETY: the inputs were written before the barrier in front of this op; these numbers of the output are this thread's.
                let ([q, k, v], out) =
                    unsafe { (self.inputs.each_ref().map(|x| &x.row(t)[part.clone()]), self.out.part_mut(t, part.clone())) };
                self.token(head, view.places[t].position as usize % self.block, state, [q, k, v], out);
            }
        });
    }
    fn effort(&self, view: &StepView<'_>) -> Effort {
        // Keys and values of half a block, in the middle.
        let numbers = self.heads * (self.dim + self.block) * self.dim;
        Effort::state(view, 4 * numbers, numbers)
    }
}

impl Lightning {
    /// Token `i` of a block.
    fn token(&self, head: usize, i: usize, state: &mut [f32], [q, k, v]: [&[f32]; 3], out: &mut [f32]) {
        let &Self { dim, block, .. } = self;
        let (matrix, rest) = state.split_at_mut(dim * dim);
        let (keys, values) = rest.split_at_mut(block * dim);
        keys[i * dim..(i + 1) * dim].copy_from_slice(k);
        values[i * dim..(i + 1) * dim].copy_from_slice(v);
        let row = head * block + i;
        out.fill(0.0);
        for (q, matrix) in q.iter().zip(matrix.chunks_exact(dim)) {
            add(out, q * self.tables.queries[row], matrix);
        }
        let decays = &self.tables.inner[row * block..row * block + i + 1];
        for ((decay, k), v) in decays.iter().zip(keys.chunks_exact(dim)).zip(values.chunks_exact(dim)) {
            let score: f32 = q.iter().zip(k).map(|(q, k)| q * k).sum();
            add(out, score * decay, v);
        }
        if i + 1 == block {
            matrix.iter_mut().for_each(|m| *m *= self.tables.whole[head]);
            let left = &self.tables.keys[head * block..(head + 1) * block];
            for ((left, k), v) in left.iter().zip(keys.chunks_exact(dim)).zip(values.chunks_exact(dim)) {
                matrix.chunks_exact_mut(dim).zip(k).for_each(|(matrix, k)| add(matrix, left * k, v));
            }
        }
    }
}

/// `to += by * x`.
fn add(to: &mut [f32], by: f32, x: &[f32]) {
    to.iter_mut().zip(x).for_each(|(to, x)| *to += by * x);
}
