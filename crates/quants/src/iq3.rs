//! IQ3_XXS and IQ3_S: 256 values; each 4 are a point of a grid with signs.
//!
//! IQ3_XXS, per 32 values a scale and eight points of 256, with 7 signs for two points (the eighth makes their number even):
//!
//! | bytes | field |
//! |---|---|
//! | 0..2 | `d`: f16 |
//! | 2..66 | the points' codes |
//! | 66..98 | 8 u32: 4 times 7 signs and, in the top 4 bits, the scale |
//!
//! `w = d * (scale + 1/2) / 2 * (point with signs)`.
//!
//! IQ3_S, per 32 values a scale and eight points of 512, with all signs:
//!
//! | bytes | field |
//! |---|---|
//! | 0..2 | `d`: f16 |
//! | 2..66 | low 8 bits of the codes |
//! | 66..74 | bit p mod 8 of byte p / 8 is the highest bit of code p |
//! | 74..106 | signs: bit i mod 8 of byte i / 8 is set where value i is negative |
//! | 106..110 | 8 scales of 4 bits, two to a byte, the even one in the low nibble |
//!
//! `w = d * (2 scale + 1) * (point with signs)`. Layouts: `block_iq3_xxs`, `block_iq3_s` in ggml's `ggml-common.h`.

use crate::WeightType;
use crate::block::{self, Block, EncodeBlock, f16_at, put_f16, u32_at};
use crate::codes::Codes;
use crate::grids::{self, IQ3_S_LEVELS, IQ3_XXS_LEVELS, even_signs};
use crate::iq2::signed;
use crate::lattice::{self, Lattice, Octet, Signed};
use crate::multiples::{self, Multiples, Unit};
use std::sync::LazyLock;

/// Grid points of 4 values in blocks of 256, 3.0625 bits.
pub const IQ3_XXS: WeightType = WeightType::new(&XXS_INFO);
/// Grid points of 4 values in blocks of 256, 3.4375 bits.
pub const IQ3_S: WeightType = WeightType::new(&S_INFO);

static XXS_INFO: crate::TypeInfo = block::info::<Xxs, 256, 98>("IQ3_XXS", Some(18), Some(block::encode::<Xxs, 256, 98>));
static S_INFO: crate::TypeInfo = block::info::<S, 256, 110>("IQ3_S", Some(21), Some(block::encode::<S, 256, 110>));

struct Xxs;

impl Block<256, 98> for Xxs {
    const GROUP: usize = 32;

    fn split(b: &[u8; 98], out: &mut Codes) {
        let d = f16_at(b, 0);
        for g in 0..8 {
            let signs = u32_at(b, 66 + 4 * g);
            out.scales[g] = d * (0.5 + (signs >> 28) as f32) * 0.5;
            for p in 0..8 {
                let negative = even_signs((signs >> (7 * (p / 2))) as u8) >> (4 * (p % 2));
                let point = signed(&grids::IQ3_XXS[usize::from(b[2 + 8 * g + p])], negative);
                out.codes[32 * g + 4 * p..][..4].copy_from_slice(&point);
            }
        }
    }
}

struct S;

impl Block<256, 110> for S {
    const GROUP: usize = 32;

    fn split(b: &[u8; 110], out: &mut Codes) {
        let d = f16_at(b, 0);
        for g in 0..8 {
            out.scales[g] = d * f32::from(2 * (b[106 + g / 2] >> (4 * (g % 2)) & 15) + 1);
        }
        for (p, codes) in out.codes.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let high = usize::from(b[66 + p / 8] >> (p % 8) & 1);
            let negative = b[74 + p / 2] >> (4 * (p % 2));
            *codes = signed(&grids::IQ3_S[usize::from(b[2 + p]) | high << 8], negative);
        }
    }
}

/// The unit and the points, two for each 8 values. Points go up to `end`, with levels `step` apart.
fn search(x: &[f32; 256], w: &[f32; 256], grid: &Signed<4, 7>, multiples: Multiples, end: f32, step: f32) -> (Unit<8>, [Octet; 32]) {
    let fit = |x: &[f32; 32], w: &[f32; 32], s| grid.fit(x, w, s);
    let ideal = |x: &[f32; 32], w: &[f32; 32]| lattice::best_scale(x, end, step, |s| fit(x, w, s));
    let unit = multiples::best_unit(x, w, multiples, ideal, fit);
    let (x, w) = (x.as_chunks::<8>().0, w.as_chunks::<8>().0);
    let points = std::array::from_fn(|p| grid.octet(&x[p], &w[p], unit.scale(p / 4)));
    (unit, points)
}

impl EncodeBlock<256, 98> for Xxs {
    fn encode(x: &[f32; 256], w: &[f32; 256]) -> [u8; 98] {
        static GRID: LazyLock<Signed<4, 7>> =
            LazyLock::new(|| Signed { lattice: Lattice::new(&grids::IQ3_XXS, &IQ3_XXS_LEVELS, 1), even: true });
        const MULTIPLES: Multiples = Multiples { low: 0, high: 15, first: 0.25, step: 0.5 };
        let (unit, points) = search(x, w, &GRID, MULTIPLES, 62.0, 8.0);
        let mut b = [0; 98];
        put_f16(&mut b, 0, unit.d);
        for (g, points) in points.as_chunks::<4>().0.iter().enumerate() {
            let mut signs = (unit.codes[g] as u32) << 28;
            for (p, point) in points.iter().enumerate() {
                b[2 + 8 * g + 2 * p] = point.codes[0] as u8;
                b[3 + 8 * g + 2 * p] = point.codes[1] as u8;
                signs |= u32::from(point.signs & 127) << (7 * p);
            }
            b[66 + 4 * g..70 + 4 * g].copy_from_slice(&signs.to_le_bytes());
        }
        b
    }
}

impl EncodeBlock<256, 110> for S {
    fn encode(x: &[f32; 256], w: &[f32; 256]) -> [u8; 110] {
        static GRID: LazyLock<Signed<4, 7>> =
            LazyLock::new(|| Signed { lattice: Lattice::new(&grids::IQ3_S, &IQ3_S_LEVELS, 1), even: false });
        const MULTIPLES: Multiples = Multiples { low: 0, high: 15, first: 1.0, step: 2.0 };
        let (unit, points) = search(x, w, &GRID, MULTIPLES, 15.0, 2.0);
        let mut b = [0; 110];
        put_f16(&mut b, 0, unit.d);
        for (o, point) in points.iter().enumerate() {
            for (i, code) in point.codes.iter().enumerate() {
                let p = 2 * o + i;
                b[2 + p] = *code as u8;
                b[66 + p / 8] |= ((code >> 8) as u8) << (p % 8);
            }
            b[74 + o] = point.signs;
        }
        for (g, code) in unit.codes.iter().enumerate() {
            b[106 + g / 2] |= (*code as u8) << (4 * (g % 2));
        }
        b
    }
}
