//! Sums over one dimension of a row.

use super::{Row, RowOp};
use crate::exec::step::StepView;

/// The row is `[groups][count][n]`.
pub(crate) struct Sum {
    pub(crate) groups: usize,
    pub(crate) count: usize,
}

/// Sums of a long run that go side by side.
const LANES: usize = 16;

impl RowOp for Sum {
    fn run(&self, _: &StepView<'_>, _: Row, inputs: &[&[f32]], out: &mut [f32]) {
        let n = out.len() / self.groups;
        for (x, out) in inputs[0].chunks_exact(n * self.count).zip(out.chunks_exact_mut(n)) {
            if n == 1 {
                out[0] = total(x);
                continue;
            }
            out.fill(0.0);
            for part in x.chunks_exact(n) {
                out.iter_mut().zip(part).for_each(|(o, x)| *o += x);
            }
        }
    }
}

fn total(x: &[f32]) -> f32 {
    let mut sums = [0.0; LANES];
    for part in x.chunks(LANES) {
        sums.iter_mut().zip(part).for_each(|(s, x)| *s += x);
    }
    sums.iter().sum()
}
