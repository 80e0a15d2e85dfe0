//! Q4_0: 32 values of 4 bits with one scale.
//!
//! | bytes | field |
//! |---|---|
//! | 0..2 | `d`: f16 |
//! | 2..18 | `qs`: byte j holds value j in its low and value j + 16 in its high nibble |
//!
//! `w = d * (q - 8)`. Layout: `block_q4_0` in ggml's `ggml-common.h`.

use crate::WeightType;
use crate::block::{self, Block, EncodeBlock, f16_at, put_f16};
use crate::codes::Codes;
use crate::search::{self, Whole};

/// 4-bit values in blocks of 32, symmetric.
pub const Q4_0: WeightType = WeightType::new(&INFO);

static INFO: crate::TypeInfo = block::info::<Layout, 32, 18>("Q4_0", Some(2), Some(block::encode::<Layout, 32, 18>));

struct Layout;

impl Block<32, 18> for Layout {
    const GROUP: usize = 32;

    fn split(b: &[u8; 18], out: &mut Codes) {
        out.scales[0] = f16_at(b, 0);
        for j in 0..16 {
            let q = b[2 + j];
            out.codes[j] = (q & 15) as i8 - 8;
            out.codes[j + 16] = (q >> 4) as i8 - 8;
        }
    }
}

type Levels = Whole<-8, 7>;

impl EncodeBlock<32, 18> for Layout {
    fn encode(x: &[f32; 32], w: &[f32; 32]) -> [u8; 18] {
        let d = search::best_f16_scale::<Levels>(x, w);
        let q = search::codes::<Levels, 32>(x, d).map(|q| (q + 8) as u8);
        let mut b = [0; 18];
        put_f16(&mut b, 0, d);
        for j in 0..16 {
            b[2 + j] = q[j] | q[j + 16] << 4;
        }
        b
    }
}
