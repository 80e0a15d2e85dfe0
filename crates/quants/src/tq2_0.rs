//! TQ2_0: 256 ternary values of 2 bits with one scale.
//!
//! | bytes | field |
//! |---|---|
//! | 0..64 | `qs`: codes of 2 bits, placed as in Q2_K |
//! | 64..66 | `d`: f16 |
//!
//! `w = d * (q - 1)`. Layout: `block_tq2_0` in ggml's `ggml-common.h`.

use crate::WeightType;
use crate::block::{self, Block, EncodeBlock, f16_at, put_f16};
use crate::codes::Codes;
use crate::q2_k::{put_two_bits, two_bits};
use crate::search::{self, Whole};

/// Ternary values in blocks of 256, 2 bits each.
pub const TQ2_0: WeightType = WeightType::new(&INFO);

static INFO: crate::TypeInfo = block::info::<Layout, 256, 66>("TQ2_0", Some(35), Some(block::encode::<Layout, 256, 66>));

struct Layout;

impl Block<256, 66> for Layout {
    const GROUP: usize = 256;

    fn split(b: &[u8; 66], out: &mut Codes) {
        out.scales[0] = f16_at(b, 64);
        two_bits(&b[..64], &mut out.codes);
        for q in &mut out.codes {
            *q -= 1;
        }
    }
}

impl EncodeBlock<256, 66> for Layout {
    fn encode(x: &[f32; 256], w: &[f32; 256]) -> [u8; 66] {
        let d = search::best_f16_scale::<Whole<-1, 1>>(x, w);
        let q = search::codes::<Whole<-1, 1>, 256>(x, d).map(|q| (q + 1) as u8);
        let mut b = [0; 66];
        put_two_bits(&q, &mut b[..64]);
        put_f16(&mut b, 64, d);
        b
    }
}
