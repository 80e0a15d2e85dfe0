//! Products with the matrices of chosen experts, one for each choice.
//!
//! As in a mixture of experts, the [`Pairs`] of a batch are columns, sorted by expert.

use super::{WorkOp, effort::Effort, pairs::Pairs, route};
use crate::{
    exec::{rows::RowsOf, step::StepView},
    isa::Isa,
    matmul::{Activations, Matrix, SharedRows, matmul},
    ops::{linear::STEP, watch::Sums},
    pool::{Worker, part},
};
use onebit_plan::DeviceError;
use std::sync::Arc;

/// Room for the pairs of a batch.
pub(crate) struct Scratch {
    pairs: Pairs,
    x: Activations,
    y: RowsOf,
}

impl Scratch {
    /// For so many pairs and experts like `matrix`.
    pub(crate) fn new(pairs: usize, experts: usize, matrix: &Matrix, isa: Isa) -> Result<Self, DeviceError> {
        Ok(Self {
            pairs: Pairs::new(pairs, experts)?,
            x: Activations::new(matrix.activation(), pairs, matrix.columns(), isa)?,
            y: RowsOf::new(pairs, matrix.rows())?,
        })
    }
    /// Bytes for so many pairs of `from` numbers, of which `to` are made.
    pub(crate) fn bytes(pairs: usize, from: usize, to: usize) -> usize {
        pairs.saturating_mul(4 * (from + to + 2))
    }
}

pub(crate) struct ChosenLinear {
    pub(crate) x: RowsOf,
    pub(crate) route: RowsOf,
    pub(crate) out: RowsOf,
    pub(crate) matrices: Vec<Matrix>,
    /// Whether products are multiplied with the weights of the route.
    pub(crate) weighted: bool,
    pub(crate) scratch: Scratch,
    /// What the matrices are multiplied with, where that is watched.
    pub(crate) watched: Option<Arc<Sums>>,
}

impl ChosenLinear {
    /// What goes into a pair's product.
    ///
    /// # Safety
    /// Pairs were sorted before a barrier, and `x` was made before it.
    unsafe fn input(&self, pair: usize) -> &[f32] {
        let choices = self.route.width() / 2;
        // SAFETY: passed on.
        let (choice, width) = unsafe { (self.scratch.pairs.choice(pair), self.scratch.x.width()) };
        // SAFETY: passed on.
        let x = unsafe { self.x.row(choice / choices) };
        if x.len() == width { x } else { &x[choice % choices * width..][..width] }
    }
}

impl WorkOp for ChosenLinear {
    fn run(&self, view: &StepView<'_>, worker: &Worker<'_>) {
        let (tokens, choices, s) = (view.batch.tokens.len(), self.route.width() / 2, &self.scratch);
        if worker.index == 0 {
            // SAFETY: one thread sorts; the route was written before the barrier in front of this op.
            unsafe { s.pairs.sort(&self.route, tokens) };
        }
        worker.barrier();
        for pair in worker.chunk(tokens * choices, 1) {
            // SAFETY: sorted before the barrier; each pair's column has one thread.
            unsafe { s.x.fill(pair, self.input(pair)) };
        }
        worker.barrier();
        // SAFETY: threads make disjoint rows, and read none but their own.
        let y = unsafe { SharedRows::new(s.y.as_ptr(), s.y.rows(), s.y.width(), s.y.stride()) };
        let rows = part(s.y.width(), STEP, worker.index, worker.count);
        for (expert, matrix) in self.matrices.iter().enumerate() {
            // SAFETY: sorted before a barrier.
            let pairs = unsafe { s.pairs.of_expert(expert) };
            if pairs.is_empty() {
                continue;
            }
            if let Some(sums) = &self.watched {
                // SAFETY: all threads come here, and `x` is not written to before the next step.
                unsafe { sums.add(worker, expert, pairs.clone().map(|pair| self.input(pair))) };
            }
            matmul(matrix, &s.x, pairs, rows.clone(), &y);
        }
        for token in 0..tokens {
            // SAFETY: these rows of the products, and these parts of the output, are this thread's; the route is older than the barrier
            // in front of this op.
            unsafe {
                let pairs = s.pairs.of_choices(token * choices..(token + 1) * choices);
                for (c, (pair, (_, weight))) in pairs.iter().zip(route::chosen(self.route.row(token))).enumerate() {
                    let start = c * s.y.width();
                    let out = self.out.part_mut(token, start + rows.start..start + rows.end);
                    let by = if self.weighted { weight } else { 1.0 };
                    out.iter_mut().zip(&*s.y.part_mut(*pair as usize, rows.clone())).for_each(|(o, y)| *o = by * *y);
                }
            }
        }
    }
    fn effort(&self, _: &StepView<'_>) -> Effort {
        // SAFETY: sorted before a barrier of the run, and not written to before the next step.
        let pairs = |expert| unsafe { self.scratch.pairs.of_expert(expert) };
        self.matrices.iter().enumerate().map(|(e, matrix)| Effort::product(matrix, pairs(e).len())).sum()
    }
}
