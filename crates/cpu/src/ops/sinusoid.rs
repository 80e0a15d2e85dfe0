//! Sines and cosines of positions.

use super::{Row, RowOp};
use crate::exec::step::StepView;

pub(crate) struct Sinusoid {
    pub(crate) frequencies: Vec<f32>,
    pub(crate) offset: usize,
}

impl RowOp for Sinusoid {
    fn run(&self, _: &StepView<'_>, row: Row, _: &[&[f32]], out: &mut [f32]) {
        let (sin, cos) = out.split_at_mut(self.frequencies.len());
        for ((f, sin), cos) in self.frequencies.iter().zip(sin).zip(cos) {
            (*sin, *cos) = ((row.position + self.offset) as f32 * f).sin_cos();
        }
    }
}
