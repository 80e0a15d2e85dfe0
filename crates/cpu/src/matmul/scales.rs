//! How scales and offsets lie in a panel: a plane of its own after all codes, in the order in which blocks read them,
//! the 16 rows side by side.

use super::{
    codes::BLOCK,
    simd::{ROWS, Simd},
};
use half::f16;
use onebit_quants::Codes as Split;

/// Scales (and offsets) of a block's 16 rows, or of a part of them: for the whole block, or for its two halves.
#[derive(Clone, Copy)]
pub(super) struct Affine<S: Simd> {
    /// `w = scale * code + offset`, first half.
    pub(super) scale: [S::Floats; 2],
    /// Unused where [`Scales::OFFSETS`] is false.
    pub(super) offset: [S::Floats; 2],
}

/// One block of a weight type.
pub(super) struct Source<'a> {
    /// As stored.
    pub(super) bytes: &'a [u8],
    /// Split into codes and scales.
    pub(super) codes: &'a Split,
    /// Values in the block.
    pub(super) values: usize,
}

/// A way to store scales.
pub(super) trait Scales: 'static {
    /// Scales in a block of 32 columns: 1, or 2 for groups of 16.
    const GROUPS: usize;
    /// Whether there are offsets.
    const OFFSETS: bool;

    /// Bytes of a panel's plane of `blocks` blocks, `2^span` of which share a scale.
    fn bytes(blocks: usize, span: u32) -> usize;
    /// Reads those of block `block`, rows from `row` on.
    ///
    /// # Safety
    /// As for [`Simd`]; `plane` is a panel's whole plane.
    unsafe fn load<S: Simd>(plane: *const u8, span: u32, block: usize, row: usize) -> Affine<S>;
    /// Writes those of one block of the weight type, which begins at column `32 * block` of row `row`.
    fn put(plane: &mut [u8], span: u32, row: usize, block: usize, from: &Source<'_>);
}

/// The same scale for both halves, or for those that there are.
fn same<S: Simd>(scale: S::Floats, offset: S::Floats) -> Affine<S> {
    Affine { scale: [scale; 2], offset: [offset; 2] }
}

fn put_f16(plane: &mut [u8], index: usize, v: f32) {
    // Exact: all that comes here was read from a binary16.
    plane[2 * index..][..2].copy_from_slice(&f16::from_f32(v).to_le_bytes());
}

fn put_f32(plane: &mut [u8], index: usize, v: f32) {
    plane[4 * index..][..4].copy_from_slice(&v.to_le_bytes());
}

/// One binary16 scale for 32 columns (Q4_0, Q5_0, Q8_0).
pub(super) struct Half;

impl Scales for Half {
    const GROUPS: usize = 1;
    const OFFSETS: bool = false;

    fn bytes(blocks: usize, _span: u32) -> usize {
        blocks * ROWS * 2
    }
    #[inline(always)]
    unsafe fn load<S: Simd>(plane: *const u8, _span: u32, block: usize, row: usize) -> Affine<S> {
        // SAFETY: the caller's promise.
        unsafe {
            let scale = S::f16s(plane.add((block * ROWS + row) * 2));
            same::<S>(scale, scale)
        }
    }
    fn put(plane: &mut [u8], _span: u32, row: usize, block: usize, from: &Source<'_>) {
        put_f16(plane, block * ROWS + row, from.codes.scales[0]);
    }
}

/// A binary16 scale and a binary16 offset for 32 columns (Q4_1, Q5_1).
pub(super) struct HalfOffset;

impl Scales for HalfOffset {
    const GROUPS: usize = 1;
    const OFFSETS: bool = true;

    fn bytes(blocks: usize, _span: u32) -> usize {
        blocks * ROWS * 4
    }
    #[inline(always)]
    unsafe fn load<S: Simd>(plane: *const u8, _span: u32, block: usize, row: usize) -> Affine<S> {
        // SAFETY: the caller's promise.
        unsafe {
            let p = plane.add((2 * block * ROWS + row) * 2);
            same::<S>(S::f16s(p), S::f16s(p.add(2 * ROWS)))
        }
    }
    fn put(plane: &mut [u8], _span: u32, row: usize, block: usize, from: &Source<'_>) {
        put_f16(plane, 2 * block * ROWS + row, from.codes.scales[0]);
        put_f16(plane, (2 * block + 1) * ROWS + row, from.codes.offsets[0]);
    }
}

/// Blocks in a superblock of the K types.
const SUPER: usize = 256 / BLOCK;

/// Whole-number scales and minima for 32 columns, in binary16 units for 256 (Q4_K, Q5_K): for each 256 columns the units
/// of scales, the units of minima, then for each 32 the scales and the minima.
pub(super) struct SuperOffset;

impl SuperOffset {
    const BYTES: usize = 2 * ROWS * 2 + SUPER * 2 * ROWS;
}

impl Scales for SuperOffset {
    const GROUPS: usize = 1;
    const OFFSETS: bool = true;

    fn bytes(blocks: usize, _span: u32) -> usize {
        blocks / SUPER * Self::BYTES
    }
    #[inline(always)]
    unsafe fn load<S: Simd>(plane: *const u8, _span: u32, block: usize, row: usize) -> Affine<S> {
        // SAFETY: the caller's promise.
        unsafe {
            let units = plane.add(block / SUPER * Self::BYTES);
            let p = units.add(4 * ROWS + block % SUPER * 2 * ROWS + row);
            let (d, dmin) = (S::f16s(units.add(2 * row)), S::f16s(units.add(2 * ROWS + 2 * row)));
            // Products of 11 and 6 bits: exact.
            let minimum = S::mul(dmin, S::u8s(p.add(ROWS)));
            same::<S>(S::mul(d, S::u8s(p)), S::sub(S::splat(-0.0), minimum))
        }
    }
    fn put(plane: &mut [u8], _span: u32, row: usize, block: usize, from: &Source<'_>) {
        let out = &mut plane[block / SUPER * Self::BYTES..][..Self::BYTES];
        out[2 * row..][..2].copy_from_slice(&from.bytes[..2]);
        out[2 * ROWS + 2 * row..][..2].copy_from_slice(&from.bytes[2..4]);
        let packed = &from.bytes[4..16];
        for i in 0..SUPER {
            // Six bits each, as ggml packs them: the first four whole, the others with their upper two bits above the first four.
            let (scale, minimum) = match i {
                0..4 => (packed[i] & 63, packed[i + 4] & 63),
                _ => (packed[i + 4] & 15 | packed[i - 4] >> 6 << 4, packed[i + 4] >> 4 | packed[i] >> 6 << 4),
            };
            let at = 4 * ROWS + i * 2 * ROWS + row;
            out[at] = scale;
            out[at + ROWS] = minimum;
        }
    }
}

/// Whole-number scales for 16 columns, in a binary16 unit for 256, which the weight type stores at byte `UNIT` (Q3_K, Q6_K): for each
/// 256 columns the units, then for each 16 the scales.
pub(super) struct Super16<const UNIT: usize>;

impl<const UNIT: usize> Super16<UNIT> {
    const BYTES: usize = 2 * ROWS + 2 * SUPER * ROWS;
}

impl<const UNIT: usize> Scales for Super16<UNIT> {
    const GROUPS: usize = 2;
    const OFFSETS: bool = false;

    fn bytes(blocks: usize, _span: u32) -> usize {
        blocks / SUPER * Self::BYTES
    }
    #[inline(always)]
    unsafe fn load<S: Simd>(plane: *const u8, _span: u32, block: usize, row: usize) -> Affine<S> {
        // SAFETY: the caller's promise.
        unsafe {
            let units = plane.add(block / SUPER * Self::BYTES);
            let p = units.add(2 * ROWS + block % SUPER * 2 * ROWS + row);
            let d = S::f16s(units.add(2 * row));
            // Products of 11 and 8 bits: exact.
            let scale = [S::mul(d, S::i8s(p)), S::mul(d, S::i8s(p.add(ROWS)))];
            Affine { scale, offset: scale }
        }
    }
    fn put(plane: &mut [u8], _span: u32, row: usize, block: usize, from: &Source<'_>) {
        let out = &mut plane[block / SUPER * Self::BYTES..][..Self::BYTES];
        let unit = [from.bytes[UNIT], from.bytes[UNIT + 1]];
        out[2 * row..][..2].copy_from_slice(&unit);
        let unit = f16::from_le_bytes(unit).to_f32();
        for (i, scale) in from.codes.scales.iter().enumerate().take(2 * SUPER) {
            // What was multiplied exactly divides exactly; a unit of zero has scales of zero.
            let whole = if unit == 0.0 { 0.0 } else { scale / unit };
            out[2 * ROWS + i * ROWS + row] = whole as i8 as u8;
        }
    }
}

/// Scales and minima of four bits for 16 columns, in binary16 units for 256 (Q2_K): for each 256 columns the units of scales, the units
/// of minima, then for each 16 the scales and the minima.
pub(super) struct Super16Offset;

impl Super16Offset {
    const BYTES: usize = 4 * ROWS + 2 * SUPER * 2 * ROWS;
}

impl Scales for Super16Offset {
    const GROUPS: usize = 2;
    const OFFSETS: bool = true;

    fn bytes(blocks: usize, _span: u32) -> usize {
        blocks / SUPER * Self::BYTES
    }
    #[inline(always)]
    unsafe fn load<S: Simd>(plane: *const u8, _span: u32, block: usize, row: usize) -> Affine<S> {
        // SAFETY: the caller's promise.
        unsafe {
            let units = plane.add(block / SUPER * Self::BYTES);
            let p = units.add(4 * ROWS + block % SUPER * 4 * ROWS + row);
            let (d, dmin) = (S::f16s(units.add(2 * row)), S::f16s(units.add(2 * ROWS + 2 * row)));
            // Less from minus zero: a minimum of zero keeps its sign as in the decoder.
            let zero = S::splat(-0.0);
            // Products of 11 and 4 bits: exact.
            let minimum = [S::mul(dmin, S::u8s(p.add(ROWS))), S::mul(dmin, S::u8s(p.add(3 * ROWS)))];
            Affine {
                scale: [S::mul(d, S::u8s(p)), S::mul(d, S::u8s(p.add(2 * ROWS)))],
                offset: [S::sub(zero, minimum[0]), S::sub(zero, minimum[1])],
            }
        }
    }
    fn put(plane: &mut [u8], _span: u32, row: usize, block: usize, from: &Source<'_>) {
        let out = &mut plane[block / SUPER * Self::BYTES..][..Self::BYTES];
        out[2 * row..][..2].copy_from_slice(&from.bytes[80..82]);
        out[2 * ROWS + 2 * row..][..2].copy_from_slice(&from.bytes[82..84]);
        for (i, pair) in from.bytes[..16].iter().enumerate() {
            let at = 4 * ROWS + i * 2 * ROWS + row;
            out[at] = pair & 15;
            out[at + ROWS] = pair >> 4;
        }
    }
}

/// f32 scales (and offsets) for 16 columns if `GROUPS` is 2, else for `32 * 2^span`: what every block type can be brought to.
pub(super) struct Wide<const GROUPS: usize, const OFFSETS: bool>;

impl<const GROUPS: usize, const OFFSETS: bool> Wide<GROUPS, OFFSETS> {
    /// f32 for one group's 16 rows.
    const STEP: usize = if OFFSETS { 2 * ROWS } else { ROWS };
}

impl<const GROUPS: usize, const OFFSETS: bool> Scales for Wide<GROUPS, OFFSETS> {
    const GROUPS: usize = GROUPS;
    const OFFSETS: bool = OFFSETS;

    fn bytes(blocks: usize, span: u32) -> usize {
        (blocks * GROUPS).div_ceil(1 << span) * Self::STEP * 4
    }
    #[inline(always)]
    unsafe fn load<S: Simd>(plane: *const u8, span: u32, block: usize, row: usize) -> Affine<S> {
        // SAFETY: the caller's promise.
        unsafe {
            let first = if GROUPS == 2 { 2 * block } else { block >> span };
            let p = plane.add((first * Self::STEP + row) * 4);
            let q = if GROUPS == 2 { p.add(Self::STEP * 4) } else { p };
            let scale = [S::f32s(p), S::f32s(q)];
            let offset = if OFFSETS { [S::f32s(p.add(4 * ROWS)), S::f32s(q.add(4 * ROWS))] } else { scale };
            Affine { scale, offset }
        }
    }
    fn put(plane: &mut [u8], span: u32, row: usize, block: usize, from: &Source<'_>) {
        let first = if GROUPS == 2 { 2 * block } else { block >> span };
        let groups = from.values / from.codes.group;
        for (i, (scale, offset)) in from.codes.scales.iter().zip(&from.codes.offsets).enumerate().take(groups) {
            let at = (first + i) * Self::STEP + row;
            put_f32(plane, at, *scale);
            if OFFSETS {
                put_f32(plane, at + ROWS, *offset);
            }
        }
    }
}
