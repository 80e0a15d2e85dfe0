//! Linear attention: a recurrent matrix for each head, updated token by token, in pieces of sixteen columns as in `gated_delta.rs`.

use super::{
    WorkOp,
    effort::Effort,
    gated_delta::{GatedDelta, decay_rows},
    pieces::each_piece,
    simd::{Kernel, LANES, Simd, dispatch},
};
use crate::{
    exec::{rows::RowsOf, states::Slots, step::StepView},
    isa::Isa,
    pool::Worker,
};
use std::{ops::Range, sync::Arc};

pub(crate) struct LinearAttention {
    pub(crate) q: RowsOf,
    pub(crate) k: RowsOf,
    pub(crate) v: RowsOf,
    pub(crate) decay: RowsOf,
    pub(crate) swap: Option<[RowsOf; 2]>,
    pub(crate) out: RowsOf,
    /// `[heads][value / 16][key][16]`.
    pub(crate) state: Arc<Slots>,
    pub(crate) heads: usize,
    pub(crate) key: usize,
    pub(crate) value: usize,
    pub(crate) before: bool,
    pub(crate) scale: f32,
    pub(crate) isa: Isa,
}

impl WorkOp for LinearAttention {
    fn run(&self, view: &StepView<'_>, worker: &Worker<'_>) {
        let blocks = self.value.div_ceil(LANES);
        each_piece(view, worker, &self.state, (self.heads * blocks, self.key * LANES), |piece, tokens, state| {
            dispatch(self.isa, Columns { op: self, head: piece / blocks, block: piece % blocks, tokens, state });
        });
    }
    fn effort(&self, view: &StepView<'_>) -> Effort {
        let numbers = GatedDelta::state_len(self.heads, self.key, self.value);
        // What was remembered and decays, what is added to it, and what is read of it.
        let products = 2 + usize::from(self.swap.is_some());
        Effort::state(view, 4 * numbers, (1 + products) * numbers)
    }
}

/// Sixteen columns of one head of one sequence.
struct Columns<'a> {
    op: &'a LinearAttention,
    head: usize,
    block: usize,
    tokens: Range<usize>,
    /// `[key][16]`.
    state: &'a mut [f32],
}

impl Kernel for Columns<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let op = self.op;
        let keys = self.head * op.key..(self.head + 1) * op.key;
        let columns = self.block * LANES..op.value.min((self.block + 1) * LANES);
        let values = self.head * op.value + columns.start..self.head * op.value + columns.end;
        let state = self.state.as_chunks_mut::<LANES>().0;
        for t in self.tokens {
            // SAFETY: the inputs were written before the barrier in front of this op, and nobody writes them now.
            let (q, k, decay, v, swap) = unsafe {
                let swap = op.swap.as_ref().map(|[a, b]| [&a.row(t)[keys.clone()], &b.row(t)[keys.clone()]]);
                let [q, k, decay] = [&op.q, &op.k, &op.decay].map(|rows| &rows.row(t)[keys.clone()]);
                (q, k, decay, s.load_some(&op.v.row(t)[values.clone()], 0.0), swap)
            };
            let early = if op.before { column_sums(s, state, q) } else { s.splat(0.0) };
            let found = swap.map(|[a, b]| (column_sums(s, state, a), b));
            decay_rows(s, decay, state);
            if let Some((found, b)) = found {
                add_product(s, state, b, found);
            }
            add_product(s, state, k, v);
            let y = if op.before { early } else { column_sums(s, state, q) };
            // SAFETY: these numbers of the row are this thread's.
            s.store_some(s.mul(y, s.splat(op.scale)), unsafe { op.out.part_mut(t, values.clone()) });
        }
    }
}

/// `S^T x`. Four sums, as one chain of multiply-adds would wait for itself.
#[inline(always)]
fn column_sums<S: Simd>(s: S, state: &[[f32; LANES]], x: &[f32]) -> S::V {
    let mut sums = [s.splat(0.0); 4];
    for (rows, x) in state.chunks(4).zip(x.chunks(4)) {
        for ((row, x), sum) in rows.iter().zip(x).zip(&mut sums) {
            *sum = s.mul_add(s.load(row), s.splat(*x), *sum);
        }
    }
    s.add(s.add(sums[0], sums[1]), s.add(sums[2], sums[3]))
}

/// `S + x y^T`.
#[inline(always)]
fn add_product<S: Simd>(s: S, state: &mut [[f32; LANES]], x: &[f32], y: S::V) {
    for (row, x) in state.iter_mut().zip(x) {
        s.store(s.mul_add(s.splat(*x), y, s.load(row)), row);
    }
}
