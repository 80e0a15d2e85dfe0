//! Codes with f32 scales: what rows of the schemes of Hugging Face directories are brought to while a device packs them.
//!
//! Those schemes spread a matrix over several tensors (codes here, scales there), in many orders. None of that is a block; but a row
//! can be handed out as blocks of one of these few types, and everything that takes weight types takes them. A block holds n codes in
//! g groups:
//!
//! | bytes | field |
//! |---|---|
//! | 0..n | codes of 8 bits, signed |
//! | then 4 g | scales: f32 |
//! | then 4 g | offsets: f32, for the types that have them |
//!
//! `w = scale * q + offset`. Groups of 16 come in pairs, larger ones alone, because devices take 32 columns at a time. No file holds
//! these types.

use crate::block::{self, Block};
use crate::codes::Codes;
use crate::{TypeInfo, WeightType};

struct Coded<const GROUP: usize, const OFFSETS: bool>;

impl<const VALUES: usize, const BYTES: usize, const GROUP: usize, const OFFSETS: bool> Block<VALUES, BYTES> for Coded<GROUP, OFFSETS> {
    const GROUP: usize = GROUP;
    const OFFSETS: bool = OFFSETS;

    fn split(b: &[u8; BYTES], out: &mut Codes) {
        let (codes, rest) = b.split_at(VALUES);
        for (q, b) in out.codes.iter_mut().zip(codes) {
            *q = *b as i8;
        }
        let (scales, offsets) = rest.split_at(4 * (VALUES / GROUP));
        read(scales, &mut out.scales);
        read(offsets, &mut out.offsets);
    }
}

fn read(bytes: &[u8], out: &mut [f32]) {
    for (v, b) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *v = f32::from_le_bytes(*b);
    }
}

/// Sizes of groups that there are, ascending.
pub const CODED_GROUPS: [usize; 5] = [16, 32, 64, 128, 256];

macro_rules! sizes {
    ($offsets:literal, $each:literal, $name:literal) => {
        [
            &block::info::<Coded<16, $offsets>, 32, { 32 + 2 * $each }>(concat!($name, "_16"), None, None),
            &block::info::<Coded<32, $offsets>, 32, { 32 + $each }>(concat!($name, "_32"), None, None),
            &block::info::<Coded<64, $offsets>, 64, { 64 + $each }>(concat!($name, "_64"), None, None),
            &block::info::<Coded<128, $offsets>, 128, { 128 + $each }>(concat!($name, "_128"), None, None),
            &block::info::<Coded<256, $offsets>, 256, { 256 + $each }>(concat!($name, "_256"), None, None),
        ]
    };
}

static SYMMETRIC: [&TypeInfo; 5] = sizes!(false, 4, "CODES");
static AFFINE: [&TypeInfo; 5] = sizes!(true, 8, "CODES_OFFSET");

/// The type with groups of so many codes, with offsets or without; `None` where there is none of that size (see [`CODED_GROUPS`]).
pub fn coded(group: usize, offsets: bool) -> Option<WeightType> {
    let i = CODED_GROUPS.iter().position(|n| *n == group)?;
    Some(WeightType::new(if offsets { AFFINE[i] } else { SYMMETRIC[i] }))
}

/// Writes one block of [`coded`]`(group, offsets)`; `line(i)` is scale and offset of its group `i`.
pub fn put_coded(codes: &[i8], group: usize, offsets: bool, line: impl Fn(usize) -> (f32, f32), out: &mut [u8]) {
    let (bytes, rest) = out.split_at_mut(codes.len());
    for (b, q) in bytes.iter_mut().zip(codes) {
        *b = *q as u8;
    }
    let groups = codes.len() / group;
    let (rest, _) = rest.as_chunks_mut::<4>();
    for i in 0..groups {
        let (scale, offset) = line(i);
        rest[i] = scale.to_le_bytes();
        if offsets {
            rest[groups + i] = offset.to_le_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_decode_as_written() {
        let codes: [i8; 32] = std::array::from_fn(|i| i as i8 - 16);
        for group in [16, 32] {
            for (offsets, more) in [(false, 0.0), (true, 0.25)] {
                let ty = coded(group, offsets).expect("a size that there is");
                assert_eq!((ty.block_values(), ty.block_bytes()), (32, 32 + 32 / group * if offsets { 8 } else { 4 }));
                let mut block = vec![0; ty.block_bytes()];
                put_coded(&codes, group, offsets, |i| (0.5 + i as f32, more), &mut block);
                let mut out = [0.0; 32];
                ty.decode(&block, &mut out);
                let last = if group == 16 { 22.5 } else { 7.5 };
                assert_eq!((out[0], out[31]), (-8.0 + more, last + more), "groups of {group}");
            }
        }
        assert!(coded(24, false).is_none());
    }
}
