//! The other operand of a product: columns, one for each token.

use super::{codes::BLOCK, memory::Memory};
use crate::isa::{Isa, Level};
use onebit_plan::DeviceError;

/// How a matrix wants its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ActivationKind {
    /// f32 as they are.
    F32,
    /// Whole numbers from -127 to 127 with an f32 scale for each 32, the last padded with zeros.
    Int8,
}

/// Thirty-two values of a column in [`ActivationKind::Int8`], with the sums that offsets of weights are multiplied by: one cache line.
///
/// The scale is the largest magnitude over 127, and codes are rounded to the nearest, ties to even. A block without a
/// value above [`TINY`] is zero. A block with a NaN or an infinity has a NaN as its scale, so that every output that it
/// has a part in is NaN, and no other.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(64))]
pub(super) struct Block {
    /// Codes.
    pub(super) codes: [i8; BLOCK],
    /// What one step is worth.
    pub(super) scale: f32,
    /// Sum of all codes.
    pub(super) sum: i32,
    /// Sums of the first and the last 16 codes.
    pub(super) sums: [i32; 2],
    /// `scale * sum`.
    pub(super) weighted: f32,
    /// `scale * sums`.
    pub(super) weighteds: [f32; 2],
}

/// Below this, 127 over the magnitude could overflow.
const TINY: f32 = 1e-30;

impl Block {
    /// Quantizes up to 32 values; values that are missing are zero. What the other ways to do it are compared with.
    pub(super) fn quantize(x: &[f32]) -> Self {
        let mut codes = [0; BLOCK];
        // As integers, magnitudes order as numbers do, with infinities and NaNs above all.
        let largest = x.iter().map(|v| v.to_bits() & 0x7fff_ffff).max().map_or(0.0, f32::from_bits);
        let (scale, inverse) = scale(largest);
        if inverse != 0.0 {
            for (q, v) in codes.iter_mut().zip(x) {
                *q = (v * inverse).round_ties_even() as i8;
            }
        }
        let (first, last) = codes.split_at(BLOCK / 2);
        Self::new(codes, scale, [first, last].map(|half| half.iter().map(|q| i32::from(*q)).sum()))
    }
    /// Whether all is the same, NaNs included.
    #[cfg(test)]
    pub(super) fn same(&self, other: &Self) -> bool {
        let floats = |b: &Self| [b.scale, b.weighted, b.weighteds[0], b.weighteds[1]].map(|v| if v.is_nan() { 1 } else { v.to_bits() });
        (self.codes, self.sum, self.sums, floats(self)) == (other.codes, other.sum, other.sums, floats(other))
    }
    /// Codes with their sums, of the first half and the last.
    #[inline(always)]
    pub(super) fn new(codes: [i8; BLOCK], scale: f32, sums: [i32; 2]) -> Self {
        let sum = sums[0] + sums[1];
        Self { codes, scale, sum, sums, weighted: scale * sum as f32, weighteds: sums.map(|s| scale * s as f32) }
    }
}

/// The scale of a block from its largest magnitude, and what values are multiplied by: zero where codes are all zero.
#[inline(always)]
pub(super) fn scale(largest: f32) -> (f32, f32) {
    match largest {
        l if !l.is_finite() => (f32::NAN, 0.0),
        l if l < TINY => (0.0, 0.0),
        l => (l / 127.0, 127.0 / l),
    }
}

/// Columns in one kind, as many as were asked for at the start: filled anew for each product.
pub struct Activations {
    kind: ActivationKind,
    isa: Isa,
    columns: usize,
    width: usize,
    /// Bytes from one column to the next.
    stride: usize,
    memory: Memory,
}

impl Activations {
    /// Room for `columns` columns of `width` values, zero at first.
    pub fn new(kind: ActivationKind, columns: usize, width: usize, isa: Isa) -> Result<Self, DeviceError> {
        let blocks = width.div_ceil(BLOCK);
        let bytes = match kind {
            ActivationKind::F32 => blocks * BLOCK * size_of::<f32>(),
            ActivationKind::Int8 => blocks * size_of::<Block>(),
        };
        // An odd number of cache lines, so that the same place of several columns is never in the same set of the cache.
        let lines = bytes.div_ceil(64) | 1;
        let stride = lines * 64;
        let what = || format!("activations of {columns} tokens, {width} wide");
        let memory = Memory::zeroed(columns.saturating_mul(stride), what)?;
        Ok(Self { kind, isa, columns, width, stride, memory })
    }
    /// The kind of columns.
    pub fn kind(&self) -> ActivationKind {
        self.kind
    }
    /// How many there is room for.
    pub fn columns(&self) -> usize {
        self.columns
    }
    /// Values in each.
    pub fn width(&self) -> usize {
        self.width
    }
    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.memory.len()
    }
    /// Bytes from one column to the next.
    pub(super) fn stride(&self) -> usize {
        self.stride
    }
    /// The blocks of an int8 column.
    #[cfg(test)]
    pub(super) fn blocks(&mut self, column: usize) -> &[Block] {
        assert_eq!(self.kind, ActivationKind::Int8);
        // SAFETY: a column holds so many blocks, and is borrowed.
        unsafe { std::slice::from_raw_parts(self.column(column).cast(), self.width.div_ceil(BLOCK)) }
    }
    /// The first byte of a column.
    pub(super) fn column(&self, column: usize) -> *mut u8 {
        assert!(column < self.columns, "column {column} of {}", self.columns);
        // SAFETY: within the memory, as `column < columns`.
        unsafe { self.memory.as_ptr().add(column * self.stride) }
    }
    /// Sets a column to `x`.
    pub fn set(&mut self, column: usize, x: &[f32]) {
        // SAFETY: nobody else has the activations.
        unsafe { self.fill(column, x) }
    }
    /// As [`Activations::set`], for several threads at once.
    ///
    /// # Safety
    /// No other thread reads or writes this column at the same time.
    pub unsafe fn fill(&self, column: usize, x: &[f32]) {
        // SAFETY: the caller's promise.
        unsafe { self.fill_part(column, 0, x) }
    }
    /// Sets the values of a column from `start` on, a multiple of 32; `x` ends at a multiple of 32 too, or with the column.
    ///
    /// # Safety
    /// No other thread reads or writes this part of the column at the same time.
    pub unsafe fn fill_part(&self, column: usize, start: usize, x: &[f32]) {
        assert!(start.is_multiple_of(BLOCK) && (x.len().is_multiple_of(BLOCK) || start + x.len() == self.width));
        assert!(start + x.len() <= self.width, "{} values from {start} on in a column of {}", x.len(), self.width);
        let p = self.column(column);
        match self.kind {
            // SAFETY: the column has room for `width` f32, and nobody else uses these now. What lies beyond `width` stays zero.
            ActivationKind::F32 => unsafe { p.cast::<f32>().add(start).copy_from_nonoverlapping(x.as_ptr(), x.len()) },
            ActivationKind::Int8 => {
                // SAFETY: as above, with one `Block` for each 32 values; every bit pattern is a `Block`.
                let blocks = unsafe { std::slice::from_raw_parts_mut(p.cast::<Block>().add(start / BLOCK), x.len().div_ceil(BLOCK)) };
                quantize(self.isa, x, blocks);
            }
        }
    }
}

/// Quantizes a row.
fn quantize(isa: Isa, x: &[f32], out: &mut [Block]) {
    let (whole, rest) = x.as_chunks::<BLOCK>();
    let (blocks, last) = out.split_at_mut(whole.len());
    match isa.level() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Isa` stands for the instructions being there.
        Level::Avx512 => unsafe { super::avx512::quantize(whole, blocks) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx2 => unsafe { super::avx2::quantize(whole, blocks) },
        _ => whole.iter().zip(blocks).for_each(|(x, out)| *out = Block::quantize(x)),
    }
    if let Some(last) = last.first_mut() {
        *last = Block::quantize(rest);
    }
}
