//! `out[i] = f(gate[i]) * up[i]`.

use super::{Row, RowOp, math};
use crate::{exec::step::StepView, isa::Isa};
use onebit_plan::Function;

pub(crate) struct Glu {
    pub(crate) f: Function,
    pub(crate) isa: Isa,
}

impl RowOp for Glu {
    fn run(&self, _: &StepView<'_>, _: Row, inputs: &[&[f32]], out: &mut [f32]) {
        math::apply_times(self.isa, self.f, inputs[0], inputs[1], out);
    }
}
