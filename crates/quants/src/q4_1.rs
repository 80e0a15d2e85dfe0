//! Q4_1: 32 values of 4 bits with a scale and an offset.
//!
//! | bytes | field |
//! |---|---|
//! | 0..2 | `d`: f16 |
//! | 2..4 | `m`: f16 |
//! | 4..20 | `qs`: byte j holds value j in its low and value j + 16 in its high nibble |
//!
//! `w = d * q + m`. Layout: `block_q4_1` in ggml's `ggml-common.h`.

use crate::WeightType;
use crate::affine;
use crate::block::{self, Block, EncodeBlock, f16_at, put_f16};
use crate::codes::Codes;

/// 4-bit values in blocks of 32, with an offset.
pub const Q4_1: WeightType = WeightType::new(&INFO);

static INFO: crate::TypeInfo = block::info::<Layout, 32, 20>("Q4_1", Some(3), Some(block::encode::<Layout, 32, 20>));

struct Layout;

impl Block<32, 20> for Layout {
    const GROUP: usize = 32;
    const OFFSETS: bool = true;

    fn split(b: &[u8; 20], out: &mut Codes) {
        out.scales[0] = f16_at(b, 0);
        out.offsets[0] = f16_at(b, 2);
        for j in 0..16 {
            let q = b[4 + j];
            out.codes[j] = (q & 15) as i8;
            out.codes[j + 16] = (q >> 4) as i8;
        }
    }
}

impl EncodeBlock<32, 20> for Layout {
    fn encode(x: &[f32; 32], w: &[f32; 32]) -> [u8; 20] {
        let line = affine::best_f16_line::<15>(x, w);
        let q: [u8; 32] = affine::codes::<15, 32>(x, line);
        let mut b = [0; 20];
        put_f16(&mut b, 0, line.0);
        put_f16(&mut b, 2, line.1);
        for j in 0..16 {
            b[4 + j] = q[j] | q[j + 16] << 4;
        }
        b
    }
}
