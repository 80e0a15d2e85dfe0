//! A factor that grows with the position.

use super::{Row, RowOp};
use crate::exec::step::StepView;
use onebit_plan::ops::PositionScale;

impl RowOp for PositionScale {
    fn run(&self, _: &StepView<'_>, row: Row, inputs: &[&[f32]], out: &mut [f32]) {
        let factor = self.factor(row.position);
        out.iter_mut().zip(inputs[0]).for_each(|(o, x)| *o = x * factor);
    }
}
