//! A selective state space: a recurrent matrix for each head, updated token by token.
//!
//! Columns of the matrices (numbers of the input) do not depend on each other. Those of a group are laid side by side, whatever
//! head they belong to, and cut into pieces of sixteen: heads of Mamba 2 are several pieces, those of Mamba 1 a sixteenth of one.
//! A piece takes one token after another in the same way, whether they come at once or one by one, which keeps the numbers the same.

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
use onebit_plan::ops::SelectiveScan as Op;
use std::{ops::Range, sync::Arc};

pub(crate) struct SelectiveScan {
    pub(crate) x: RowsOf,
    pub(crate) step: RowsOf,
    pub(crate) b: RowsOf,
    pub(crate) c: RowsOf,
    pub(crate) out: RowsOf,
    /// `[groups][pieces][size][16]`.
    pub(crate) state: Arc<Slots>,
    pub(crate) weights: Weights,
    pub(crate) layout: Layout,
    pub(crate) isa: Isa,
}

/// How the columns are cut.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    groups: usize,
    head: usize,
    size: usize,
    /// Columns of a group.
    columns: usize,
}

impl Layout {
    pub(crate) fn new(op: &Op) -> Self {
        Self { groups: op.groups, head: op.head, size: op.size, columns: op.heads / op.groups * op.head }
    }
    /// Pieces of a group.
    fn pieces(&self) -> usize {
        self.columns.div_ceil(LANES)
    }
    /// Numbers of the state as stored.
    pub(crate) fn state_len(&self) -> usize {
        self.groups * self.pieces() * self.size * LANES
    }
    /// The columns of each piece, in order.
    fn all(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        (0..self.groups * self.pieces()).map(|piece| self.of(piece))
    }
    /// The columns of a piece.
    fn of(&self, piece: usize) -> Range<usize> {
        let (group, piece) = (piece / self.pieces(), piece % self.pieces());
        let start = group * self.columns;
        start + piece * LANES..start + self.columns.min((piece + 1) * LANES)
    }
    /// Sixteen numbers, one for each column of a piece, zero beyond its end.
    fn lanes(&self, columns: Range<usize>, of: impl Fn(usize) -> f32) -> [f32; LANES] {
        let mut lanes = [0.0; LANES];
        lanes.iter_mut().zip(columns).for_each(|(lane, column)| *lane = of(column / self.head));
        lanes
    }
}

/// What the file holds, spread over the columns.
pub(crate) struct Weights {
    /// For each piece one rate, or one for each row.
    rates: Vec<[f32; LANES]>,
    row_rates: bool,
    skips: Vec<[f32; LANES]>,
}

impl Weights {
    /// `rate` is `[heads]` or `[heads, size]`, `skip` is `[heads]`.
    pub(crate) fn new(op: &Op, rate: &[f32], skip: Option<&[f32]>) -> Self {
        let layout = Layout::new(op);
        let rows = rate.len() / op.heads;
        let rates = layout.all().flat_map(|c| (0..rows).map(move |n| layout.lanes(c.clone(), |h| rate[h * rows + n]))).collect();
        let skips = layout.all().map(|c| layout.lanes(c, |h| skip.map_or(0.0, |s| s[h]))).collect();
        Self { rates, row_rates: rows > 1, skips }
    }
}

impl WorkOp for SelectiveScan {
    fn run(&self, view: &StepView<'_>, worker: &Worker<'_>) {
        let pieces = (self.layout.groups * self.layout.pieces(), self.layout.size * LANES);
        each_piece(view, worker, &self.state, pieces, |piece, tokens, state| {
            dispatch(self.isa, Piece { op: self, piece, tokens, state });
        });
    }
    fn effort(&self, view: &StepView<'_>) -> Effort {
        let numbers = self.layout.state_len();
        Effort::state(view, 4 * numbers, 3 * numbers)
    }
}

/// Sixteen columns of one sequence.
struct Piece<'a> {
    op: &'a SelectiveScan,
    piece: usize,
    tokens: Range<usize>,
    /// `[size][16]`.
    state: &'a mut [f32],
}

impl Kernel for Piece<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (op, layout) = (self.op, &self.op.layout);
        let columns = layout.of(self.piece);
        let group = self.piece / layout.pieces();
        let rows = group * layout.size..(group + 1) * layout.size;
        let skip = s.load(&op.weights.skips[self.piece]);
        let count = if op.weights.row_rates { layout.size } else { 1 };
        let rates = &op.weights.rates[self.piece * count..(self.piece + 1) * count];
        let state = self.state.as_chunks_mut::<LANES>().0;
        for t in self.tokens {
            // SAFETY: the inputs were written before the barrier in front of this op, and nobody writes them now.
            let (x, step, b, c) = unsafe { (op.x.row(t), op.step.row(t), &op.b.row(t)[rows.clone()], &op.c.row(t)[rows.clone()]) };
            let x = s.load_some(&x[columns.clone()], 0.0);
            let step = s.load(&layout.lanes(columns.clone(), |head| step[head]));
            let input = s.mul(step, x);
            let decay = |rate: &[f32; LANES]| math::exp(s, s.mul(step, s.load(rate)));
            let whole = decay(&rates[0]);
            // Four sums, as one chain of multiply-adds would wait for itself.
            let mut sums = [s.mul(skip, x), s.splat(0.0), s.splat(0.0), s.splat(0.0)];
            for (n, (row, (b, c))) in state.iter_mut().zip(b.iter().zip(c)).enumerate() {
                let decay = if op.weights.row_rates { decay(&rates[n]) } else { whole };
                let new = s.mul_add(decay, s.load(row), s.mul(s.splat(*b), input));
                s.store(new, row);
                sums[n % 4] = s.mul_add(new, s.splat(*c), sums[n % 4]);
            }
            let y = s.add(s.add(sums[0], sums[1]), s.add(sums[2], sums[3]));
            // SAFETY: these numbers of the row are this thread's.
            s.store_some(y, unsafe { op.out.part_mut(t, columns.clone()) });
        }
    }
}
