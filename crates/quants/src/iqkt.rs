//! IQ1_KT to IQ4_KT (ik_llama.cpp): 256 values in groups that a generator of random numbers makes from a code, as in QTIP's computed
//! codes (Tseng et al. 2024, arXiv:2406.11235); with a scale per 32 in a unit that the row begins with: `d`, f32.
//!
//! The generator starts at the code plus 4096 and multiplies by 0xcbac1fed, modulo 2^32, for each value, which is the sum of the low 6
//! bits of the four bytes, less 126. Blocks, in bytes, where p counts groups of 8 values (of 4 in IQ4_KT) and g those of 32:
//!
//! | | scales | codes |
//! |---|---|---|
//! | IQ1_KT | 0..8: low 4 bits of byte g name a level of IQ4_NL | 8..40: low 8 bits; 40..56: next 4 bits, byte p mod 16; top bit: bit 4 + p mod 4 of the scale's byte |
//! | IQ2_KT | 0..4: 4 bits, byte g mod 4, that name a level of IQ4_NL | 4..68: u16 |
//! | IQ3_KT | 0..4: 4 bits, byte g mod 4 | 4..68: u16; 68..100: bit g of byte j is set where value j of group g is less than zero |
//! | IQ4_KT | 0..32: u32 of group g: bits 1 to 7, less 64 | 32..96: low 8 bits; 96..128: next 4 bits, byte p mod 32; top 3 bits: from bit 8 + 3 (p mod 8) of the u32 |
//!
//! In the bytes that are shared, the low nibble is that of the lower p or g. IQ3_KT's values are made positive before they have their
//! signs. Where bit 0 of IQ4_KT's u32 is set, codes begin 32768 higher.
//!
//! `w = d * scale * value`. Layouts: `block_iq1_kt` and the next in ik_llama.cpp's `ggml-common.h`, the rest in `iqk_quantize.cpp`.

use crate::WeightType;
use crate::bits::folded;
use crate::block::{self, RowBlock, f32_at, u16_at, u32_at};
use crate::codes::Codes;
use crate::iq4::VALUES;

/// Groups of 8 values of 13 bits in blocks of 256 = 8 * 32, with a unit for the row.
pub const IQ1_KT: WeightType = WeightType::new(&INFO_1);
/// Groups of 8 values of 16 bits in blocks of 256 = 8 * 32, with a unit for the row.
pub const IQ2_KT: WeightType = WeightType::new(&INFO_2);
/// Groups of 8 values of 16 bits with signs in blocks of 256 = 8 * 32, with a unit for the row.
pub const IQ3_KT: WeightType = WeightType::new(&INFO_3);
/// Groups of 4 values of 15 bits in blocks of 256 = 8 * 32, with a unit for the row.
pub const IQ4_KT: WeightType = WeightType::new(&INFO_4);

static INFO_1: crate::TypeInfo = block::row_info::<Kt, 256, 56, 4>("IQ1_KT", Some(158));
static INFO_2: crate::TypeInfo = block::row_info::<Kt, 256, 68, 4>("IQ2_KT", Some(153));
static INFO_3: crate::TypeInfo = block::row_info::<Kt, 256, 100, 4>("IQ3_KT", Some(154));
static INFO_4: crate::TypeInfo = block::row_info::<Kt, 256, 128, 4>("IQ4_KT", Some(155));

/// The values of a code.
fn values<const N: usize>(code: u32) -> [i8; N] {
    let mut x = code + 4096;
    std::array::from_fn(|_| {
        x = x.wrapping_mul(0xcbac_1fed);
        let sum: u8 = x.to_le_bytes().map(|b| b & 63).iter().sum();
        (i16::from(sum) - 126) as i8
    })
}

struct Kt;

impl RowBlock<256, 56, 4> for Kt {
    const GROUP: usize = 32;

    fn split(header: &[u8; 4], b: &[u8; 56], out: &mut Codes) {
        let d = f32_at(header, 0);
        for g in 0..8 {
            out.scales[g] = d * f32::from(VALUES[usize::from(b[g] & 15)]);
        }
        for (p, q) in out.codes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let top = b[p / 4] >> (4 + p % 4) & 1;
            *q = values(u32::from_le_bytes([b[8 + p], folded(&b[40..56], p) | top << 4, 0, 0]));
        }
    }
}

impl RowBlock<256, 68, 4> for Kt {
    const GROUP: usize = 32;

    fn split(header: &[u8; 4], b: &[u8; 68], out: &mut Codes) {
        let d = f32_at(header, 0);
        for g in 0..8 {
            out.scales[g] = d * f32::from(VALUES[usize::from(folded(&b[..4], g))]);
        }
        for (p, q) in out.codes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            *q = values(u32::from(u16_at(b, 4 + 2 * p)));
        }
    }
}

impl RowBlock<256, 100, 4> for Kt {
    const GROUP: usize = 32;

    fn split(header: &[u8; 4], b: &[u8; 100], out: &mut Codes) {
        let d = f32_at(header, 0);
        for g in 0..8 {
            out.scales[g] = d * f32::from(folded(&b[..4], g));
        }
        for (p, q) in out.codes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            *q = values(u32::from(u16_at(b, 4 + 2 * p)));
            for (q, signs) in q.iter_mut().zip(&b[68 + 8 * (p % 4)..]) {
                *q = if signs >> (p / 4) & 1 == 1 { -q.abs() } else { q.abs() };
            }
        }
    }
}

impl RowBlock<256, 128, 4> for Kt {
    const GROUP: usize = 32;

    fn split(header: &[u8; 4], b: &[u8; 128], out: &mut Codes) {
        let d = f32_at(header, 0);
        for (g, q) in out.codes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let of_group = u32_at(b, 4 * g);
            out.scales[g] = d * ((of_group >> 1 & 127) as f32 - 64.0);
            let first = (of_group & 1) << 15;
            for (i, q) in q.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                let p = 8 * g + i;
                let top = of_group >> (8 + 3 * i) & 7;
                *q = values(first + u32::from_le_bytes([b[32 + p], folded(&b[96..128], p) | (top as u8) << 4, 0, 0]));
            }
        }
    }
}
