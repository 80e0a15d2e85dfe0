//! `out[i] = f(x[i])`.

use super::{Row, RowOp, math};
use crate::{exec::step::StepView, isa::Isa};
use onebit_plan::Function;

pub(crate) struct Elementwise {
    pub(crate) f: Function,
    pub(crate) isa: Isa,
}

impl RowOp for Elementwise {
    fn run(&self, _: &StepView<'_>, _: Row, inputs: &[&[f32]], out: &mut [f32]) {
        math::apply(self.isa, self.f, inputs[0], out);
    }
}
