//! Q2_0 and PQ2_0: values of 2 bits with one scale per 64 (Q2_0) or 128 (PQ2_0, PrismML).
//!
//! | bytes | field |
//! |---|---|
//! | 0..2 | `d`: f16 |
//! | 2..18 or 2..34 | `qs`: value j is bits 2 (j mod 4) and the next of byte j / 4 |
//!
//! `w = d * (q - 1)`: codes mean -1, 0, 1 and 2. Layout: `block_q2_0` in ggml's `ggml-common.h`; PrismML's fork for PQ2_0.

use crate::WeightType;
use crate::block::{self, Block, EncodeBlock, f16_at, put_f16};
use crate::codes::Codes;
use crate::search::{self, Whole};

/// 2-bit values in blocks of 64.
pub const Q2_0: WeightType = WeightType::new(&Q2_0_INFO);
/// 2-bit values in blocks of 128.
pub const PQ2_0: WeightType = WeightType::new(&PQ2_0_INFO);

static Q2_0_INFO: crate::TypeInfo = block::info::<Layout, 64, 18>("Q2_0", Some(42), Some(block::encode::<Layout, 64, 18>));
static PQ2_0_INFO: crate::TypeInfo = block::info::<Layout, 128, 34>("PQ2_0", Some(142), Some(block::encode::<Layout, 128, 34>));

struct Layout;

impl Block<64, 18> for Layout {
    const GROUP: usize = 64;

    fn split(b: &[u8; 18], out: &mut Codes) {
        split(b, out);
    }
}

impl Block<128, 34> for Layout {
    const GROUP: usize = 128;

    fn split(b: &[u8; 34], out: &mut Codes) {
        split(b, out);
    }
}

fn split<const BYTES: usize>(b: &[u8; BYTES], out: &mut Codes) {
    out.scales[0] = f16_at(b, 0);
    for (b, codes) in b[2..].iter().zip(out.codes.as_chunks_mut::<4>().0) {
        for (s, q) in codes.iter_mut().enumerate() {
            *q = (b >> (2 * s) & 3) as i8 - 1;
        }
    }
}

impl EncodeBlock<64, 18> for Layout {
    fn encode(x: &[f32; 64], w: &[f32; 64]) -> [u8; 18] {
        encode(x, w)
    }
}

impl EncodeBlock<128, 34> for Layout {
    fn encode(x: &[f32; 128], w: &[f32; 128]) -> [u8; 34] {
        encode(x, w)
    }
}

fn encode<const VALUES: usize, const BYTES: usize>(x: &[f32; VALUES], w: &[f32; VALUES]) -> [u8; BYTES] {
    let d = search::best_f16_scale::<Whole<-1, 2>>(x, w);
    let q = search::codes::<Whole<-1, 2>, VALUES>(x, d);
    let mut b = [0; BYTES];
    put_f16(&mut b, 0, d);
    for (b, q) in b[2..].iter_mut().zip(q.as_chunks::<4>().0) {
        *b = q.iter().rev().fold(0, |byte, q| byte << 2 | (q + 1) as u8);
    }
    b
}
