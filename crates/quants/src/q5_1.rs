//! Q5_1: 32 values of 5 bits with a scale and an offset.
//!
//! | bytes | field |
//! |---|---|
//! | 0..2 | `d`: f16 |
//! | 2..4 | `m`: f16 |
//! | 4..8 | `qh`: bit j is the highest bit of value j |
//! | 8..24 | `qs`: byte j holds the low bits of value j in its low and of value j + 16 in its high nibble |
//!
//! `w = d * q + m`. Layout: `block_q5_1` in ggml's `ggml-common.h`.

use crate::WeightType;
use crate::affine;
use crate::block::{self, Block, EncodeBlock, f16_at, put_f16, u32_at};
use crate::codes::Codes;
use crate::q5_0::pack;

/// 5-bit values in blocks of 32, with an offset.
pub const Q5_1: WeightType = WeightType::new(&INFO);

static INFO: crate::TypeInfo = block::info::<Layout, 32, 24>("Q5_1", Some(7), Some(block::encode::<Layout, 32, 24>));

struct Layout;

impl Block<32, 24> for Layout {
    const GROUP: usize = 32;
    const OFFSETS: bool = true;

    fn split(b: &[u8; 24], out: &mut Codes) {
        out.scales[0] = f16_at(b, 0);
        out.offsets[0] = f16_at(b, 2);
        let high = u32_at(b, 4);
        for j in 0..16 {
            let q = b[8 + j];
            out.codes[j] = (q & 15 | ((high >> j) as u8 & 1) << 4) as i8;
            out.codes[j + 16] = (q >> 4 | ((high >> (j + 16)) as u8 & 1) << 4) as i8;
        }
    }
}

impl EncodeBlock<32, 24> for Layout {
    fn encode(x: &[f32; 32], w: &[f32; 32]) -> [u8; 24] {
        let line = affine::best_f16_line::<31>(x, w);
        let mut b = [0; 24];
        put_f16(&mut b, 0, line.0);
        put_f16(&mut b, 2, line.1);
        pack(&affine::codes::<31, 32>(x, line), &mut b[4..]);
        b
    }
}
