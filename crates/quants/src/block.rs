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
    assert!(VALUES <= MOST_VALUES && VALUES.is_multiple_of(T::GROUP) && T::GROUP.is_multiple_of(8));
    let (decode, codes) = (decode::<T, VALUES, BYTES>, codes::<T, VALUES, BYTES>);
    TypeInfo { name, ggml_id, values: VALUES, bytes: BYTES, decode, encode, codes: Some(codes) }
}

fn codes<T: Block<VALUES, BYTES>, const VALUES: usize, const BYTES: usize>(block: &[u8], out: &mut Codes) {
    let Some(block) = block.first_chunk() else { panic!("a block of {BYTES} bytes was given {}", block.len()) };
    out.group = T::GROUP;
    if !T::OFFSETS {
        out.offsets[..VALUES / T::GROUP].fill(0.0);
    }
    T::split(block, out);
}

fn decode<T: Block<VALUES, BYTES>, const VALUES: usize, const BYTES: usize>(blocks: &[u8], out: &mut [f32]) {
    let mut c = Codes::default();
    for (block, values) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<VALUES>().0) {
        T::split(block, &mut c);
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

/// The little-endian u32 at byte `at`.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
