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
use crate::block::{self, Block};
use crate::codes::Codes;
use crate::q4_k::split_scales;

/// 5-bit values in blocks of 256 = 8 * 32, with scales and minima of 6 bits.
pub const Q5_K: WeightType = WeightType::new(&INFO);

static INFO: crate::TypeInfo = block::info::<Layout, 256, 176>("Q5_K", Some(13), None);

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
