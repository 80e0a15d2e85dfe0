//! What both formats ask of where tensors lie.

use crate::{Mapping, Tensor};
use onebit_quants::WeightType;
use std::sync::Arc;

/// A tensor as a file's header describes it, checked against the file's length.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) ty: WeightType,
    /// Outermost first.
    pub(crate) shape: Vec<usize>,
    /// From the start of the file.
    pub(crate) offset: usize,
    pub(crate) len: usize,
}

impl Entry {
    /// The tensor in its file.
    pub(crate) fn tensor(self, file: &Arc<Mapping>) -> Tensor {
        Tensor::new(self.name, self.ty, self.shape, Arc::clone(file), self.offset, self.len)
    }
}

/// The product of the dimensions, `None` where it overflows.
pub(crate) fn product(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1usize, |a, d| a.checked_mul(*d))
}
