//! What both formats ask of where tensors lie.

use crate::{Mapping, Tensor, gguf};
use onebit_quants::{U8, WeightType};
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
    /// Whether the bytes are not blocks of `ty`, but I2_S.
    pub(crate) i2_s: bool,
}

impl Entry {
    /// The tensor in its file.
    pub(crate) fn tensor(self, file: &Arc<Mapping>) -> Tensor {
        if self.i2_s {
            let stored = Tensor::new(self.name, U8, vec![self.len], Arc::clone(file), self.offset, self.len);
            return gguf::i2_s::tensor(stored, self.shape);
        }
        Tensor::new(self.name, self.ty, self.shape, Arc::clone(file), self.offset, self.len)
    }
}

/// The product of the dimensions, `None` where it overflows.
pub(crate) fn product(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1usize, |a, d| a.checked_mul(*d))
}
