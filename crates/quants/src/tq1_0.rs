//! TQ1_0: 256 ternary values, five to a byte, with one scale.
//!
//! | bytes | field |
//! |---|---|
//! | 0..32 | byte m holds values 32 n + m for n < 5 |
//! | 32..48 | byte m holds values 160 + 16 n + m for n < 5 |
//! | 48..52 | byte m holds values 240 + 4 n + m for n < 4 |
//! | 52..54 | `d`: f16 |
//!
//! `w = d * trit`, trits as [`trits`] tells. Layout: `block_tq1_0` in ggml's `ggml-common.h`.

use crate::WeightType;
use crate::block::{self, Block, EncodeBlock, f16_at, put_f16};
use crate::codes::Codes;
use crate::search::{self, Whole};

/// Ternary values in blocks of 256, 1.6875 bits each.
pub const TQ1_0: WeightType = WeightType::new(&INFO);

static INFO: crate::TypeInfo = block::info::<Layout, 256, 54>("TQ1_0", Some(34), Some(block::encode::<Layout, 256, 54>));

struct Layout;

impl Block<256, 54> for Layout {
    const GROUP: usize = 256;

    fn split(b: &[u8; 54], out: &mut Codes) {
        out.scales[0] = f16_at(b, 52);
        trits(&b[..32], &mut out.codes[..160]);
        trits(&b[32..48], &mut out.codes[160..240]);
        trits(&b[48..52], &mut out.codes[240..]);
    }
}

/// Unpacks -1, 0, 1 from bytes that are fixed-point fractions: with `b / 256` the fraction, its n-th ternary digit is
/// the whole part of `3 * frac(3^n * b / 256)`. Value `n * bytes.len() + m` is digit n of byte m.
pub(crate) fn trits(bytes: &[u8], codes: &mut [i8]) {
    let mut power = 1u8;
    for codes in codes.chunks_exact_mut(bytes.len()) {
        for (q, b) in codes.iter_mut().zip(bytes) {
            *q = ((u16::from(b.wrapping_mul(power)) * 3) >> 8) as i8 - 1;
        }
        power = power.wrapping_mul(3);
    }
}

impl EncodeBlock<256, 54> for Layout {
    fn encode(x: &[f32; 256], w: &[f32; 256]) -> [u8; 54] {
        let d = search::best_f16_scale::<Whole<-1, 1>>(x, w);
        let q = search::codes::<Whole<-1, 1>, 256>(x, d);
        let mut b = [0; 54];
        put_trits(&q[..160], &mut b[..32]);
        put_trits(&q[160..240], &mut b[32..48]);
        put_trits(&q[240..], &mut b[48..52]);
        put_f16(&mut b, 52, d);
        b
    }
}

/// Writes what [`trits`] reads: the digits as a number below 3^5 = 243, then that over 243 as a fraction of 256, rounded up.
pub(crate) fn put_trits(codes: &[i8], bytes: &mut [u8]) {
    let stride = bytes.len();
    for (m, b) in bytes.iter_mut().enumerate() {
        let digits = (0..5).map(|n| codes.get(n * stride + m).map_or(0, |q| (q + 1) as u16));
        *b = (digits.fold(0, |number, digit| number * 3 + digit) * 256).div_ceil(243) as u8;
    }
}
