//! What every block type shares: a type states how its block splits into codes (and how it is made), and
//! `decode`, `encode` and the table entry follow.

use crate::codes::{Codes, MOST_VALUES};
use crate::{Encode, TypeInfo};
use half::f16;

/// A block of `BYTES` bytes that holds `VALUES` values.
pub(crate) trait Block<const VALUES: usize, const BYTES: usize> {
    /// Values that share a scale, as [`Codes::group`] tells.
    const GROUP: usize;
    /// Whether groups have offsets; without, `split` leaves them alone.
    const OFFSETS: bool = false;

    /// Writes codes and scales (and offsets). Whatever the bytes are, this neither fails nor panics.
    fn split(block: &[u8; BYTES], out: &mut Codes);
}

/// A block of a type whose rows begin with `HEADER` bytes that all their blocks need: a scale. [`Block`] is the case of none.
pub(crate) trait RowBlock<const VALUES: usize, const BYTES: usize, const HEADER: usize> {
    /// As [`Block::GROUP`].
    const GROUP: usize;
    /// As [`Block::OFFSETS`].
    const OFFSETS: bool = false;

    /// As [`Block::split`], of a block in a row that begins with `header`.
    fn split(header: &[u8; HEADER], block: &[u8; BYTES], out: &mut Codes);
}

impl<T: Block<VALUES, BYTES>, const VALUES: usize, const BYTES: usize> RowBlock<VALUES, BYTES, 0> for T {
    const GROUP: usize = T::GROUP;
    const OFFSETS: bool = T::OFFSETS;

    fn split(_: &[u8; 0], block: &[u8; BYTES], out: &mut Codes) {
        T::split(block, out);
    }
}

/// A block type that can be written.
pub(crate) trait EncodeBlock<const VALUES: usize, const BYTES: usize>: Block<VALUES, BYTES> {
    /// Makes the block that is nearest to `x` (or nearly so) by the squared error weighted by `w`.
    /// Values are finite; weights are positive and finite.
    fn encode(x: &[f32; VALUES], w: &[f32; VALUES]) -> [u8; BYTES];
}

/// The table entry of a block type.
pub(crate) const fn info<T: Block<VALUES, BYTES>, const VALUES: usize, const BYTES: usize>(
    name: &'static str,
    ggml_id: Option<u32>,
    encode: Option<Encode>,
) -> TypeInfo {
    TypeInfo { encode, ..row_info::<T, VALUES, BYTES, 0>(name, ggml_id) }
}

/// The table entry of a block type whose rows have a header, and which 1bit does not write.
pub(crate) const fn row_info<T: RowBlock<VALUES, BYTES, HEADER>, const VALUES: usize, const BYTES: usize, const HEADER: usize>(
    name: &'static str,
    ggml_id: Option<u32>,
) -> TypeInfo {
    assert!(VALUES <= MOST_VALUES && VALUES.is_multiple_of(T::GROUP) && T::GROUP.is_multiple_of(8));
    let (decode, codes) = (decode::<T, VALUES, BYTES, HEADER>, codes::<T, VALUES, BYTES, HEADER>);
    TypeInfo { name, ggml_id, values: VALUES, bytes: BYTES, header: HEADER, decode, encode: None, codes: Some(codes) }
}

fn codes<T: RowBlock<VALUES, BYTES, HEADER>, const VALUES: usize, const BYTES: usize, const HEADER: usize>(
    header: &[u8],
    block: &[u8],
    out: &mut Codes,
) {
    let (Some(header), Some(block)) = (header.first_chunk(), block.first_chunk()) else {
        panic!("a block of {BYTES} bytes under a header of {HEADER} was given {} and {}", block.len(), header.len())
    };
    out.group = T::GROUP;
    if !T::OFFSETS {
        out.offsets[..VALUES / T::GROUP].fill(0.0);
    }
    T::split(header, block, out);
}

fn decode<T: RowBlock<VALUES, BYTES, HEADER>, const VALUES: usize, const BYTES: usize, const HEADER: usize>(row: &[u8], out: &mut [f32]) {
    let Some((header, blocks)) = row.split_first_chunk() else { panic!("a row with a header of {HEADER} bytes was given {}", row.len()) };
    let mut c = Codes::default();
    for (block, values) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<VALUES>().0) {
        T::split(header, block, &mut c);
        let groups = values.chunks_exact_mut(T::GROUP).zip(c.codes[..VALUES].chunks_exact(T::GROUP));
        for ((values, codes), (scale, offset)) in groups.zip(c.scales.iter().zip(&c.offsets)) {
            if T::OFFSETS {
                for (v, q) in values.iter_mut().zip(codes) {
                    *v = f32::from(*q) * scale + offset;
                }
            } else {
                for (v, q) in values.iter_mut().zip(codes) {
                    *v = f32::from(*q) * scale;
                }
            }
        }
    }
}

/// Where values are cut off before the search. No type with a binary16 scale reaches as far, and the squares of larger ones
/// would not fit an f32.
const LARGEST: f32 = 1e15;

/// [`Encode`] for a block type.
pub(crate) fn encode<T: EncodeBlock<VALUES, BYTES>, const VALUES: usize, const BYTES: usize>(
    row: &[f32],
    importance: Option<&[f32]>,
    out: &mut [u8],
) {
    let mut x = [0.0; VALUES];
    let mut w = [1.0; VALUES];
    for (i, (values, block)) in row.as_chunks::<VALUES>().0.iter().zip(out.as_chunks_mut::<BYTES>().0).enumerate() {
        for (x, v) in x.iter_mut().zip(values) {
            *x = if v.is_finite() { v.clamp(-LARGEST, LARGEST) } else { 0.0 };
        }
        if let Some(importance) = importance {
            weights(&importance[i * VALUES..][..VALUES], &mut w);
        }
        *block = T::encode(&x, &w);
    }
}

/// Weights for the search from importances: scaled to a mean of one, and none zero, so that values that nothing is
/// known of are still stored as well as they can be for free.
fn weights(importance: &[f32], w: &mut [f32]) {
    let clean = |v: f32| if v.is_finite() && v > 0.0 { v } else { 0.0 };
    let mean = importance.iter().map(|v| f64::from(clean(*v))).sum::<f64>() / importance.len() as f64;
    if mean <= 0.0 {
        return w.fill(1.0);
    }
    for (w, v) in w.iter_mut().zip(importance) {
        *w = (f64::from(clean(*v)) / mean) as f32 + 1e-5;
    }
}

/// The binary16 at byte `at`, as f32.
pub(crate) fn f16_at(bytes: &[u8], at: usize) -> f32 {
    f16::from_bits(u16_at(bytes, at)).to_f32()
}

/// Writes `v` as binary16 at byte `at`.
pub(crate) fn put_f16(bytes: &mut [u8], at: usize, v: f32) {
    bytes[at..at + 2].copy_from_slice(&f16::from_f32(v).to_le_bytes());
}

/// The little-endian u16 at byte `at`.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// The little-endian f32 at byte `at`.
pub(crate) fn f32_at(bytes: &[u8], at: usize) -> f32 {
    f32::from_bits(u32_at(bytes, at))
}

/// The little-endian u32 at byte `at`.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
