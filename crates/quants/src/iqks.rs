//! IQ2_KS to IQ5_KS, IQ4_KSS and IQ2_KL (ik_llama.cpp): 256 values that name unevenly spaced levels, with a scale per 32 in a unit that
//! the row begins with: `d`, f16 in IQ2_KS, IQ3_KS and IQ2_KL, f32 in the others. Blocks, in bytes:
//!
//! | | scales of groups g, and where their levels are shifted | codes |
//! |---|---|---|
//! | IQ2_KS | 0..2: bits g: shifted, bits 8 + g: high bit; 2..6: low 4 bits, less 16 | 6..70: plane of 2 bits |
//! | IQ3_KS | 0..2: bits g: high bit, bits 8 + g: shifted; 2..6: low 4 bits, byte g mod 4, less 16 | 6..70: plane of 2 bits; 70..102: of the high bit |
//! | IQ4_KS | 0..8: bit 0: shifted; the others as they are, less 127 | 8..136: 4 bits, placed as in IQ4_NL |
//! | IQ5_KS | 0..8, as IQ4_KS | 8..136: plane of 4 bits; 136..168: of the high bit |
//! | IQ4_KSS | bit 0 of the 8 u16 of a group: bits of what IQ4_KS has, lowest first | their other bits x: `x ^ x >> 1`, seen as 16 bytes as IQ4_KS |
//! | IQ2_KL | 0..2: bits 2 g and the next: high bits; 2..6: low 4 bits, byte g mod 4, less 32 | below |
//!
//! In the bytes that are shared by g mod 4, the low nibble is that of the lower g. A code of IQ2_KL has 5 bits and names a pair of
//! levels: 6..70: nibble g mod 2 of byte 16 (g / 2) + p for pair p of group g; 70..86: bit g of byte p is the high bit.
//!
//! `w = d * scale * level`; levels: `uneven.rs`; planes: `bits.rs`. Layouts: `block_iq2_ks` and others in ik_llama.cpp's `ggml-common.h`, the
//! rows in `iqk_quantize.cpp`.

use crate::WeightType;
use crate::bits::{crumb, folded, halves, nibble, plane};
use crate::block::{self, RowBlock, f16_at, f32_at, u16_at};
use crate::codes::Codes;
use crate::uneven;

/// Unevenly spaced 2-bit values in blocks of 256 = 8 * 32, with a unit for the row.
pub const IQ2_KS: WeightType = WeightType::new(&INFO_2);
/// Unevenly spaced 3-bit values in blocks of 256 = 8 * 32, with a unit for the row.
pub const IQ3_KS: WeightType = WeightType::new(&INFO_3);
/// Unevenly spaced 4-bit values in blocks of 256 = 8 * 32, with a unit for the row.
pub const IQ4_KS: WeightType = WeightType::new(&INFO_4);
/// Unevenly spaced 5-bit values in blocks of 256 = 8 * 32, with a unit for the row.
pub const IQ5_KS: WeightType = WeightType::new(&INFO_5);
/// IQ4_KS in 4 bits: a bit of each 16 is given up for the scale.
pub const IQ4_KSS: WeightType = WeightType::new(&INFO_4S);
/// Pairs of values of 5 bits in blocks of 256 = 8 * 32, with a unit for the row.
pub const IQ2_KL: WeightType = WeightType::new(&INFO_2L);

static INFO_2: crate::TypeInfo = block::row_info::<Ks, 256, 70, 2>("IQ2_KS", Some(145));
static INFO_3: crate::TypeInfo = block::row_info::<Ks, 256, 102, 2>("IQ3_KS", Some(156));
static INFO_4: crate::TypeInfo = block::row_info::<Ks, 256, 136, 4>("IQ4_KS", Some(144));
static INFO_5: crate::TypeInfo = block::row_info::<Ks, 256, 168, 4>("IQ5_KS", Some(152));
static INFO_4S: crate::TypeInfo = block::row_info::<Kss, 256, 128, 4>("IQ4_KSS", Some(146));
static INFO_2L: crate::TypeInfo = block::row_info::<Kl, 256, 86, 2>("IQ2_KL", Some(157));

/// Scale and shift from the byte of IQ4_KS.
fn byte_group(d: f32, byte: u8) -> (f32, bool) {
    (d * (f32::from(byte & 254) - 127.0), byte & 1 == 1)
}

struct Ks;

impl RowBlock<256, 70, 2> for Ks {
    const GROUP: usize = 32;

    fn split(header: &[u8; 2], b: &[u8; 70], out: &mut Codes) {
        let (d, bits) = (f16_at(header, 0), u16_at(b, 0));
        let scale = |g: usize| (nibble(&b[2..], g) | ((bits >> (8 + g) & 1) as u8) << 4) as i8 - 16;
        uneven::TWO.split::<32>(|i| plane::<2>(&b[6..], i), |g| (d * f32::from(scale(g)), bits >> g & 1 == 1), out);
    }
}

impl RowBlock<256, 102, 2> for Ks {
    const GROUP: usize = 32;

    fn split(header: &[u8; 2], b: &[u8; 102], out: &mut Codes) {
        let (d, bits) = (f16_at(header, 0), u16_at(b, 0));
        let scale = |g: usize| (folded(&b[2..6], g) | ((bits >> g & 1) as u8) << 4) as i8 - 16;
        let code = |i| plane::<2>(&b[6..], i) | plane::<1>(&b[70..], i) << 2;
        uneven::THREE.split::<32>(code, |g| (d * f32::from(scale(g)), bits >> (8 + g) & 1 == 1), out);
    }
}

impl RowBlock<256, 136, 4> for Ks {
    const GROUP: usize = 32;

    fn split(header: &[u8; 4], b: &[u8; 136], out: &mut Codes) {
        let d = f32_at(header, 0);
        uneven::FOUR.split::<32>(|i| halves(&b[8..], i), |g| byte_group(d, b[g]), out);
    }
}

impl RowBlock<256, 168, 4> for Ks {
    const GROUP: usize = 32;

    fn split(header: &[u8; 4], b: &[u8; 168], out: &mut Codes) {
        let d = f32_at(header, 0);
        let code = |i| plane::<4>(&b[8..], i) | plane::<1>(&b[136..], i) << 4;
        uneven::FIVE.split::<32>(code, |g| byte_group(d, b[g]), out);
    }
}

struct Kss;

impl RowBlock<256, 128, 4> for Kss {
    const GROUP: usize = 32;

    fn split(header: &[u8; 4], b: &[u8; 128], out: &mut Codes) {
        let d = f32_at(header, 0);
        let (mut bytes, mut codes) = ([0; 8], [0; 128]);
        for i in 0..64 {
            let x = u16_at(b, 2 * i);
            bytes[i / 8] |= ((x & 1) as u8) << (i % 8);
            let x = x & !1;
            codes[2 * i..2 * i + 2].copy_from_slice(&(x ^ x >> 1).to_le_bytes());
        }
        uneven::FOUR.split::<32>(|i| halves(&codes, i), |g| byte_group(d, bytes[g]), out);
    }
}

struct Kl;

/// The pairs of levels of IQ2_KL: `iq2kl_values` in ik_llama.cpp's `ggml-common.h`.
#[rustfmt::skip]
static PAIRS: [[i8; 2]; 32] = [
    [-63, -23], [-63, 13], [-40, -63], [-40, -10], [-40, 13], [-40, 47], [-23, -40], [-23, -23],
    [-23, 1], [-23, 13], [-23, 28], [-10, -63], [-10, 1], [-10, 13], [-10, 47], [1, -23],
    [1, -10], [1, 1], [1, 13], [1, 28], [13, -40], [13, -23], [13, -10], [13, 1],
    [13, 13], [28, -63], [28, -23], [28, 1], [28, 28], [28, 47], [47, -23], [47, 13],
];

impl RowBlock<256, 86, 2> for Kl {
    const GROUP: usize = 32;

    fn split(header: &[u8; 2], b: &[u8; 86], out: &mut Codes) {
        let d = f16_at(header, 0);
        for (g, codes) in out.codes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let scale = (folded(&b[2..6], g) | crumb(b, g) << 4) as i8 - 32;
            out.scales[g] = d * f32::from(scale);
            for (p, pair) in codes.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                let code = b[6 + 16 * (g / 2) + p] >> (4 * (g % 2)) & 15 | (b[70 + p] >> g & 1) << 4;
                *pair = PAIRS[usize::from(code)];
            }
        }
    }
}
