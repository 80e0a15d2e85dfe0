//! Q6_K: 256 values of 6 bits; each 16 have an 8-bit scale, in a unit shared by the block.
//!
//! | bytes | field |
//! |---|---|
//! | 0..128 | `ql`: in half h, byte 64 h + l holds the low bits of value 128 h + l in its low and of value 128 h + 64 + l in its high nibble |
//! | 128..192 | `qh`: in half h, bits 2 s and 2 s + 1 of byte 32 h + l are the high bits of value 128 h + 32 s + l |
//! | 192..208 | scales: i8 |
//! | 208..210 | `d`: f16 |
//!
//! `w = d * scale * (q - 32)`. Layout: `block_q6_K` in ggml's `ggml-common.h`.

use crate::WeightType;
use crate::block::{self, Block, EncodeBlock, f16_at, put_f16};
use crate::codes::Codes;
use crate::multiples::{self, Multiples};
use crate::search::Whole;

/// 6-bit values in blocks of 256 = 16 * 16, with scales of 8 bits.
pub const Q6_K: WeightType = WeightType::new(&INFO);

static INFO: crate::TypeInfo = block::info::<Layout, 256, 210>("Q6_K", Some(14), Some(block::encode::<Layout, 256, 210>));

struct Layout;

impl Block<256, 210> for Layout {
    const GROUP: usize = 16;

    fn split(b: &[u8; 210], out: &mut Codes) {
        let d = f16_at(b, 208);
        for g in 0..16 {
            out.scales[g] = d * f32::from(b[192 + g] as i8);
        }
        for h in 0..2 {
            for l in 0..32 {
                let (low, next, high) = (b[64 * h + l], b[64 * h + 32 + l], b[128 + 32 * h + l]);
                let q = &mut out.codes[128 * h..];
                q[l] = (low & 15 | (high & 3) << 4) as i8 - 32;
                q[32 + l] = (next & 15 | (high & 12) << 2) as i8 - 32;
                q[64 + l] = (low >> 4 | high & 48) as i8 - 32;
                q[96 + l] = (next >> 4 | (high & 192) >> 2) as i8 - 32;
            }
        }
    }
}

type Levels = Whole<-32, 31>;

impl EncodeBlock<256, 210> for Layout {
    fn encode(x: &[f32; 256], w: &[f32; 256]) -> [u8; 210] {
        let unit = multiples::best_scales::<Levels, 16, 16>(x, w, Multiples::whole(-128, 127));
        let q = multiples::codes::<Levels, 16, 16>(x, &unit).map(|q| (q + 32) as u8);
        let mut b = [0; 210];
        for h in 0..2 {
            for l in 0..32 {
                let q = [0, 32, 64, 96].map(|s| q[128 * h + s + l]);
                b[64 * h + l] = q[0] & 15 | q[2] << 4;
                b[64 * h + 32 + l] = q[1] & 15 | q[3] << 4;
                b[128 + 32 * h + l] = q[0] >> 4 | q[1] >> 4 << 2 | q[2] >> 4 << 4 | q[3] >> 4 << 6;
            }
        }
        for (b, code) in b[192..208].iter_mut().zip(unit.codes) {
            *b = code as u8;
        }
        put_f16(&mut b, 208, unit.d);
        b
    }
}
