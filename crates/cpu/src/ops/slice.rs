//! Numbers `start .. start + len` of each of `groups` runs.

use super::{Row, RowOp};
use crate::exec::step::StepView;

pub(crate) struct Slice {
    pub(crate) groups: usize,
    pub(crate) start: usize,
    pub(crate) len: usize,
}

impl RowOp for Slice {
    fn run(&self, _: &StepView<'_>, _: Row, inputs: &[&[f32]], out: &mut [f32]) {
        if self.len == 0 {
            return;
        }
        let run = inputs[0].len() / self.groups;
        for (from, to) in inputs[0].chunks_exact(run).zip(out.chunks_exact_mut(self.len)) {
            to.copy_from_slice(&from[self.start..self.start + self.len]);
        }
    }
}
