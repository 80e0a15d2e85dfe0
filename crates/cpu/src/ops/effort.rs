//! What an op has to do in a step, whatever its kernels: the share of the machine that it got is told by it.

use crate::{exec::step::StepView, matmul::Matrix};
use serde::Serialize;
use std::ops::AddAssign;

/// Weights, caches and states that are read, and numbers of them that are multiplied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Effort {
    /// Bytes that are read at least once: weights, key/value caches and recurrent states. What a step makes itself, which stays
    /// in caches, does not count.
    pub bytes: u64,
    /// Multiplications, each with its addition.
    pub products: u64,
}

impl AddAssign for Effort {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.products += other.products;
    }
}

impl Effort {
    /// A matrix times so many columns.
    pub(crate) fn product(matrix: &Matrix, columns: usize) -> Self {
        let products = matrix.rows() as u64 * matrix.columns() as u64 * columns as u64;
        Self { bytes: if columns == 0 { 0 } else { matrix.resident_bytes() as u64 }, products }
    }
    /// A state of `bytes` bytes for each span, each number of which a token multiplies `products` times in all.
    pub(crate) fn state(view: &StepView<'_>, bytes: usize, products: usize) -> Self {
        let (spans, tokens) = (view.batch.spans.len() as u64, view.batch.tokens.len() as u64);
        Self { bytes: spans * bytes as u64, products: tokens * products as u64 }
    }
}

impl std::iter::Sum for Effort {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, one| {
            sum += one;
            sum
        })
    }
}
