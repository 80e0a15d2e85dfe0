//! The other operand of a product: columns, one for each token.

#[cfg(target_arch = "x86_64")]
use super::amx::Sixteen;
use super::{codes::BLOCK, memory::Memory};
use crate::isa::{Isa, Level};
use onebit_plan::{ActivationKind, DeviceError};

/// Thirty-two values of a column, rounded to whole numbers, with the sums that offsets of weights are multiplied by.
///
/// A value is `scale * Σ BASE^(PLANES - 1 - p) * codes[p]`, each code from -127 to 127: one plane holds 8 bits
/// ([`ActivationKind::Int8`], one cache line), two hold 15 ([`ActivationKind::Int16`], two lines).
///
/// The scale is the largest magnitude over the largest number that the planes hold, and numbers are rounded to the nearest,
/// ties to even. A block without a value above [`TINY`] is zero. A block with a NaN or an infinity has a NaN as its scale, so
/// that every output that it has a part in is NaN, and no other.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(64))]
pub(super) struct Block<const PLANES: usize> {
    /// Codes, the highest plane first.
    pub(super) codes: [[i8; BLOCK]; PLANES],
    /// What one step is worth.
    pub(super) scale: f32,
    /// Sums of all codes.
    pub(super) sum: [i32; PLANES],
    /// Sums of the first and the last 16 codes.
    pub(super) sums: [[i32; 2]; PLANES],
    /// `scale` times the sum of all numbers.
    pub(super) weighted: f32,
    /// `scale` times the sums of the first and the last 16 numbers.
    pub(super) weighteds: [f32; 2],
}

/// What a step of the higher plane is worth in steps of the lower one: as many numbers as a code has, so that every
/// number up to `127 * BASE` has two codes from -127 to 127.
pub(super) const BASE: i32 = 254;

/// Columns that are stored together for tiles.
pub(super) const COLUMNS: usize = 16;

/// Below this, the largest number over the magnitude could overflow.
const TINY: f32 = 1e-30;

impl<const PLANES: usize> Block<PLANES> {
    /// The largest number that the planes hold.
    pub(super) const LARGEST: f32 = if PLANES == 1 { 127.0 } else { (127 * BASE) as f32 };

    /// A block of 32 values; `avx2` has the same in vectors.
    pub(super) fn quantize(x: &[f32; BLOCK]) -> Self {
        // As integers, magnitudes order as numbers do, with infinities and NaNs above all.
        let largest = f32::from_bits(x.iter().fold(0, |m, v| m.max(v.to_bits() & 0x7fff_ffff)));
        let (scale, inverse) = scale(largest, Self::LARGEST);
        let mut codes = [[0; BLOCK]; PLANES];
        if inverse != 0.0 {
            for (i, v) in x.iter().enumerate() {
                let number = v * inverse;
                if PLANES == 1 {
                    codes[0][i] = number.round_ties_even() as i8;
                } else {
                    let number = number.round_ties_even();
                    let high = (number * (1.0 / BASE as f32)).round_ties_even();
                    codes[0][i] = high as i8;
                    codes[1][i] = (number - high * BASE as f32) as i8;
                }
            }
        }
        let half = |codes: &[i8]| codes.iter().map(|q| i32::from(*q)).sum();
        let sums = codes.map(|plane| [half(&plane[..BLOCK / 2]), half(&plane[BLOCK / 2..])]);
        Self::new(codes, scale, sums)
    }
    /// Codes with their sums, of the first half and the last.
    #[inline(always)]
    pub(super) fn new(codes: [[i8; BLOCK]; PLANES], scale: f32, sums: [[i32; 2]; PLANES]) -> Self {
        let numbers = sums.iter().fold([0, 0], |above, s| [above[0] * BASE + s[0], above[1] * BASE + s[1]]);
        let weighteds = numbers.map(|n| scale * n as f32);
        Self { codes, scale, sum: sums.map(|s| s[0] + s[1]), sums, weighted: scale * (numbers[0] + numbers[1]) as f32, weighteds }
    }
}

/// The scale of a block from its largest magnitude and the number that stands for it, and what values are multiplied by:
/// zero where codes are all zero.
#[inline(always)]
pub(super) fn scale(largest: f32, number: f32) -> (f32, f32) {
    match largest {
        l if !l.is_finite() => (f32::NAN, 0.0),
        l if l < TINY => (0.0, 0.0),
        l => (l / number, number / l),
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
    /// The same once more as `Sixteen`s, whole columns of them one after the other, where tiles are multiplied.
    tiles: Option<Memory>,
}

impl Activations {
    /// Room for `columns` columns of `width` values, zero at first.
    pub fn new(kind: ActivationKind, columns: usize, width: usize, isa: Isa) -> Result<Self, DeviceError> {
        let blocks = width.div_ceil(BLOCK);
        let bytes = match kind {
            ActivationKind::F32 => blocks * BLOCK * size_of::<f32>(),
            ActivationKind::Int8 => blocks * size_of::<Block<1>>(),
            ActivationKind::Int16 => blocks * size_of::<Block<2>>(),
        };
        // An odd number of cache lines, so that the same place of several columns is never in the same set of the cache.
        let lines = bytes.div_ceil(64) | 1;
        let stride = lines * 64;
        let what = || format!("activations of {columns} tokens, {width} wide");
        let memory = Memory::zeroed(columns.saturating_mul(stride), what)?;
        let tiles = match sixteen_bytes(kind) {
            0 => None,
            _ if isa.level() < Level::Amx => None,
            bytes => Some(Memory::zeroed((columns.div_ceil(COLUMNS) * blocks).saturating_mul(bytes), what)?),
        };
        Ok(Self { kind, isa, columns, width, stride, memory, tiles })
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
        self.memory.len() + self.tiles.as_ref().map_or(0, Memory::len)
    }
    /// At most so many bytes are taken for a value.
    pub(crate) fn value_bytes(isa: Isa) -> usize {
        let tiles = if isa.level() < Level::Amx { 0 } else { sixteen_bytes(ActivationKind::Int16).div_ceil(COLUMNS * BLOCK) };
        size_of::<f32>() + tiles
    }
    /// Bytes from one column to the next.
    pub(super) fn stride(&self) -> usize {
        self.stride
    }
    /// The blocks of a column in the kind that has `PLANES` planes.
    #[cfg(test)]
    pub(super) fn blocks<const PLANES: usize>(&mut self, column: usize) -> &[Block<PLANES>] {
        assert_eq!(self.kind, if PLANES == 1 { ActivationKind::Int8 } else { ActivationKind::Int16 });
        // SAFETY: a column holds so many blocks, and is borrowed.
        unsafe { std::slice::from_raw_parts(self.column(column).cast(), self.width.div_ceil(BLOCK)) }
    }
    /// The first byte of a column.
    pub(super) fn column(&self, column: usize) -> *mut u8 {
        assert!(column < self.columns, "column {column} of {}", self.columns);
        // SAFETY: within the memory, as `column < columns`.
        unsafe { self.memory.as_ptr().add(column * self.stride) }
    }
    /// Columns from `column` on, a multiple of 16, as `Sixteen`s.
    pub(super) fn tiles(&self, column: usize) -> *mut u8 {
        assert!(column < self.columns && column.is_multiple_of(COLUMNS), "column {column} of {}", self.columns);
        let offset = column / COLUMNS * self.width.div_ceil(BLOCK) * sixteen_bytes(self.kind);
        let tiles = self.tiles.as_ref().expect("columns stored for tiles");
        // SAFETY: within the memory, as `column < columns`.
        unsafe { tiles.as_ptr().add(offset) }
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
            // SAFETY: as above, with one block for each 32 values; every bit pattern is a block.
            ActivationKind::Int8 => unsafe { self.quantize::<1>(column, start, x) },
            // SAFETY: as above.
            ActivationKind::Int16 => unsafe { self.quantize::<2>(column, start, x) },
        }
    }
    /// Quantizes the values of a column from `start` on.
    ///
    /// # Safety
    /// Columns have the kind of so many planes, and nobody else uses these values now.
    unsafe fn quantize<const PLANES: usize>(&self, column: usize, start: usize, x: &[f32]) {
        // SAFETY: the caller's promise; a column has a block for each 32 values.
        let blocks = unsafe { quantize::<PLANES>(self.isa, self.column(column), start, x) };
        #[cfg(target_arch = "x86_64")]
        if self.tiles.is_some() {
            let first = self.tiles(column / COLUMNS * COLUMNS).cast::<Sixteen<PLANES>>();
            // SAFETY: as above.
            unsafe { Sixteen::put(first.add(start / BLOCK), column % COLUMNS, blocks) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = blocks;
    }
}

/// Bytes of 16 columns' block as a `Sixteen`.
fn sixteen_bytes(kind: ActivationKind) -> usize {
    match kind {
        #[cfg(target_arch = "x86_64")]
        ActivationKind::Int8 => size_of::<Sixteen<1>>(),
        #[cfg(target_arch = "x86_64")]
        ActivationKind::Int16 => size_of::<Sixteen<2>>(),
        _ => 0,
    }
}

/// Quantizes values `start..` of the column at `p`; their blocks.
///
/// # Safety
/// The column has room for the blocks, and nobody else uses them while the result lives.
unsafe fn quantize<'a, const PLANES: usize>(isa: Isa, p: *mut u8, start: usize, x: &[f32]) -> &'a [Block<PLANES>] {
    let (whole, rest) = x.as_chunks::<BLOCK>();
    // SAFETY: the caller's promise.
    let out = unsafe { std::slice::from_raw_parts_mut(p.cast::<Block<PLANES>>().add(start / BLOCK), x.len().div_ceil(BLOCK)) };
    let (blocks, last) = out.split_at_mut(whole.len());
    match isa.level() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Isa` stands for the instructions being there.
        Level::Avx2 | Level::Avx512 | Level::Amx => unsafe { super::avx2::quantize(whole, blocks) },
        _ => whole.iter().zip(blocks).for_each(|(x, out)| *out = Block::quantize(x)),
    }
    if let Some(last) = last.first_mut() {
        let mut padded = [0.0; BLOCK];
        padded[..rest.len()].copy_from_slice(rest);
        *last = Block::quantize(&padded);
    }
    out
}
