//! Sums and products of two values, of a value and a weight, and of a value and a number.

use super::{Row, RowOp};
use crate::exec::step::StepView;
use onebit_plan::Binary;
use std::sync::Arc;

/// `out[i] = f(a[i], b[i * b_width / a_width])`.
pub(crate) struct Pairwise(pub(crate) Binary);

impl RowOp for Pairwise {
    fn run(&self, _: &StepView<'_>, _: Row, inputs: &[&[f32]], out: &mut [f32]) {
        combine(self.0, inputs[0], inputs[1], out);
    }
}

/// `out[i] = f(x[i], weight[i * weight_len / x_len])`.
pub(crate) struct Weighted {
    pub(crate) f: Binary,
    pub(crate) weight: Arc<[f32]>,
}

impl RowOp for Weighted {
    fn run(&self, _: &StepView<'_>, _: Row, inputs: &[&[f32]], out: &mut [f32]) {
        combine(self.f, inputs[0], &self.weight, out);
    }
}

/// `out[i] = by * x[i]`.
pub(crate) struct Scale(pub(crate) f32);

impl RowOp for Scale {
    fn run(&self, _: &StepView<'_>, _: Row, inputs: &[&[f32]], out: &mut [f32]) {
        out.iter_mut().zip(inputs[0]).for_each(|(o, x)| *o = self.0 * x);
    }
}

/// Each number of `b` serves a run of `a`.
fn combine(f: Binary, a: &[f32], b: &[f32], out: &mut [f32]) {
    if a.len() != b.len() {
        let run = a.len() / b.len();
        for ((out, a), b) in out.chunks_exact_mut(run).zip(a.chunks_exact(run)).zip(b) {
            match f {
                Binary::Add => out.iter_mut().zip(a).for_each(|(o, a)| *o = a + b),
                Binary::Mul => out.iter_mut().zip(a).for_each(|(o, a)| *o = a * b),
            }
        }
        return;
    }
    let pairs = out.iter_mut().zip(a.iter().zip(b));
    match f {
        Binary::Add => pairs.for_each(|(o, (a, b))| *o = a + b),
        Binary::Mul => pairs.for_each(|(o, (a, b))| *o = a * b),
    }
}
