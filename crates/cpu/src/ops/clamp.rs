//! `out[i] = min(max(x[i], low), high)`.

use super::{Row, RowOp};
use crate::exec::step::StepView;

pub(crate) struct Clamp {
    pub(crate) low: f32,
    pub(crate) high: f32,
}

impl RowOp for Clamp {
    fn run(&self, _: &StepView<'_>, _: Row, inputs: &[&[f32]], out: &mut [f32]) {
        out.iter_mut().zip(inputs[0]).for_each(|(o, x)| *o = x.clamp(self.low, self.high));
    }
}
