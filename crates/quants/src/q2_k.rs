//! Q2_K: 256 values of 2 bits; each 16 have a 4-bit scale and a 4-bit minimum, in units shared by the block.
//!
//! | bytes | field |
//! |---|---|
//! | 0..16 | scale (low nibble) and minimum (high nibble) of each 16 values |
//! | 16..80 | `qs`: in half h, bits 2 s and 2 s + 1 of byte 32 h + l are value 128 h + 32 s + l |
//! | 80..82 | `d`: f16, unit of the scales |
//! | 82..84 | `dmin`: f16, unit of the minima |
//!
//! `w = d * scale * q - dmin * min`. Layout: `block_q2_K` in ggml's `ggml-common.h`.

use crate::WeightType;
use crate::block::{self, Block, f16_at};
use crate::codes::Codes;

/// 2-bit values in blocks of 256 = 16 * 16, with scales and minima of 4 bits.
pub const Q2_K: WeightType = WeightType::new(&INFO);

static INFO: crate::TypeInfo = block::info::<Layout, 256, 84>("Q2_K", Some(10), None);

struct Layout;

impl Block<256, 84> for Layout {
    const GROUP: usize = 16;
    const OFFSETS: bool = true;

    fn split(b: &[u8; 84], out: &mut Codes) {
        let (d, dmin) = (f16_at(b, 80), f16_at(b, 82));
        for (g, pair) in b[..16].iter().enumerate() {
            out.scales[g] = d * f32::from(pair & 15);
            out.offsets[g] = -(dmin * f32::from(pair >> 4));
        }
        two_bits(&b[16..80], &mut out.codes);
    }
}

/// Codes of 2 bits in the order that Q2_K, Q3_K and TQ2_0 share: in each 32 bytes, bits 2 s and 2 s + 1 of byte l are value 32 s + l.
pub(crate) fn two_bits(bytes: &[u8], codes: &mut [i8; 256]) {
    for (bytes, codes) in bytes.as_chunks::<32>().0.iter().zip(codes.as_chunks_mut::<128>().0) {
        for s in 0..4 {
            for l in 0..32 {
                codes[32 * s + l] = (bytes[l] >> (2 * s) & 3) as i8;
            }
        }
    }
}
