//! Rows that the batch gives tokens.

use super::{Row, RowOp};
use crate::exec::step::StepView;

pub(crate) struct Given {
    /// Numbers of all that a token is given.
    pub(crate) width: usize,
    /// The first of those that are taken.
    pub(crate) start: usize,
    pub(crate) add: bool,
}

impl RowOp for Given {
    fn run(&self, view: &StepView<'_>, row: Row, inputs: &[&[f32]], out: &mut [f32]) {
        let given = view.batch.inputs.row(row.token, self.width).map(|all| &all[self.start..self.start + out.len()]);
        match (given, inputs.first()) {
            (Some(given), Some(x)) if self.add => out.iter_mut().zip(*x).zip(given).for_each(|((out, x), given)| *out = x + given),
            (Some(given), _) => out.copy_from_slice(given),
            (None, Some(x)) => out.copy_from_slice(x),
            (None, None) => unreachable!("the batch was checked: every token is given a row"),
        }
    }
}
