//! IQ2_XXS, IQ2_XS and IQ2_S: 256 values; each 8 are a point of a grid with signs.
//!
//! IQ2_XXS, per 32 values a scale and four points of 256, with 7 signs each (the eighth makes their number even):
//!
//! | bytes | field |
//! |---|---|
//! | 0..2 | `d`: f16 |
//! | 2..66 | 8 times: 4 bytes with the points' codes; a u32 with 4 times 7 signs and, in the top 4 bits, the scale |
//!
//! IQ2_XS, per 16 values a scale and two points of 512:
//!
//! | bytes | field |
//! |---|---|
//! | 0..2 | `d`: f16 |
//! | 2..66 | 32 u16: 9 bits of code, 7 signs |
//! | 66..74 | 16 scales of 4 bits, two to a byte, the even one in the low nibble |
//!
//! IQ2_S, per 16 values a scale and two points of 1024, with all signs:
//!
//! | bytes | field |
//! |---|---|
//! | 0..2 | `d`: f16 |
//! | 2..34 | low 8 bits of the codes |
//! | 34..66 | signs: bit i of byte p is set where value i of point p is negative |
//! | 66..74 | high 2 bits of the codes, four to a byte, lowest first |
//! | 74..82 | 16 scales as in IQ2_XS |
//!
//! `w = d * (scale + 1/2) / 4 * (point with signs)`. Layouts: `block_iq2_xxs`, `block_iq2_xs`, `block_iq2_s` in ggml's `ggml-common.h`.

use crate::WeightType;
use crate::block::{self, Block, EncodeBlock, f16_at, put_f16, u16_at, u32_at};
use crate::codes::Codes;
use crate::grids::{self, IQ2_LEVELS, even_signs};
use crate::lattice::{self, Lattice, Octet, Signed};
use crate::multiples::{self, Multiples, Unit};
use std::sync::LazyLock;

/// Grid points of 8 values in blocks of 256, 2.0625 bits.
pub const IQ2_XXS: WeightType = WeightType::new(&XXS_INFO);
/// Grid points of 8 values in blocks of 256, 2.3125 bits.
pub const IQ2_XS: WeightType = WeightType::new(&XS_INFO);
/// Grid points of 8 values in blocks of 256, 2.5625 bits.
pub const IQ2_S: WeightType = WeightType::new(&S_INFO);

static XXS_INFO: crate::TypeInfo = block::info::<Xxs, 256, 66>("IQ2_XXS", Some(16), Some(block::encode::<Xxs, 256, 66>));
static XS_INFO: crate::TypeInfo = block::info::<Xs, 256, 74>("IQ2_XS", Some(17), Some(block::encode::<Xs, 256, 74>));
static S_INFO: crate::TypeInfo = block::info::<S, 256, 82>("IQ2_S", Some(22), Some(block::encode::<S, 256, 82>));

fn scale(d: f32, code: u8) -> f32 {
    d * (0.5 + f32::from(code)) * 0.25
}

struct Xxs;

impl Block<256, 66> for Xxs {
    const GROUP: usize = 32;

    fn split(b: &[u8; 66], out: &mut Codes) {
        let d = f16_at(b, 0);
        for (g, codes) in out.codes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let group = &b[2 + 8 * g..];
            let signs = u32_at(group, 4);
            out.scales[g] = scale(d, (signs >> 28) as u8);
            for (p, codes) in codes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                *codes = signed(&grids::IQ2_XXS[usize::from(group[p])], even_signs((signs >> (7 * p)) as u8));
            }
        }
    }
}

struct Xs;

impl Block<256, 74> for Xs {
    const GROUP: usize = 16;

    fn split(b: &[u8; 74], out: &mut Codes) {
        nibble_scales(f16_at(b, 0), &b[66..], out);
        for (p, codes) in out.codes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let code = u16_at(b, 2 + 2 * p);
            *codes = signed(&grids::IQ2_XS[usize::from(code & 511)], even_signs((code >> 9) as u8));
        }
    }
}

struct S;

impl Block<256, 82> for S {
    const GROUP: usize = 16;

    fn split(b: &[u8; 82], out: &mut Codes) {
        nibble_scales(f16_at(b, 0), &b[74..], out);
        for (p, codes) in out.codes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let high = usize::from(b[66 + p / 4] >> (2 * (p % 4)) & 3);
            *codes = signed(&grids::IQ2_S[usize::from(b[2 + p]) | high << 8], b[34 + p]);
        }
    }
}

fn nibble_scales(d: f32, bytes: &[u8], out: &mut Codes) {
    for (b, scales) in bytes.iter().zip(out.scales.as_chunks_mut::<2>().0) {
        *scales = [scale(d, b & 15), scale(d, b >> 4)];
    }
}

/// A point with the coordinates negated whose bit is set in `signs`.
pub(crate) fn signed<const D: usize>(point: &[i8; D], signs: u8) -> [i8; D] {
    let mut out = *point;
    for (i, q) in out.iter_mut().enumerate() {
        // 0 leaves a number alone; -1 flips its bits and adds one: two's complement negation without a branch.
        let mask = -((signs >> i & 1) as i8);
        *q = (*q ^ mask) - mask;
    }
    out
}

/// What [`scale`] makes of a code.
const MULTIPLES: Multiples = Multiples { low: 0, high: 15, first: 0.125, step: 0.25 };

fn best_unit<const GROUPS: usize, const SIZE: usize>(x: &[f32; 256], w: &[f32; 256], grid: &Signed<8, 2>) -> Unit<GROUPS> {
    let fit = |x: &[f32; SIZE], w: &[f32; SIZE], s| grid.fit(x, w, s);
    let ideal = |x: &[f32; SIZE], w: &[f32; SIZE]| lattice::best_scale(x, 43.0, 17.5, |s| fit(x, w, s));
    multiples::best_unit(x, w, MULTIPLES, ideal, fit)
}

/// The 32 points of a block.
fn octets<const GROUPS: usize>(x: &[f32; 256], w: &[f32; 256], grid: &Signed<8, 2>, unit: &Unit<GROUPS>) -> [Octet; 32] {
    let (x, w) = (x.as_chunks::<8>().0, w.as_chunks::<8>().0);
    std::array::from_fn(|p| grid.octet(&x[p], &w[p], unit.scale(p * GROUPS / 32)))
}

fn put_nibble_scales(unit: &Unit<16>, bytes: &mut [u8]) {
    for (b, codes) in bytes.iter_mut().zip(unit.codes.as_chunks::<2>().0) {
        *b = codes[0] as u8 | (codes[1] as u8) << 4;
    }
}

impl EncodeBlock<256, 66> for Xxs {
    fn encode(x: &[f32; 256], w: &[f32; 256]) -> [u8; 66] {
        static GRID: LazyLock<Signed<8, 2>> =
            LazyLock::new(|| Signed { lattice: Lattice::new(&grids::IQ2_XXS, &IQ2_LEVELS, 1), even: true });
        let unit = best_unit::<8, 32>(x, w, &GRID);
        let points = octets(x, w, &GRID, &unit);
        let mut b = [0; 66];
        put_f16(&mut b, 0, unit.d);
        for (g, points) in points.as_chunks::<4>().0.iter().enumerate() {
            let mut signs = (unit.codes[g] as u32) << 28;
            for (p, point) in points.iter().enumerate() {
                b[2 + 8 * g + p] = point.codes[0] as u8;
                signs |= u32::from(point.signs & 127) << (7 * p);
            }
            b[6 + 8 * g..10 + 8 * g].copy_from_slice(&signs.to_le_bytes());
        }
        b
    }
}

impl EncodeBlock<256, 74> for Xs {
    fn encode(x: &[f32; 256], w: &[f32; 256]) -> [u8; 74] {
        static GRID: LazyLock<Signed<8, 2>> =
            LazyLock::new(|| Signed { lattice: Lattice::new(&grids::IQ2_XS, &IQ2_LEVELS, 1), even: true });
        let unit = best_unit::<16, 16>(x, w, &GRID);
        let mut b = [0; 74];
        put_f16(&mut b, 0, unit.d);
        for (p, point) in octets(x, w, &GRID, &unit).iter().enumerate() {
            let code = point.codes[0] | u16::from(point.signs & 127) << 9;
            b[2 + 2 * p..4 + 2 * p].copy_from_slice(&code.to_le_bytes());
        }
        put_nibble_scales(&unit, &mut b[66..]);
        b
    }
}

impl EncodeBlock<256, 82> for S {
    fn encode(x: &[f32; 256], w: &[f32; 256]) -> [u8; 82] {
        static GRID: LazyLock<Signed<8, 2>> =
            LazyLock::new(|| Signed { lattice: Lattice::new(&grids::IQ2_S, &IQ2_LEVELS, 1), even: false });
        let unit = best_unit::<16, 16>(x, w, &GRID);
        let mut b = [0; 82];
        put_f16(&mut b, 0, unit.d);
        for (p, point) in octets(x, w, &GRID, &unit).iter().enumerate() {
            b[2 + p] = point.codes[0] as u8;
            b[34 + p] = point.signs;
            b[66 + p / 4] |= ((point.codes[0] >> 8) as u8) << (2 * (p % 4));
        }
        put_nibble_scales(&unit, &mut b[74..]);
        b
    }
}
