//! Q6_0 (ik_llama.cpp): 32 values of 6 bits with one scale.
//!
//! | bytes | field |
//! |---|---|
//! | 0..2 | `d`: f16 |
//! | 2..10 | high 2 bits: bits 0, 2, 4 and 6 of byte j begin those of values j, j + 16, j + 8 and j + 24 |
//! | 10..26 | low 4 bits: byte j holds value j in its low and value j + 16 in its high nibble |
//!
//! `w = d * (q - 32)`. Layout: `block_q6_0` in ik_llama.cpp's `ggml-common.h`.

use crate::WeightType;
use crate::block::{self, Block, f16_at};
use crate::codes::Codes;

/// 6-bit values in blocks of 32, symmetric.
pub const Q6_0: WeightType = WeightType::new(&INFO);

static INFO: crate::TypeInfo = block::info::<Layout, 32, 26>("Q6_0", Some(133), None);

struct Layout;

impl Block<32, 26> for Layout {
    const GROUP: usize = 32;

    fn split(b: &[u8; 26], out: &mut Codes) {
        out.scales[0] = f16_at(b, 0);
        for j in 0..16 {
            let (low, high) = (b[10 + j], b[2 + j % 8] >> (4 * (j / 8)));
            out.codes[j] = (low & 15 | (high & 3) << 4) as i8 - 32;
            out.codes[j + 16] = (low >> 4 | (high & 12) << 2) as i8 - 32;
        }
    }
}
