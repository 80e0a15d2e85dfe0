//! PTQ1_0 (PrismML): 128 ternary values, five to a byte, with one scale.
//!
//! | bytes | field |
//! |---|---|
//! | 0..16 | byte m holds values 16 n + m for n < 5 |
//! | 16..24 | byte m holds values 80 + 8 n + m for n < 5 |
//! | 24..26 | byte m holds values 120 + 2 n + m for n < 4 |
//! | 26..28 | `d`: f16 |
//!
//! `w = d * trit`, trits coded as in TQ1_0. Layout: PrismML's fork of llama.cpp.

use crate::WeightType;
use crate::block::{self, Block, EncodeBlock, f16_at, put_f16};
use crate::codes::Codes;
use crate::search::{self, Whole};
use crate::tq1_0::{put_trits, trits};

/// Ternary values in blocks of 128, 1.75 bits each.
pub const PTQ1_0: WeightType = WeightType::new(&INFO);

static INFO: crate::TypeInfo = block::info::<Layout, 128, 28>("PTQ1_0", Some(143), Some(block::encode::<Layout, 128, 28>));

struct Layout;

impl Block<128, 28> for Layout {
    const GROUP: usize = 128;

    fn split(b: &[u8; 28], out: &mut Codes) {
        out.scales[0] = f16_at(b, 26);
        trits(&b[..16], &mut out.codes[..80]);
        trits(&b[16..24], &mut out.codes[80..120]);
        trits(&b[24..26], &mut out.codes[120..128]);
    }
}

impl EncodeBlock<128, 28> for Layout {
    fn encode(x: &[f32; 128], w: &[f32; 128]) -> [u8; 28] {
        let d = search::best_f16_scale::<Whole<-1, 1>>(x, w);
        let q = search::codes::<Whole<-1, 1>, 128>(x, d);
        let mut b = [0; 28];
        put_trits(&q[..80], &mut b[..16]);
        put_trits(&q[80..120], &mut b[16..24]);
        put_trits(&q[120..], &mut b[24..26]);
        put_f16(&mut b, 26, d);
        b
    }
}
