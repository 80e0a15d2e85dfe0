//! MXFP4 and NVFP4: 4-bit floats (E2M1) with a small float as the scale.
//!
//! MXFP4 (OCP Microscaling Formats v1.0), 32 values:
//!
//! | bytes | field |
//! |---|---|
//! | 0 | `e`: E8M0, the scale is 2^(e - 127) |
//! | 1..17 | byte j holds value j in its low and value j + 16 in its high nibble |
//!
//! NVFP4, 64 values in groups of 16:
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | one unsigned E4M3 scale per group |
//! | 4..36 | byte 8 g + j holds value 16 g + j in its low and value 16 g + 8 + j in its high nibble |
//!
//! A GGUF holds one more f32 scale per NVFP4 tensor as a tensor of its own; it multiplies the product and is no part of the block.
//!
//! Codes are doubled here (0, 1, 2, 3, 4, 6, 8, 12), so that they are whole, and scales halved.
//! Layouts: `block_mxfp4` and `block_nvfp4` in ggml's `ggml-common.h`.

use crate::WeightType;
use crate::block::{self, Block};
use crate::codes::Codes;

/// E2M1 floats in blocks of 32 with a power of two as the scale.
pub const MXFP4: WeightType = WeightType::new(&MXFP4_INFO);
/// E2M1 floats in blocks of 64 = 4 * 16 with E4M3 scales.
pub const NVFP4: WeightType = WeightType::new(&NVFP4_INFO);

static MXFP4_INFO: crate::TypeInfo = block::info::<Mx, 32, 17>("MXFP4", Some(39), None);
static NVFP4_INFO: crate::TypeInfo = block::info::<Nv, 64, 36>("NVFP4", Some(40), None);

/// Twice the value of each E2M1 code.
const E2M1: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

struct Mx;

impl Block<32, 17> for Mx {
    const GROUP: usize = 32;

    fn split(b: &[u8; 17], out: &mut Codes) {
        out.scales[0] = half_e8m0(b[0]);
        for j in 0..16 {
            out.codes[j] = E2M1[usize::from(b[1 + j] & 15)];
            out.codes[j + 16] = E2M1[usize::from(b[1 + j] >> 4)];
        }
    }
}

struct Nv;

impl Block<64, 36> for Nv {
    const GROUP: usize = 16;

    fn split(b: &[u8; 36], out: &mut Codes) {
        for g in 0..4 {
            out.scales[g] = half_ue4m3(b[g]);
            for j in 0..8 {
                let q = b[4 + 8 * g + j];
                out.codes[16 * g + j] = E2M1[usize::from(q & 15)];
                out.codes[16 * g + 8 + j] = E2M1[usize::from(q >> 4)];
            }
        }
    }
}

/// 2^(e - 128). The two smallest are subnormal; the code 255, NaN by the standard, is read as 2^127, as ggml does.
fn half_e8m0(e: u8) -> f32 {
    f32::from_bits(if e < 2 { 0x0020_0000 << e } else { u32::from(e - 1) << 23 })
}

/// Half of an E4M3 number without its sign. The code 127, NaN by the standard, is read as zero, as ggml does.
fn half_ue4m3(b: u8) -> f32 {
    if b == 0x7f {
        return 0.0;
    }
    let (exponent, mantissa) = (b >> 3 & 15, b & 7);
    match exponent {
        0 => f32::from(mantissa) / 1024.0,
        // 2^(exponent - 7) / 2, put together as bits.
        _ => (1.0 + f32::from(mantissa) / 8.0) * f32::from_bits((u32::from(exponent) + 119) << 23),
    }
}
