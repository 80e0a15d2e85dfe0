//! IQ1_S and IQ1_M: 256 values; each 8 are a ternary point of a grid of 2048, shifted by an eighth up or down.
//!
//! IQ1_S, one scale and one shift per 32 values:
//!
//! | bytes | field |
//! |---|---|
//! | 0..2 | `d`: f16 |
//! | 2..34 | low 8 bits of the codes |
//! | 34..50 | 8 u16: high 3 bits of four codes, lowest first; 3 bits of scale; the top bit is set where the shift is down |
//!
//! IQ1_M, one scale per 16 values and one shift per 8:
//!
//! | bytes | field |
//! |---|---|
//! | 0..32 | low 8 bits of the codes |
//! | 32..48 | per code a nibble, the even one low: 3 high bits of the code, and a bit set where the shift is down |
//! | 48..56 | 4 u16: each four scales of 3 bits, lowest first; their top nibbles are, lowest first, the four nibbles of `d`: f16 |
//!
//! `w = d * (2 scale + 1) * (point ± 1/8)`; in codes, eighths. Layouts: `block_iq1_s`, `block_iq1_m` in ggml's `ggml-common.h`.

use crate::WeightType;
use crate::block::{self, Block, f16_at, u16_at};
use crate::codes::Codes;
use crate::grids;
use half::f16;

/// Ternary grid points of 8 values in blocks of 256, 1.5625 bits.
pub const IQ1_S: WeightType = WeightType::new(&S_INFO);
/// Ternary grid points of 8 values in blocks of 256, 1.75 bits.
pub const IQ1_M: WeightType = WeightType::new(&M_INFO);

static S_INFO: crate::TypeInfo = block::info::<S, 256, 50>("IQ1_S", Some(19), None);
static M_INFO: crate::TypeInfo = block::info::<M, 256, 56>("IQ1_M", Some(29), None);

struct S;

impl Block<256, 50> for S {
    const GROUP: usize = 32;

    fn split(b: &[u8; 50], out: &mut Codes) {
        let d = f16_at(b, 0);
        for (g, codes) in out.codes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let h = u16_at(b, 34 + 2 * g);
            out.scales[g] = scale(d, h >> 12);
            for (p, codes) in codes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                *codes = eighths(u16::from(b[2 + 4 * g + p]) | (h >> (3 * p) & 7) << 8, h >> 15);
            }
        }
    }
}

struct M;

impl Block<256, 56> for M {
    const GROUP: usize = 16;

    fn split(b: &[u8; 56], out: &mut Codes) {
        let packed = [0, 1, 2, 3].map(|i| u16_at(b, 48 + 2 * i));
        let d = packed.iter().enumerate().fold(0, |d, (i, p)| d | (p >> 12) << (4 * i));
        let d = f16::from_bits(d).to_f32();
        for g in 0..16 {
            out.scales[g] = scale(d, packed[g / 4] >> (3 * (g % 4)));
        }
        for (p, codes) in out.codes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let high = u16::from(b[32 + p / 2] >> (4 * (p % 2)));
            *codes = eighths(u16::from(b[p]) | (high & 7) << 8, high >> 3 & 1);
        }
    }
}

/// The value of an eighth.
fn scale(d: f32, code: u16) -> f32 {
    d * f32::from(2 * (code & 7) + 1) * 0.125
}

/// A point in eighths, shifted down where `down` is one and up where it is zero.
fn eighths(code: u16, down: u16) -> [i8; 8] {
    grids::IQ1[usize::from(code)].map(|q| 8 * q + 1 - 2 * down as i8)
}
