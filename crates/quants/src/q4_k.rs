//! Q4_K: 256 values of 4 bits; each 32 have a 6-bit scale and a 6-bit minimum, in units shared by the block.
//!
//! | bytes | field |
//! |---|---|
//! | 0..2 | `d`: f16, unit of the scales |
//! | 2..4 | `dmin`: f16, unit of the minima |
//! | 4..16 | 8 scales and 8 minima of 6 bits, packed as [`six_bit_pairs`] tells |
//! | 16..144 | `qs`: byte 32 c + l holds value 64 c + l in its low and value 64 c + 32 + l in its high nibble |
//!
//! `w = d * scale * q - dmin * min`. Layout: `block_q4_K` in ggml's `ggml-common.h`.

use crate::WeightType;
use crate::block::{self, Block, f16_at};
use crate::codes::Codes;

/// 4-bit values in blocks of 256 = 8 * 32, with scales and minima of 6 bits.
pub const Q4_K: WeightType = WeightType::new(&INFO);

static INFO: crate::TypeInfo = block::info::<Layout, 256, 144>("Q4_K", Some(12), None);

struct Layout;

impl Block<256, 144> for Layout {
    const GROUP: usize = 32;
    const OFFSETS: bool = true;

    fn split(b: &[u8; 144], out: &mut Codes) {
        split_scales(b, out);
        for c in 0..4 {
            for l in 0..32 {
                let q = b[16 + 32 * c + l];
                out.codes[64 * c + l] = (q & 15) as i8;
                out.codes[64 * c + 32 + l] = (q >> 4) as i8;
            }
        }
    }
}

/// Scales and offsets of Q4_K and Q5_K, whose blocks begin alike.
pub(crate) fn split_scales(b: &[u8], out: &mut Codes) {
    let (d, dmin) = (f16_at(b, 0), f16_at(b, 2));
    let (scales, mins) = six_bit_pairs(&b[4..16]);
    for g in 0..8 {
        out.scales[g] = d * f32::from(scales[g]);
        out.offsets[g] = -(dmin * f32::from(mins[g]));
    }
}

/// Eight scales and eight minima of 6 bits from 12 bytes: bytes 0..4 hold scales 0..4 in their low 6 bits, bytes 4..8
/// minima 0..4; bytes 8..12 the low 4 bits of scales (low nibble) and minima (high nibble) 4..8, whose upper 2 bits
/// are the upper 2 bits of bytes 0..4 and 4..8.
fn six_bit_pairs(p: &[u8]) -> ([u8; 8], [u8; 8]) {
    let (mut scales, mut mins) = ([0; 8], [0; 8]);
    for j in 0..4 {
        scales[j] = p[j] & 63;
        mins[j] = p[j + 4] & 63;
        scales[j + 4] = p[j + 8] & 15 | p[j] >> 6 << 4;
        mins[j + 4] = p[j + 8] >> 4 | p[j + 4] >> 6 << 4;
    }
    (scales, mins)
}
