//! Products with packed weights: all that read the same columns, in one pass over the threads.
//!
//! [`Fill`] brings rows into the form that the kernels want, [`Linears`], behind a barrier, multiplies. Rows of all its
//! matrices are laid end to end and divided among the threads in steps; a thread that has made rows of the result also adds
//! the bias and the residual to them, and applies the gate, while they are in its cache.

use super::{Row, RowOp, WorkOp, effort::Effort, math};
use crate::{
    exec::{rows::RowsOf, step::StepView},
    isa::Isa,
    matmul::{Activations, Matrix, SharedRows, matmul},
    pool::Worker,
};
use onebit_plan::{Function, Rows};
use std::{ops::Range, sync::Arc};

/// Copies or quantizes a row; its input is the row.
pub(crate) struct Fill(pub(crate) Arc<Activations>);

impl RowOp for Fill {
    fn run(&self, _: &StepView<'_>, row: Row, inputs: &[&[f32]], _: &mut [f32]) {
        // SAFETY: each row, and so each column, has one thread; readers come behind a barrier.
        unsafe { self.0.fill(row.index, inputs[0]) };
    }
}

/// A matrix, what it is multiplied with, and where the result goes.
pub(crate) struct Product {
    pub(crate) matrix: Arc<Matrix>,
    pub(crate) bias: Option<Arc<[f32]>>,
    pub(crate) x: Arc<Activations>,
    pub(crate) out: RowsOf,
}

impl Product {
    /// Makes the rows `rows` of all columns.
    fn run(&self, columns: usize, rows: Range<usize>) {
        // SAFETY: `out` has a row for each column. Threads ask for disjoint `rows`, and whoever else uses `out` is behind a barrier.
        let y = unsafe { SharedRows::new(self.out.as_ptr(), self.out.rows(), self.matrix.rows(), self.out.stride()) };
        matmul(&self.matrix, &self.x, 0..columns, rows.clone(), &y);
        if let Some(bias) = &self.bias {
            for c in 0..columns {
                // SAFETY: this part was just made by this thread.
                let y = unsafe { self.out.part_mut(c, rows.clone()) };
                y.iter_mut().zip(&bias[rows.clone()]).for_each(|(y, b)| *y += b);
            }
        }
    }
}

/// What a group of products makes.
pub(crate) enum Part {
    /// `product`, plus `add` where there is one.
    Plain { product: Product, add: Option<RowsOf> },
    /// `f(gate) * up`, also brought into the form that the next products want.
    Gated { gate: Product, up: Product, f: Function, out: RowsOf, fill: Vec<Arc<Activations>> },
}

impl Part {
    fn rows(&self) -> usize {
        match self {
            Self::Plain { product, .. } => product.matrix.rows(),
            Self::Gated { gate, .. } => gate.matrix.rows(),
        }
    }
    fn products(&self) -> impl Iterator<Item = &Product> {
        let (first, second) = match self {
            Self::Plain { product, .. } => (product, None),
            Self::Gated { gate, up, .. } => (gate, Some(up)),
        };
        std::iter::once(first).chain(second)
    }
    fn run(&self, isa: Isa, columns: usize, rows: Range<usize>) {
        match self {
            Self::Plain { product, add } => {
                product.run(columns, rows.clone());
                let Some(add) = add else { return };
                for c in 0..columns {
                    // SAFETY: this part of the product was just made by this thread, and the other summand is older than the last barrier.
                    let (y, other) = unsafe { (product.out.part_mut(c, rows.clone()), add.row(c)) };
                    y.iter_mut().zip(&other[rows.clone()]).for_each(|(y, x)| *y += x);
                }
            }
            Self::Gated { gate, up, f, out, fill } => {
                gate.run(columns, rows.clone());
                up.run(columns, rows.clone());
                for c in 0..columns {
                    // SAFETY: these parts are this thread's, as the products' are; inputs and output are different buffers.
                    unsafe {
                        let (gate, up) = (gate.out.part_mut(c, rows.clone()), up.out.part_mut(c, rows.clone()));
                        let out = out.part_mut(c, rows.clone());
                        math::apply_times(isa, *f, gate, up, out);
                        fill.iter().for_each(|to| to.fill_part(c, rows.start, out));
                    }
                }
            }
        }
    }
}

/// Rows that are cut off together: two panels, and a block of the next product's columns.
pub(crate) const STEP: usize = 32;

/// A group of products.
pub(crate) struct Linears {
    pub(crate) parts: Vec<Part>,
    pub(crate) rows: Rows,
    pub(crate) isa: Isa,
}

impl WorkOp for Linears {
    fn run(&self, view: &StepView<'_>, worker: &Worker<'_>) {
        let columns = view.count(self.rows);
        let total = self.parts.iter().map(|p| p.rows().div_ceil(STEP)).sum();
        let mine = worker.chunk(total, 1);
        let mut before = 0;
        for part in &self.parts {
            let steps = part.rows().div_ceil(STEP);
            let (start, end) = (mine.start.clamp(before, before + steps), mine.end.clamp(before, before + steps));
            if start < end {
                part.run(self.isa, columns, (start - before) * STEP..((end - before) * STEP).min(part.rows()));
            }
            before += steps;
        }
    }
    fn effort(&self, view: &StepView<'_>) -> Effort {
        let columns = view.count(self.rows);
        self.parts.iter().flat_map(Part::products).map(|p| Effort::product(&p.matrix, columns)).sum()
    }
}
