//! Sums of the squares of what weights are multiplied with, for importance.
//!
//! Each thread has some columns and adds the rows in their order, so that the sums depend neither on the number of threads nor on
//! how rows are spread over steps.

use super::WorkOp;
use crate::{
    exec::{rows::RowsOf, shared::Shared, step::StepView},
    pool::{Worker, part},
};
use onebit_plan::{DeviceError, InputSums, Rows, WeightId};
use std::sync::Arc;

/// Columns that threads are given together: as many sums as fill a cache line.
const STEP: usize = 8;

/// Sums of some weights that are multiplied with the same rows.
pub(crate) struct Sums {
    weights: Vec<WeightId>,
    width: usize,
    /// `[experts, width]`.
    squares: Shared<f64>,
    /// `[experts]`.
    counts: Shared<u64>,
}

impl Sums {
    /// Zeros, for rows of `width` numbers; `experts` is 1 for matrices of their own.
    pub(crate) fn new(weights: Vec<WeightId>, experts: usize, width: usize) -> Result<Arc<Self>, DeviceError> {
        let squares = Shared::new(experts.saturating_mul(width))?;
        Ok(Arc::new(Self { weights, width, squares, counts: Shared::new(experts)? }))
    }

    /// Adds this thread's columns of `rows` to the sums of `expert`.
    ///
    /// # Safety
    /// All threads call it, none reads the sums meanwhile, and nobody writes to the rows.
    pub(crate) unsafe fn add<'a>(&self, worker: &Worker<'_>, expert: usize, rows: impl Iterator<Item = &'a [f32]>) {
        let mine = part(self.width, STEP, worker.index, worker.count);
        // SAFETY: these columns are this thread's.
        let sums = unsafe { self.squares.part_mut(expert * self.width + mine.start..expert * self.width + mine.end) };
        let mut count = 0;
        for row in rows {
            sums.iter_mut().zip(&row[mine.clone()]).for_each(|(s, x)| *s += f64::from(*x) * f64::from(*x));
            count += 1;
        }
        if worker.index == 0 {
            // SAFETY: one thread counts.
            let counts = unsafe { self.counts.part_mut(expert..expert + 1) };
            counts[0] += count;
        }
    }

    /// The sums so far.
    ///
    /// # Safety
    /// No step runs.
    pub(crate) unsafe fn read(&self) -> impl Iterator<Item = InputSums> {
        // SAFETY: passed on.
        let (squares, counts) = unsafe { (self.squares.part(0..self.squares.len()), self.counts.part(0..self.counts.len())) };
        self.weights.iter().map(|w| InputSums { weight: *w, squares: squares.to_vec(), counts: counts.to_vec() })
    }
}

/// Adds the rows of a value.
pub(crate) struct Watch {
    pub(crate) x: RowsOf,
    pub(crate) rows: Rows,
    pub(crate) sums: Arc<Sums>,
}

impl WorkOp for Watch {
    fn run(&self, view: &StepView<'_>, worker: &Worker<'_>) {
        // SAFETY: the value was made before the barrier in front of this op.
        unsafe { self.sums.add(worker, 0, (0..view.count(self.rows)).map(|i| self.x.row(i))) };
    }
}
