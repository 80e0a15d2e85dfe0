//! Q8_0: 32 values of 8 bits with one scale.
//!
//! | bytes | field |
//! |---|---|
//! | 0..2 | `d`: f16 |
//! | 2..34 | `qs`: i8 |
//!
//! `w = d * q`. Layout: `block_q8_0` in ggml's `ggml-common.h`.

use crate::WeightType;
use crate::block::{self, Block, EncodeBlock, f16_at, put_f16};
use crate::codes::Codes;
use crate::search::{self, Whole};

/// 8-bit values in blocks of 32, symmetric.
pub const Q8_0: WeightType = WeightType::new(&INFO);

static INFO: crate::TypeInfo = block::info::<Layout, 32, 34>("Q8_0", Some(8), Some(block::encode::<Layout, 32, 34>));

struct Layout;

impl Block<32, 34> for Layout {
    const GROUP: usize = 32;

    fn split(b: &[u8; 34], out: &mut Codes) {
        out.scales[0] = f16_at(b, 0);
        for j in 0..32 {
            out.codes[j] = b[2 + j] as i8;
        }
    }
}

type Levels = Whole<-127, 127>;

impl EncodeBlock<32, 34> for Layout {
    fn encode(x: &[f32; 32], w: &[f32; 32]) -> [u8; 34] {
        let d = search::best_f16_scale::<Levels>(x, w);
        let mut b = [0; 34];
        put_f16(&mut b, 0, d);
        for (b, q) in b[2..].iter_mut().zip(search::codes::<Levels, 32>(x, d)) {
            *b = q as u8;
        }
        b
    }
}
