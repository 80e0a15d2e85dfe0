use crate::{Tensor, tensor::Rows};

/// Matrices whose columns are handed out as rows.
#[derive(Debug)]
pub(crate) struct Transposed {
    /// What is stored, values by themselves.
    pub(crate) of: [Tensor; 1],
    /// Stored rows of a matrix, which are columns of its transpose.
    pub(crate) columns: usize,
}

impl Rows for Transposed {
    fn row(&self, row: usize, out: &mut [u8]) {
        let [of] = &self.of;
        let (size, stride) = (of.ty().block_bytes(), of.columns());
        let (matrix, column) = (row / stride, row % stride);
        let Some(bytes) = of.in_file() else { return };
        let first = matrix * self.columns * stride + column;
        for (i, out) in out.chunks_exact_mut(size).enumerate() {
            let from = (first + i * stride) * size;
            out.copy_from_slice(&bytes[from..from + size]);
        }
    }
    fn stored(&self) -> &[Tensor] {
        &self.of
    }
    fn scheme(&self) -> &str {
        "transposed"
    }
}
