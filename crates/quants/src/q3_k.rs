//! Q3_K: 256 values of 3 bits; each 16 have a 6-bit scale, in a unit shared by the block.
//!
//! | bytes | field |
//! |---|---|
//! | 0..32 | `hmask`: bit g of byte l is the highest bit of value 32 g + l |
//! | 32..96 | `qs`: low bits, placed as in Q2_K |
//! | 96..108 | 16 scales of 6 bits: low nibbles of bytes 0..8 are the low bits of scales 0..8, high nibbles those of 8..16; bits 2 n and 2 n + 1 of byte 8 + i are the high bits of scale 4 n + i |
//! | 108..110 | `d`: f16 |
//!
//! `w = d * (scale - 32) * (q - 4)`. Layout: `block_q3_K` in ggml's `ggml-common.h`.

use crate::WeightType;
use crate::block::{self, Block, EncodeBlock, f16_at, put_f16};
use crate::codes::Codes;
use crate::multiples::{self, Multiples};
use crate::q2_k::{put_two_bits, two_bits};
use crate::search::Whole;

/// 3-bit values in blocks of 256 = 16 * 16, with scales of 6 bits.
pub const Q3_K: WeightType = WeightType::new(&INFO);

static INFO: crate::TypeInfo = block::info::<Layout, 256, 110>("Q3_K", Some(11), Some(block::encode::<Layout, 256, 110>));

struct Layout;

impl Block<256, 110> for Layout {
    const GROUP: usize = 16;

    fn split(b: &[u8; 110], out: &mut Codes) {
        let d = f16_at(b, 108);
        let p = &b[96..108];
        for g in 0..16 {
            let low = p[g % 8] >> (4 * (g / 8)) & 15;
            let high = p[8 + g % 4] >> (2 * (g / 4)) & 3;
            out.scales[g] = d * f32::from((low | high << 4) as i8 - 32);
        }
        two_bits(&b[32..96], &mut out.codes);
        for g in 0..8 {
            for (q, mask) in out.codes[32 * g..][..32].iter_mut().zip(&b[..32]) {
                *q += (mask >> g & 1) as i8 * 4 - 4;
            }
        }
    }
}

type Levels = Whole<-4, 3>;

impl EncodeBlock<256, 110> for Layout {
    fn encode(x: &[f32; 256], w: &[f32; 256]) -> [u8; 110] {
        let unit = multiples::best_scales::<Levels, 16, 16>(x, w, Multiples::whole(-32, 31));
        let q = multiples::codes::<Levels, 16, 16>(x, &unit).map(|q| (q + 4) as u8);
        let mut b = [0; 110];
        for (i, q) in q.iter().enumerate() {
            b[i % 32] |= (q >> 2) << (i / 32);
        }
        put_two_bits(&q, &mut b[32..96]);
        for (g, code) in unit.codes.iter().enumerate() {
            let code = (code + 32) as u8;
            b[96 + g % 8] |= (code & 15) << (4 * (g / 8));
            b[104 + g % 4] |= (code >> 4) << (2 * (g / 4));
        }
        put_f16(&mut b, 108, unit.d);
        b
    }
}
