//! Exchanges two dimensions of runs.

use super::{Row, RowOp};
use crate::exec::step::StepView;

pub(crate) struct Transpose {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

impl RowOp for Transpose {
    fn run(&self, _: &StepView<'_>, _: Row, inputs: &[&[f32]], out: &mut [f32]) {
        let run = out.len() / (self.rows * self.columns);
        if run == 0 {
            return;
        }
        for (i, to) in out.chunks_exact_mut(run).enumerate() {
            let from = i % self.rows * self.columns + i / self.rows;
            to.copy_from_slice(&inputs[0][from * run..(from + 1) * run]);
        }
    }
}
