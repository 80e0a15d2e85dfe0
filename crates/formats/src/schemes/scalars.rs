//! Single numbers of a mapped tensor: scales and zero points, read where they are needed.

use crate::Tensor;
use onebit_quants::{BF16, F16, F32, WeightType};

/// Numbers of a tensor that lies in a file.
#[derive(Debug)]
pub(crate) struct Scalars(Tensor);

impl Scalars {
    /// `tensor`, which lies in a file and has one value to a block.
    pub(crate) fn new(tensor: Tensor) -> Self {
        Self(tensor)
    }
    /// The stored bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.in_file().unwrap_or(&[])
    }
    /// Number `index`, as f32.
    pub(crate) fn get(&self, index: usize) -> f32 {
        let mut out = [0.0];
        let n = self.0.ty().block_bytes();
        self.0.ty().decode(&self.bytes()[index * n..][..n], &mut out);
        out[0]
    }
    /// Word `index` of a tensor of 32-bit integers.
    pub(crate) fn word(&self, index: usize) -> u32 {
        let b = &self.bytes()[index * 4..][..4];
        u32::from_le_bytes([b[0], b[1], b[2], b[3]])
    }
}

/// What scales and offsets are usually stored as.
pub(crate) const FLOATS: &[WeightType] = &[F16, BF16, F32];
