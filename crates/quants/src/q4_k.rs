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
use crate::affine::{self, Units};
use crate::block::{self, Block, EncodeBlock, f16_at, put_f16};
use crate::codes::Codes;

/// 4-bit values in blocks of 256 = 8 * 32, with scales and minima of 6 bits.
pub const Q4_K: WeightType = WeightType::new(&INFO);

static INFO: crate::TypeInfo = block::info::<Layout, 256, 144>("Q4_K", Some(12), Some(block::encode::<Layout, 256, 144>));

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

impl EncodeBlock<256, 144> for Layout {
    fn encode(x: &[f32; 256], w: &[f32; 256]) -> [u8; 144] {
        let units = affine::best_units::<8, 15, 63>(x, w);
        let mut b = [0; 144];
        put_scales(&units, &mut b);
        for (g, x) in x.as_chunks::<32>().0.iter().enumerate() {
            let q: [u8; 32] = affine::codes::<15, 32>(x, units.line(g));
            for (b, q) in b[16 + 32 * (g / 2)..].iter_mut().zip(q) {
                *b |= q << (4 * (g % 2));
            }
        }
        b
    }
}

/// Writes what [`split_scales`] reads.
pub(crate) fn put_scales(units: &Units<8>, b: &mut [u8]) {
    put_f16(b, 0, units.d);
    put_f16(b, 2, units.dmin);
    let (p, scales, mins) = (&mut b[4..16], &units.scales, &units.mins);
    for j in 0..4 {
        p[j] = scales[j] | scales[j + 4] >> 4 << 6;
        p[j + 4] = mins[j] | mins[j + 4] >> 4 << 6;
        p[j + 8] = scales[j + 4] & 15 | mins[j + 4] << 4;
    }
}
