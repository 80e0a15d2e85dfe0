//! Q1_0: 128 signs with one scale.
//!
//! | bytes | field |
//! |---|---|
//! | 0..2 | `d`: f16 |
//! | 2..18 | bit j mod 8 of byte j / 8 is set where value j is `d`, clear where it is `-d` |
//!
//! Layout: `block_q1_0` in ggml's `ggml-common.h`.

use crate::WeightType;
use crate::block::{self, Block, EncodeBlock, f16_at, put_f16};
use crate::codes::Codes;
use crate::search::to_f16;

/// Signs in blocks of 128.
pub const Q1_0: WeightType = WeightType::new(&INFO);

static INFO: crate::TypeInfo = block::info::<Layout, 128, 18>("Q1_0", Some(41), Some(block::encode::<Layout, 128, 18>));

struct Layout;

impl Block<128, 18> for Layout {
    const GROUP: usize = 128;

    fn split(b: &[u8; 18], out: &mut Codes) {
        out.scales[0] = f16_at(b, 0);
        for (b, codes) in b[2..].iter().zip(out.codes.as_chunks_mut::<8>().0) {
            for (s, q) in codes.iter_mut().enumerate() {
                *q = (b >> s & 1) as i8 * 2 - 1;
            }
        }
    }
}

impl EncodeBlock<128, 18> for Layout {
    /// The best signs are those of the values, and then the best scale is the weighted mean of their sizes.
    fn encode(x: &[f32; 128], w: &[f32; 128]) -> [u8; 18] {
        let sum = |f: &dyn Fn(usize) -> f32| (0..128).map(|i| f64::from(f(i))).sum::<f64>();
        let d = sum(&|i| w[i] * x[i].abs()) / sum(&|i| w[i]);
        let mut b = [0; 18];
        put_f16(&mut b, 0, to_f16(d as f32));
        for (i, v) in x.iter().enumerate() {
            b[2 + i / 8] |= u8::from(*v >= 0.0) << (i % 8);
        }
        b
    }
}
