//! Q5_K: 256 values of 5 bits; each 32 have a 6-bit scale and a 6-bit minimum, in units shared by the block.
//!
//! | bytes | field |
//! |---|---|
//! | 0..16 | `d`, `dmin`, scales and minima as in Q4_K |
//! | 16..48 | `qh`: bit g of byte l is the highest bit of value 32 g + l |
//! | 48..176 | `qs`: low bits, placed as in Q4_K |
//!
//! `w = d * scale * q - dmin * min`. Layout: `block_q5_K` in ggml's `ggml-common.h`.

use crate::WeightType;
use crate::affine;
use crate::block::{self, Block, EncodeBlock};
use crate::codes::Codes;
use crate::q4_k::{put_scales, split_scales};

/// 5-bit values in blocks of 256 = 8 * 32, with scales and minima of 6 bits.
pub const Q5_K: WeightType = WeightType::new(&INFO);

static INFO: crate::TypeInfo = block::info::<Layout, 256, 176>("Q5_K", Some(13), Some(block::encode::<Layout, 256, 176>));

struct Layout;

impl Block<256, 176> for Layout {
    const GROUP: usize = 32;
    const OFFSETS: bool = true;

    fn split(b: &[u8; 176], out: &mut Codes) {
        split_scales(b, out);
        for c in 0..4 {
            for l in 0..32 {
                let (q, high) = (b[48 + 32 * c + l], b[16 + l] >> (2 * c));
                out.codes[64 * c + l] = (q & 15 | (high & 1) << 4) as i8;
                out.codes[64 * c + 32 + l] = (q >> 4 | (high & 2) << 3) as i8;
            }
        }
    }
}

impl EncodeBlock<256, 176> for Layout {
    fn encode(x: &[f32; 256], w: &[f32; 256]) -> [u8; 176] {
        let units = affine::best_units::<8, 31, 63>(x, w);
        let mut b = [0; 176];
        put_scales(&units, &mut b);
        for (g, x) in x.as_chunks::<32>().0.iter().enumerate() {
            let q: [u8; 32] = affine::codes::<31, 32>(x, units.line(g));
            for (l, q) in q.iter().enumerate() {
                b[16 + l] |= (q >> 4) << g;
                b[48 + 32 * (g / 2) + l] |= (q & 15) << (4 * (g % 2));
            }
        }
        b
    }
}
