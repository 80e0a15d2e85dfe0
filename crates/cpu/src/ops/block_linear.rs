//! A block-diagonal product.

use super::{
    Row, RowOp, WorkOp,
    effort::Effort,
    simd::{Kernel, LANES, Simd, dispatch},
};
use crate::{
    exec::{rows::RowsOf, step::StepView},
    isa::Isa,
    matmul::{Activations, Matrix, SharedRows, matmul},
    ops::linear::STEP,
    pool::Worker,
};
use onebit_plan::Rows;
use std::sync::Arc;

/// Brings a row's runs into the form that the matrices want; its input is the row.
pub(crate) struct FillBlocks(pub(crate) Arc<Vec<Activations>>);

impl RowOp for FillBlocks {
    fn run(&self, _: &StepView<'_>, row: Row, inputs: &[&[f32]], _: &mut [f32]) {
        for (run, to) in inputs[0].chunks_exact(inputs[0].len() / self.0.len()).zip(self.0.iter()) {
            // SAFETY: each row, and so each column, has one thread; readers come behind a barrier.
            unsafe { to.fill(row.index, run) };
        }
    }
}

/// Packed matrices `[out, in]`, whose rows, laid end to end, are divided among the threads in steps.
pub(crate) struct BlockLinear {
    pub(crate) matrices: Vec<Matrix>,
    pub(crate) bias: Option<Arc<[f32]>>,
    /// By run.
    pub(crate) x: Arc<Vec<Activations>>,
    pub(crate) out: RowsOf,
    pub(crate) rows: Rows,
}

impl WorkOp for BlockLinear {
    fn run(&self, view: &StepView<'_>, worker: &Worker<'_>) {
        let (columns, width) = (view.count(self.rows), self.out.width() / self.matrices.len());
        let steps = width.div_ceil(STEP);
        for step in worker.chunk(self.matrices.len() * steps, 1) {
            let (run, first) = (step / steps, step % steps * STEP);
            let rows = first..(first + STEP).min(width);
            // SAFETY: `out` has a row of `runs * width` numbers for each column, of which this run's begin at `run * width`. Threads
            // make disjoint rows, and whoever else uses `out` is behind a barrier.
            let y = unsafe { SharedRows::new(self.out.as_ptr().add(run * width), self.out.rows(), width, self.out.stride()) };
            matmul(&self.matrices[run], &self.x[run], 0..columns, rows.clone(), &y);
            let Some(bias) = &self.bias else { continue };
            let rows = run * width + rows.start..run * width + rows.end;
            for c in 0..columns {
                // SAFETY: this part was just made by this thread.
                let y = unsafe { self.out.part_mut(c, rows.clone()) };
                y.iter_mut().zip(&bias[rows.clone()]).for_each(|(y, b)| *y += b);
            }
        }
    }
    fn effort(&self, view: &StepView<'_>) -> Effort {
        let columns = view.count(self.rows);
        self.matrices.iter().map(|matrix| Effort::product(matrix, columns)).sum()
    }
}

/// Matrices that are stored one row for each number of the input.
pub(crate) struct Transposed {
    /// `[runs][numbers in a run of x][numbers in a run of the output]`.
    pub(crate) weight: Arc<[f32]>,
    pub(crate) bias: Option<Arc<[f32]>>,
    pub(crate) runs: usize,
    pub(crate) isa: Isa,
}

impl RowOp for Transposed {
    fn run(&self, _: &StepView<'_>, _: Row, inputs: &[&[f32]], out: &mut [f32]) {
        let (from, to) = (inputs[0].len() / self.runs, out.len() / self.runs);
        let runs = inputs[0].chunks_exact(from).zip(out.chunks_exact_mut(to)).zip(self.weight.chunks_exact(from * to));
        for (r, ((x, out), weight)) in runs.enumerate() {
            let bias = self.bias.as_ref().map(|b| &b[r * to..(r + 1) * to]);
            dispatch(self.isa, Product { x, weight, bias, out });
        }
    }
}

/// `out = x weight + bias`.
struct Product<'a> {
    x: &'a [f32],
    weight: &'a [f32],
    bias: Option<&'a [f32]>,
    out: &'a mut [f32],
}

impl Kernel for Product<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let width = self.out.len();
        for (i, out) in self.out.chunks_mut(LANES).enumerate() {
            let columns = i * LANES..i * LANES + out.len();
            let mut sum = self.bias.map_or(s.splat(0.0), |b| s.load_some(&b[columns.clone()], 0.0));
            for (x, row) in self.x.iter().zip(self.weight.chunks_exact(width)) {
                sum = s.mul_add(s.splat(*x), s.load_some(&row[columns.clone()], 0.0), sum);
            }
            s.store_some(sum, out);
        }
    }
}
