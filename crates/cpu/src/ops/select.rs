//! Keeping the rows whose logits are asked for.

use super::WorkOp;
use crate::{
    exec::{rows::RowsOf, step::StepView},
    pool::Worker,
};

pub(crate) struct Select {
    pub(crate) x: RowsOf,
    pub(crate) out: RowsOf,
}

impl WorkOp for Select {
    fn run(&self, view: &StepView<'_>, worker: &Worker<'_>) {
        for row in worker.chunk(view.outputs.len(), 1) {
            // SAFETY: `x` is only read between the barriers around this op, and each row of `out` goes to one thread.
            unsafe { self.out.row_mut(row).copy_from_slice(self.x.row(view.outputs[row] as usize)) };
        }
    }
}
