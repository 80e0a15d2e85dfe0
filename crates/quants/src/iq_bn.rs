//! IQ1_BN and IQ2_BN (ik_llama.cpp): ternary values with one scale per row, made for BitNet b1.58.
//!
//! A row of IQ1_BN begins with `d`: f16. A block of 64 values, 1.625 bits each:
//!
//! | bytes | field |
//! |---|---|
//! | 0..12 | five trits each: byte 3 g + k holds values 16 g + 5 k and the next |
//! | 12 | four trits: values 15, 31, 47 and 63 |
//!
//! Trit n of a byte b is `(uint8(b * 3^(4 - n)) * 3) >> 8`.
//!
//! A row of IQ2_BN begins with `d`: f32. A block of 64 values, 2 bits each:
//!
//! | bytes | field |
//! |---|---|
//! | 0..16 | bits 2 p and 2 p + 1 of byte j are value 16 p + j |
//!
//! `w = d * (q - 1)`. Layouts: `block_iq1_bn` and `block_iq2_bn` in ik_llama.cpp's `ggml-common.h`, the rows in `iqk_quantize.cpp`.

use crate::WeightType;
use crate::block::{self, RowBlock, f16_at, f32_at};
use crate::codes::Codes;

/// Trits in blocks of 64, with a scale for the row.
pub const IQ1_BN: WeightType = WeightType::new(&ONE_INFO);
/// 2-bit values in blocks of 64, with a scale for the row.
pub const IQ2_BN: WeightType = WeightType::new(&TWO_INFO);

static ONE_INFO: crate::TypeInfo = block::row_info::<One, 64, 13, 2>("IQ1_BN", Some(134));
static TWO_INFO: crate::TypeInfo = block::row_info::<Two, 64, 16, 4>("IQ2_BN", Some(135));

struct One;

impl RowBlock<64, 13, 2> for One {
    const GROUP: usize = 64;

    fn split(header: &[u8; 2], b: &[u8; 13], out: &mut Codes) {
        out.scales[0] = f16_at(header, 0);
        for (i, q) in out.codes[..64].iter_mut().enumerate() {
            let (byte, n) = if i % 16 == 15 { (12, i / 16) } else { (3 * (i / 16) + i % 16 / 5, i % 16 % 5) };
            *q = trit(b[byte], n);
        }
    }
}

fn trit(b: u8, n: usize) -> i8 {
    const POWERS: [u8; 5] = [81, 27, 9, 3, 1];
    ((u16::from(b.wrapping_mul(POWERS[n])) * 3) >> 8) as i8 - 1
}

struct Two;

impl RowBlock<64, 16, 4> for Two {
    const GROUP: usize = 64;

    fn split(header: &[u8; 4], b: &[u8; 16], out: &mut Codes) {
        out.scales[0] = f32_at(header, 0);
        for (p, codes) in out.codes[..64].as_chunks_mut::<16>().0.iter_mut().enumerate() {
            for (q, b) in codes.iter_mut().zip(b) {
                *q = (b >> (2 * p) & 3) as i8 - 1;
            }
        }
    }
}
