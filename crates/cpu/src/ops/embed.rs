//! Rows of a table, by token or position.

use super::{Row, RowOp};
use crate::{exec::step::StepView, matmul::Matrix};
use onebit_plan::{Weight, ops::Lookup};
use std::{cell::RefCell, sync::Arc};

/// Where the table is.
pub(crate) enum Table {
    /// Packed for products, as it is the output matrix too: a weight has one home.
    Packed(Arc<Matrix>),
    /// In the file: a token reads one row.
    File(Weight),
}

pub(crate) struct Embed {
    pub(crate) table: Table,
    pub(crate) by: Lookup,
    pub(crate) scale: f32,
}

thread_local! {
    /// Where a row is put together that does not lie in the file as it is; kept, so that a token allocates nothing.
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(vec![]) };
}

impl Table {
    fn rows(&self) -> usize {
        match self {
            Self::Packed(matrix) => matrix.rows(),
            Self::File(weight) => weight.rows(),
        }
    }
    /// Decodes a row.
    pub(crate) fn row(&self, row: usize, out: &mut [f32]) {
        match self {
            Self::Packed(matrix) => matrix.row_f32(row, out),
            Self::File(weight) => {
                ROOM.with_borrow_mut(|room| weight.ty.decode(weight.row(row, room), out));
                weight.edit.apply(out);
            }
        }
    }
}

impl RowOp for Embed {
    fn run(&self, _: &StepView<'_>, row: Row, _: &[&[f32]], out: &mut [f32]) {
        self.table.row(self.by.row(row.id, row.position, self.table.rows()), out);
        if self.scale != 1.0 {
            out.iter_mut().for_each(|o| *o *= self.scale);
        }
    }
}
