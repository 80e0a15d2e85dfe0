//! Some of the rows or columns of a tensor, put together when they are read.

use crate::{Tensor, tensor::Rows};
use std::sync::Arc;

impl Tensor {
    /// Rows `start`, `start + step`, ... of each matrix (the two innermost dimensions); `None` where `step` does not divide them.
    pub fn every_row(&self, start: usize, step: usize) -> Option<Self> {
        let [outer @ .., rows, columns] = self.shape() else { return None };
        if step == 0 || start >= step || !rows.is_multiple_of(step) {
            return None;
        }
        let shape = [outer, &[rows / step, *columns]].concat();
        Some(Self::made(self.name().into(), self.ty(), shape, Arc::new(EveryRow { of: Stored::new(self), start, step })))
    }

    /// Numbers `start`, `start + step`, ... of each row; `None` where `step` does not divide rows, or the type has blocks.
    pub fn every_column(&self, start: usize, step: usize) -> Option<Self> {
        let [outer @ .., columns] = self.shape() else { return None };
        if step == 0 || start >= step || !columns.is_multiple_of(step) || self.ty().block_values() != 1 {
            return None;
        }
        let shape = [outer, &[columns / step]].concat();
        Some(Self::made(self.name().into(), self.ty(), shape, Arc::new(EveryColumn { of: Stored::new(self), start, step })))
    }
}

/// The tensor that is seen.
#[derive(Debug)]
struct Stored {
    tensors: [Tensor; 1],
    scheme: String,
}

impl Stored {
    fn new(tensor: &Tensor) -> Self {
        Self { tensors: [tensor.clone()], scheme: tensor.stored_as().into() }
    }
    fn tensor(&self) -> &Tensor {
        &self.tensors[0]
    }
}

/// What all views answer alike.
macro_rules! stored {
    () => {
        fn stored(&self) -> &[Tensor] {
            &self.of.tensors
        }
        fn scheme(&self) -> &str {
            &self.of.scheme
        }
        fn rounds_input(&self) -> bool {
            self.of.tensor().rounds_input()
        }
    };
}

#[derive(Debug)]
struct EveryRow {
    of: Stored,
    start: usize,
    step: usize,
}

impl Rows for EveryRow {
    fn row(&self, row: usize, out: &mut [u8]) {
        // Steps divide matrices, so that rows can be counted through them.
        out.copy_from_slice(self.of.tensor().row(row * self.step + self.start, &mut vec![]));
    }
    stored!();
}

#[derive(Debug)]
struct EveryColumn {
    of: Stored,
    start: usize,
    step: usize,
}

impl Rows for EveryColumn {
    fn row(&self, row: usize, out: &mut [u8]) {
        let size = self.of.tensor().ty().block_bytes();
        let mut room = vec![];
        let values = self.of.tensor().row(row, &mut room).chunks_exact(size).skip(self.start).step_by(self.step);
        out.chunks_exact_mut(size).zip(values).for_each(|(out, value)| out.copy_from_slice(value));
    }
    stored!();
}
