//! Q1_0: 128 signs with one scale.
//!
//! | bytes | field |
//! |---|---|
//! | 0..2 | `d`: f16 |
//! | 2..18 | bit j mod 8 of byte j / 8 is set where value j is `d`, clear where it is `-d` |
//!
//! Layout: `block_q1_0` in ggml's `ggml-common.h`.

use crate::WeightType;
use crate::block::{self, Block, f16_at};
use crate::codes::Codes;

/// Signs in blocks of 128.
pub const Q1_0: WeightType = WeightType::new(&INFO);

static INFO: crate::TypeInfo = block::info::<Layout, 128, 18>("Q1_0", Some(41), None);

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
