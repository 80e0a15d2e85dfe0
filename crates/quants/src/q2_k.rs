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
use crate::affine;
use crate::block::{self, Block, EncodeBlock, f16_at, put_f16};
use crate::codes::Codes;

/// 2-bit values in blocks of 256 = 16 * 16, with scales and minima of 4 bits.
pub const Q2_K: WeightType = WeightType::new(&INFO);

static INFO: crate::TypeInfo = block::info::<Layout, 256, 84>("Q2_K", Some(10), Some(block::encode::<Layout, 256, 84>));

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

impl EncodeBlock<256, 84> for Layout {
    fn encode(x: &[f32; 256], w: &[f32; 256]) -> [u8; 84] {
        let units = affine::best_units::<16, 3, 15>(x, w);
        let mut b = [0; 84];
        let mut q = [0; 256];
        for (g, (x, q)) in x.as_chunks::<16>().0.iter().zip(q.as_chunks_mut::<16>().0).enumerate() {
            b[g] = units.scales[g] | units.mins[g] << 4;
            *q = affine::codes::<3, 16>(x, units.line(g));
        }
        put_two_bits(&q, &mut b[16..80]);
        put_f16(&mut b, 80, units.d);
        put_f16(&mut b, 82, units.dmin);
        b
    }
}

/// Writes what [`two_bits`] reads; only the low 2 bits of codes count.
pub(crate) fn put_two_bits(q: &[u8; 256], bytes: &mut [u8]) {
    for (bytes, q) in bytes.as_chunks_mut::<32>().0.iter_mut().zip(q.as_chunks::<128>().0) {
        for l in 0..32 {
            bytes[l] = q[l] & 3 | (q[32 + l] & 3) << 2 | (q[64 + l] & 3) << 4 | (q[96 + l] & 3) << 6;
        }
    }
}
