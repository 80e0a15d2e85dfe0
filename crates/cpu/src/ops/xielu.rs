//! xIELU, number by number.

use super::{Row, RowOp};
use crate::exec::step::StepView;
use onebit_plan::ops::Xielu;

impl RowOp for Xielu {
    fn run(&self, _: &StepView<'_>, _: Row, inputs: &[&[f32]], out: &mut [f32]) {
        out.iter_mut().zip(inputs[0]).for_each(|(o, x)| *o = self.apply(*x));
    }
}
