//! Packed weights and their products.
//!
//! A weight is brought once into panels of 16 rows ([`Matrix::pack`]), in a layout ("form") that has the file's bits per
//! weight but lets one register hold the same columns of 16 rows: codes (`codes`) and scales (`scales`) in their kinds.
//! Columns (tokens) come as [`Activations`]; [`matmul`] multiplies a range of rows with a range of columns. A thread calls
//! it with its part of the rows; nothing is allocated and no thread waits.
//!
//! Kernels (`integer`, `dense`) are written over the vector operations of `simd`, which `scalar`, `avx2` and `avx512`
//! implement; where the processor multiplies tiles, `amx` takes sixteen columns and more. All give the same bits, and what a (row, column) gives depends on neither the number of columns nor the
//! division among threads. A weight type without a form of its own takes the smallest general form that holds it (`form`).

mod activations;
#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod codes;
mod dense;
mod form;
mod integer;
mod kernel;
mod memory;
mod pack;
mod scalar;
mod scales;
mod simd;
#[cfg(test)]
mod tests;

pub use activations::Activations;
pub use onebit_plan::ActivationKind;

use kernel::{Geometry, Kernels, Task};
use memory::Memory;
use simd::ROWS;
use std::ops::Range;

/// A matrix `[rows, columns]` in the layout that kernels want.
pub struct Matrix {
    rows: usize,
    columns: usize,
    activation: ActivationKind,
    kernels: Kernels,
    geometry: Geometry,
    memory: Memory,
}

impl Matrix {
    /// Outputs.
    pub fn rows(&self) -> usize {
        self.rows
    }
    /// Inputs.
    pub fn columns(&self) -> usize {
        self.columns
    }
    /// Bytes in memory.
    pub fn resident_bytes(&self) -> usize {
        self.memory.len()
    }
    /// The kind of columns that it is multiplied with.
    pub fn activation(&self) -> ActivationKind {
        self.activation
    }
    /// Rows come in multiples of this when they are divided among threads.
    pub fn row_step(&self) -> usize {
        ROWS
    }
    /// Decodes the first values of a row, as many as `out` has room for: the exact values of the weight.
    pub fn row_f32(&self, row: usize, out: &mut [f32]) {
        assert!(row < self.rows && out.len() <= self.columns, "{} values of row {row} of {}", out.len(), self.rows);
        // SAFETY: the row lies within the matrix, which was packed in the form that the kernels are for, and `Isa` stands for
        // the instructions being there.
        unsafe { (self.kernels.decode)(self.geometry.at(self.memory.as_ptr(), row), row % ROWS, out) }
    }
}

/// Where results go: row `row` of column `column` at `start[column * stride + row]`. Threads write disjoint parts of it at once.
#[derive(Clone, Copy)]
pub struct SharedRows {
    start: *mut f32,
    columns: usize,
    rows: usize,
    stride: usize,
}

// SAFETY: whoever makes one promises that its users write disjoint parts; see `SharedRows::new`.
unsafe impl Send for SharedRows {}
// SAFETY: as above.
unsafe impl Sync for SharedRows {}

impl SharedRows {
    /// A buffer of `columns` columns of `rows` numbers, each `stride` numbers after the one before.
    ///
    /// # Safety
    /// Until the last use of the result, `start` is valid for writes of `(columns - 1) * stride + rows` numbers, and calls of
    /// [`matmul`] that run at the same time get disjoint rows or columns, which nobody else reads or writes then.
    pub unsafe fn new(start: *mut f32, columns: usize, rows: usize, stride: usize) -> Self {
        assert!(stride >= rows || columns <= 1);
        Self { start, columns, rows, stride }
    }
}

/// Bytes of a matrix that are multiplied with all columns before the next are: they stay in the second-level cache meanwhile.
const CHUNK_BYTES: usize = 128 << 10;

/// `y[column][row] = Σ matrix[row][k] * x[column][k]` for all `columns` and `rows`.
///
/// `rows` begins with a multiple of [`Matrix::row_step`] and ends with one or with the last row. Panics when kinds, sizes
/// or ranges do not fit.
pub fn matmul(matrix: &Matrix, x: &Activations, columns: Range<usize>, rows: Range<usize>, y: &SharedRows) {
    if columns.is_empty() || rows.is_empty() {
        return;
    }
    assert!(x.kind() == matrix.activation && x.width() == matrix.columns, "columns do not fit the matrix");
    assert!(columns.end <= x.columns() && columns.end <= y.columns, "columns {columns:?} of {} and {}", x.columns(), y.columns);
    assert!(rows.end <= matrix.rows && rows.end <= y.rows, "rows {rows:?} of {} and {}", matrix.rows, y.rows);
    assert!(rows.start.is_multiple_of(ROWS) && (rows.end.is_multiple_of(ROWS) || rows.end == matrix.rows), "rows {rows:?} cut a panel");
    let chunk = (CHUNK_BYTES / matrix.geometry.panel).max(1) * ROWS;
    let mut row = rows.start;
    while row < rows.end {
        let end = (row + chunk).min(rows.end);
        let mut column = columns.start;
        let wide = matrix.kernels.wide.iter().map(|tile| (tile, true));
        for ((width, tile), wide) in wide.chain(matrix.kernels.tiles.iter().map(|tile| (tile, false))) {
            // Wide tiles begin where columns are stored for them.
            while columns.end - column >= *width && (!wide || column.is_multiple_of(*width)) {
                let task = Task {
                    start: matrix.memory.as_ptr(),
                    geometry: matrix.geometry,
                    rows: row..end,
                    x: if wide { x.tiles(column) } else { x.column(column) },
                    x_stride: x.stride(),
                    // SAFETY: the column lies within the buffer.
                    y: unsafe { y.start.add(column * y.stride) },
                    y_stride: y.stride,
                };
                // SAFETY: the matrix was packed in the form that the kernels are for, whose instructions `Isa` stands for; rows and
                // columns lie within it, `x` and `y` (asserted above); and the buffer's parts belong to this call alone.
                unsafe { tile(&task) };
                column += width;
            }
        }
        row = end;
    }
}
