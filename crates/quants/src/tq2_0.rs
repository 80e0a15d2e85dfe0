//! TQ2_0: 256 ternary values of 2 bits with one scale.
//!
//! | bytes | field |
//! |---|---|
//! | 0..64 | `qs`: codes of 2 bits, placed as in Q2_K |
//! | 64..66 | `d`: f16 |
//!
//! `w = d * (q - 1)`. Layout: `block_tq2_0` in ggml's `ggml-common.h`.

use crate::WeightType;
use crate::block::{self, Block, f16_at};
use crate::codes::Codes;
use crate::q2_k::two_bits;

/// Ternary values in blocks of 256, 2 bits each.
pub const TQ2_0: WeightType = WeightType::new(&INFO);

static INFO: crate::TypeInfo = block::info::<Layout, 256, 66>("TQ2_0", Some(35), None);

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
