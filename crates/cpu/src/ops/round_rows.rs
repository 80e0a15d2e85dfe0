//! Each row rounded to 8 bits.

use super::{Row, RowOp};
use crate::exec::step::StepView;

pub(crate) struct RoundRows;

impl RowOp for RoundRows {
    fn run(&self, _: &StepView<'_>, _: Row, inputs: &[&[f32]], out: &mut [f32]) {
        onebit_plan::RoundRows::apply(inputs[0], out);
    }
}
