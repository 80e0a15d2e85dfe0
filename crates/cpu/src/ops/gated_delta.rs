//! Gated DeltaNet: a recurrent matrix for each head, updated token by token.
//!
//! Columns of the matrix (numbers of the value) do not depend on each other, so that the work is cut into (sequence, head,
//! sixteen columns); such a piece of the matrix stays in the first-level cache while all tokens of a prompt pass. One token
//! after another in the same way, whether they come at once or one by one, keeps the numbers the same.

use super::{
    WorkOp,
    effort::Effort,
    math,
    pieces::each_piece,
    simd::{Kernel, LANES, Simd, dispatch},
};
use crate::{
    exec::{rows::RowsOf, states::Slots, step::StepView},
    isa::Isa,
    pool::Worker,
};
use std::sync::Arc;

pub(crate) struct GatedDelta {
    pub(crate) q: RowsOf,
    pub(crate) k: RowsOf,
    pub(crate) v: RowsOf,
    pub(crate) decay: RowsOf,
    pub(crate) beta: RowsOf,
    pub(crate) out: RowsOf,
    /// `[v_heads][value / 16][key][16]`.
    pub(crate) state: Arc<Slots>,
    pub(crate) k_heads: usize,
    pub(crate) v_heads: usize,
    pub(crate) key: usize,
    pub(crate) value: usize,
    pub(crate) tiled: bool,
    pub(crate) scale: f32,
    pub(crate) isa: Isa,
}

impl GatedDelta {
    /// Numbers of the state as stored.
    pub(crate) fn state_len(v_heads: usize, key: usize, value: usize) -> usize {
        v_heads * value.next_multiple_of(LANES) * key
    }
}

impl WorkOp for GatedDelta {
    fn run(&self, view: &StepView<'_>, worker: &Worker<'_>) {
        let blocks = self.value.div_ceil(LANES);
        each_piece(view, worker, &self.state, (self.v_heads * blocks, self.key * LANES), |piece, tokens, state| {
            dispatch(self.isa, Columns { op: self, head: piece / blocks, block: piece % blocks, tokens, state });
        });
    }
    fn effort(&self, view: &StepView<'_>) -> Effort {
        let numbers = Self::state_len(self.v_heads, self.key, self.value);
        // What was remembered, what is added to it, and what is read of it.
        Effort::state(view, 4 * numbers, 3 * numbers)
    }
}

/// Sixteen columns of one head of one sequence.
struct Columns<'a> {
    op: &'a GatedDelta,
    head: usize,
    block: usize,
    tokens: std::ops::Range<usize>,
    /// `[key][16]`.
    state: &'a mut [f32],
}

impl Kernel for Columns<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let op = self.op;
        let k_head = if op.tiled { self.head % op.k_heads } else { self.head / (op.v_heads / op.k_heads) };
        let columns = self.block * LANES..op.value.min((self.block + 1) * LANES);
        let keys = k_head * op.key..(k_head + 1) * op.key;
        let values = self.head * op.value + columns.start..self.head * op.value + columns.end;
        let each = op.decay.width() / op.v_heads;
        let decays = self.head * each..(self.head + 1) * each;
        let state = self.state.as_chunks_mut::<LANES>().0;
        for t in self.tokens {
            // SAFETY: the inputs were written before the barrier in front of this op, and nobody writes them now.
            let (q, k, v, decay, beta) = unsafe {
                let q = &op.q.row(t)[keys.clone()];
                let k = &op.k.row(t)[keys.clone()];
                (q, k, s.load_some(&op.v.row(t)[values.clone()], 0.0), &op.decay.row(t)[decays.clone()], op.beta.row(t)[self.head])
            };
            let decay = match decay {
                [decay] => math::exp(s, s.splat(*decay)),
                rows => {
                    decay_rows(s, rows, state);
                    s.splat(1.0)
                }
            };
            // S^T k after the decay. Four sums, as one chain of multiply-adds would wait for itself.
            let mut sums = [s.splat(0.0); 4];
            for (rows, k) in state.chunks(4).zip(k.chunks(4)) {
                for ((row, k), sum) in rows.iter().zip(k).zip(&mut sums) {
                    *sum = s.mul_add(s.mul(s.load(row), decay), s.splat(*k), *sum);
                }
            }
            let found = s.add(s.add(sums[0], sums[1]), s.add(sums[2], sums[3]));
            let u = s.mul(s.splat(beta), s.sub(v, found));
            let mut sums = [s.splat(0.0); 4];
            for ((rows, k), q) in state.chunks_mut(4).zip(k.chunks(4)).zip(q.chunks(4)) {
                for (((row, k), q), sum) in rows.iter_mut().zip(k).zip(q).zip(&mut sums) {
                    let new = s.mul_add(s.splat(*k), u, s.mul(s.load(row), decay));
                    s.store(new, row);
                    *sum = s.mul_add(new, s.splat(*q), *sum);
                }
            }
            let y = s.mul(s.add(s.add(sums[0], sums[1]), s.add(sums[2], sums[3])), s.splat(op.scale));
            // SAFETY: these numbers of the row are this thread's.
            s.store_some(y, unsafe { op.out.part_mut(t, values.clone()) });
        }
    }
}

/// Multiplies each row of the state with the exponential of its own decay.
#[inline(always)]
pub(super) fn decay_rows<S: Simd>(s: S, decays: &[f32], state: &mut [[f32; LANES]]) {
    for (rows, decays) in state.chunks_mut(LANES).zip(decays.chunks(LANES)) {
        let factors = s.to_array(math::exp(s, s.load_some(decays, 0.0)));
        rows.iter_mut().zip(factors).for_each(|(row, factor)| s.store(s.mul(s.load(row), s.splat(factor)), row));
    }
}
