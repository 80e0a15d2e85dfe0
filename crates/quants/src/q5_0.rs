//! Q5_0: 32 values of 5 bits with one scale.
//!
//! | bytes | field |
//! |---|---|
//! | 0..2 | `d`: f16 |
//! | 2..6 | `qh`: bit j is the highest bit of value j |
//! | 6..22 | `qs`: byte j holds the low bits of value j in its low and of value j + 16 in its high nibble |
//!
//! `w = d * (q - 16)`. Layout: `block_q5_0` in ggml's `ggml-common.h`.

use crate::WeightType;
use crate::block::{self, Block, f16_at, u32_at};
use crate::codes::Codes;

/// 5-bit values in blocks of 32, symmetric.
pub const Q5_0: WeightType = WeightType::new(&INFO);

static INFO: crate::TypeInfo = block::info::<Layout, 32, 22>("Q5_0", Some(6), None);

struct Layout;

impl Block<32, 22> for Layout {
    const GROUP: usize = 32;

    fn split(b: &[u8; 22], out: &mut Codes) {
        out.scales[0] = f16_at(b, 0);
        let high = u32_at(b, 2);
        for j in 0..16 {
            let q = b[6 + j];
            out.codes[j] = (q & 15 | ((high >> j) as u8 & 1) << 4) as i8 - 16;
            out.codes[j + 16] = (q >> 4 | ((high >> (j + 16)) as u8 & 1) << 4) as i8 - 16;
        }
    }
}
