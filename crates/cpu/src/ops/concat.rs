//! Each of `groups` runs of one value, followed by that of another.

use super::{Row, RowOp};
use crate::exec::step::StepView;

pub(crate) struct Concat {
    pub(crate) groups: usize,
}

impl RowOp for Concat {
    fn run(&self, _: &StepView<'_>, _: Row, inputs: &[&[f32]], out: &mut [f32]) {
        let (a, b) = (inputs[0].len() / self.groups, inputs[1].len() / self.groups);
        for (i, run) in out.chunks_exact_mut(a + b).enumerate() {
            run[..a].copy_from_slice(&inputs[0][i * a..(i + 1) * a]);
            run[a..].copy_from_slice(&inputs[1][i * b..(i + 1) * b]);
        }
    }
}
