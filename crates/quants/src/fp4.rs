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
use crate::block::{self, Block, EncodeBlock};
use crate::codes::Codes;
use crate::search::{self, Ladder, Levels, places};

/// E2M1 floats in blocks of 32 with a power of two as the scale.
pub const MXFP4: WeightType = WeightType::new(&MXFP4_INFO);
/// E2M1 floats in blocks of 64 = 4 * 16 with E4M3 scales.
pub const NVFP4: WeightType = WeightType::new(&NVFP4_INFO);

static MXFP4_INFO: crate::TypeInfo = block::info::<Mx, 32, 17>("MXFP4", Some(39), Some(block::encode::<Mx, 32, 17>));
static NVFP4_INFO: crate::TypeInfo = block::info::<Nv, 64, 36>("NVFP4", Some(40), Some(block::encode::<Nv, 64, 36>));

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

struct Floats;

impl Levels for Floats {
    const LOWEST: f32 = -12.0;
    const HIGHEST: f32 = 12.0;
    const STEP: f32 = 4.0;

    #[inline(always)]
    fn nearest(t: f32) -> f32 {
        const LADDER: Ladder<8> = Ladder { levels: [0, 1, 2, 3, 4, 6, 8, 12] };
        LADDER.nearest(t.abs()).copysign(t)
    }
}

/// The code of a level, which is twice its value.
fn code(level: i8) -> u8 {
    static PLACES: [u8; 256] = places(&E2M1);
    PLACES[usize::from(level as u8)]
}

/// The scale code with the least error among those within `reach` of the one whose scale is nearest above `ideal`.
/// Scales ascend with their codes, up to `last`.
fn best_code(x: &[f32], w: &[f32], scale: fn(u8) -> f32, last: u8, reach: u8) -> u8 {
    let ideal = search::best_scale::<Floats>(x, w);
    let (mut low, mut high) = (0, last);
    while low < high {
        let middle = low + (high - low) / 2;
        if scale(middle) < ideal { low = middle + 1 } else { high = middle }
    }
    let mut best = (f32::INFINITY, low);
    for code in low.saturating_sub(reach)..=low.saturating_add(reach).min(last) {
        let error = search::fit::<Floats>(x, w, scale(code)).error;
        if error < best.0 {
            best = (error, code);
        }
    }
    best.1
}

impl EncodeBlock<32, 17> for Mx {
    fn encode(x: &[f32; 32], w: &[f32; 32]) -> [u8; 17] {
        let mut b = [0; 17];
        b[0] = best_code(x, w, half_e8m0, 254, 2);
        let q = search::codes::<Floats, 32>(x, half_e8m0(b[0])).map(code);
        for j in 0..16 {
            b[1 + j] = q[j] | q[j + 16] << 4;
        }
        b
    }
}

impl EncodeBlock<64, 36> for Nv {
    fn encode(x: &[f32; 64], w: &[f32; 64]) -> [u8; 36] {
        let mut b = [0; 36];
        for (g, (x, w)) in x.as_chunks::<16>().0.iter().zip(w.as_chunks::<16>().0).enumerate() {
            b[g] = best_code(x, w, half_ue4m3, 126, 3);
            let q = search::codes::<Floats, 16>(x, half_ue4m3(b[g])).map(code);
            for j in 0..8 {
                b[4 + 8 * g + j] = q[j] | q[8 + j] << 4;
            }
        }
        b
    }
}
