//! IQ2_K to IQ6_K (ik_llama.cpp): 256 values of 2 to 6 bits that name unevenly spaced levels, with a scale per 16.
//!
//! All blocks begin with `d`: f16, and a u16 whose bit g is set where the levels of group g are shifted. Then, in bytes:
//!
//! | | scales | codes |
//! |---|---|---|
//! | IQ2_K | 4..12: 4 bits, less 8 | 12..76: plane of 2 bits |
//! | IQ3_K | 4..6: bit g is set where scale g is negative; 6..14: 4 bits k of `2 k + 1` | 14..78: plane of 2 bits; 78..110: of the high bit |
//! | IQ4_K | 4..8: high 2 bits; 8..16: low 4 bits; less 32 | 16..144: 4 bits, placed as in IQ4_NL |
//! | IQ5_K | 4..8 and 8..16, as IQ4_K | 16..144: plane of 4 bits; 144..176: of the high bit |
//! | IQ6_K | 4..20: i8 | 20..148: plane of 4 bits; 148..212: of the high 2 bits |
//!
//! `w = d * scale * level`; levels: `uneven.rs`; planes: `bits.rs`. Layouts: `block_iq2_k` and the next in ik_llama.cpp's `ggml-common.h`.

use crate::WeightType;
use crate::bits::{crumb, halves, nibble, plane};
use crate::block::{self, Block, f16_at, u16_at};
use crate::codes::Codes;
use crate::uneven;

/// Unevenly spaced 2-bit values in blocks of 256 = 16 * 16.
pub const IQ2_K: WeightType = WeightType::new(&INFO_2);
/// Unevenly spaced 3-bit values in blocks of 256 = 16 * 16.
pub const IQ3_K: WeightType = WeightType::new(&INFO_3);
/// Unevenly spaced 4-bit values in blocks of 256 = 16 * 16.
pub const IQ4_K: WeightType = WeightType::new(&INFO_4);
/// Unevenly spaced 5-bit values in blocks of 256 = 16 * 16.
pub const IQ5_K: WeightType = WeightType::new(&INFO_5);
/// Unevenly spaced 6-bit values in blocks of 256 = 16 * 16.
pub const IQ6_K: WeightType = WeightType::new(&INFO_6);

static INFO_2: crate::TypeInfo = block::info::<K, 256, 76>("IQ2_K", Some(137), None);
static INFO_3: crate::TypeInfo = block::info::<K, 256, 110>("IQ3_K", Some(138), None);
static INFO_4: crate::TypeInfo = block::info::<K, 256, 144>("IQ4_K", Some(139), None);
static INFO_5: crate::TypeInfo = block::info::<K, 256, 176>("IQ5_K", Some(140), None);
static INFO_6: crate::TypeInfo = block::info::<K, 256, 212>("IQ6_K", Some(141), None);

struct K;

/// What a block begins with, from the scales as numbers.
fn groups(b: &[u8], scale: impl Fn(usize) -> i8) -> impl Fn(usize) -> (f32, bool) {
    let (d, shifted) = (f16_at(b, 0), u16_at(b, 2));
    move |g| (d * f32::from(scale(g)), shifted >> g & 1 == 1)
}

/// Scales of 6 bits, in 4..16.
fn six_bits(b: &[u8], g: usize) -> i8 {
    (nibble(&b[8..], g) | crumb(&b[4..], g) << 4) as i8 - 32
}

impl Block<256, 76> for K {
    const GROUP: usize = 16;

    fn split(b: &[u8; 76], out: &mut Codes) {
        let group = groups(b, |g| nibble(&b[4..], g) as i8 - 8);
        uneven::TWO.split::<16>(|i| plane::<2>(&b[12..], i), group, out);
    }
}

impl Block<256, 110> for K {
    const GROUP: usize = 16;

    fn split(b: &[u8; 110], out: &mut Codes) {
        let negative = u16_at(b, 4);
        let group = groups(b, |g| (2 * nibble(&b[6..], g) as i8 + 1) * if negative >> g & 1 == 1 { -1 } else { 1 });
        uneven::THREE.split::<16>(|i| plane::<2>(&b[14..], i) | plane::<1>(&b[78..], i) << 2, group, out);
    }
}

impl Block<256, 144> for K {
    const GROUP: usize = 16;

    fn split(b: &[u8; 144], out: &mut Codes) {
        uneven::FOUR.split::<16>(|i| halves(&b[16..], i), groups(b, |g| six_bits(b, g)), out);
    }
}

impl Block<256, 176> for K {
    const GROUP: usize = 16;

    fn split(b: &[u8; 176], out: &mut Codes) {
        let code = |i| plane::<4>(&b[16..], i) | plane::<1>(&b[144..], i) << 4;
        uneven::FIVE.split::<16>(code, groups(b, |g| six_bits(b, g)), out);
    }
}

impl Block<256, 212> for K {
    const GROUP: usize = 16;

    fn split(b: &[u8; 212], out: &mut Codes) {
        let code = |i| plane::<4>(&b[20..], i) | plane::<2>(&b[148..], i) << 4;
        uneven::SIX.split::<16>(code, groups(b, |g| b[4 + g] as i8), out);
    }
}
