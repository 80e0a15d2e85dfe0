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
use crate::block::{self, Block, EncodeBlock, f16_at, put_f16, u16_at};
use crate::codes::Codes;
use crate::grids::{self, IQ1_LEVELS};
use crate::lattice::{self, Lattice, Octet, shifted_octet};
use crate::multiples::{self, Multiples};
use crate::search::{Fit, FitSums};
use half::f16;
use std::sync::LazyLock;

/// Ternary grid points of 8 values in blocks of 256, 1.5625 bits.
pub const IQ1_S: WeightType = WeightType::new(&S_INFO);
/// Ternary grid points of 8 values in blocks of 256, 1.75 bits.
pub const IQ1_M: WeightType = WeightType::new(&M_INFO);

static S_INFO: crate::TypeInfo = block::info::<S, 256, 50>("IQ1_S", Some(19), Some(block::encode::<S, 256, 50>));
static M_INFO: crate::TypeInfo = block::info::<M, 256, 56>("IQ1_M", Some(29), Some(block::encode::<M, 256, 56>));

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
pub(crate) fn scale(d: f32, code: u16) -> f32 {
    d * f32::from(2 * (code & 7) + 1) * 0.125
}

/// A point in eighths, shifted down where `down` is one and up where it is zero.
pub(crate) fn eighths(code: u16, down: u16) -> [i8; 8] {
    grids::IQ1[usize::from(code)].map(|q| 8 * q + 1 - 2 * down as i8)
}

/// The grid in eighths, as codes are.
static GRID: LazyLock<Lattice<8, 2>> = LazyLock::new(|| Lattice::new(&grids::IQ1, &IQ1_LEVELS, 8));

/// What [`scale`] makes of a code.
const MULTIPLES: Multiples = Multiples { low: 0, high: 7, first: 0.125, step: 0.25 };

/// The best points for values that share a shift, at scale `s`: those, whether the shift is down, and how they fit.
fn shared_shift<const POINTS: usize>(x: &[f32], w: &[f32], s: f32) -> ([Octet; POINTS], bool, Fit) {
    let shifted = |shift: f32| {
        let (mut points, mut sums) = ([Octet::default(); POINTS], FitSums::default());
        for ((x, w), point) in x.as_chunks::<8>().0.iter().zip(w.as_chunks::<8>().0).zip(&mut points) {
            *point = shifted_octet(&GRID, x, w, s, shift);
            sums.add(x, w, s, &point.q);
        }
        (points, shift < 0.0, sums.fit())
    };
    let (up, down) = (shifted(1.0), shifted(-1.0));
    if down.2.error < up.2.error { down } else { up }
}

impl EncodeBlock<256, 50> for S {
    fn encode(x: &[f32; 256], w: &[f32; 256]) -> [u8; 50] {
        let fit = |x: &[f32; 32], w: &[f32; 32], s| shared_shift::<4>(x, w, s).2;
        let ideal = |x: &[f32; 32], w: &[f32; 32]| lattice::best_scale(x, 8.0, 8.0, |s| fit(x, w, s));
        let unit = multiples::best_unit::<8, 32>(x, w, MULTIPLES, ideal, fit);
        let mut b = [0; 50];
        put_f16(&mut b, 0, unit.d);
        for (g, (x, w)) in x.as_chunks::<32>().0.iter().zip(w.as_chunks::<32>().0).enumerate() {
            let (points, down, _) = shared_shift::<4>(x, w, unit.scale(g));
            let mut h = (unit.codes[g] as u16) << 12 | u16::from(down) << 15;
            for (p, point) in points.iter().enumerate() {
                b[2 + 4 * g + p] = point.codes[0] as u8;
                h |= (point.codes[0] >> 8) << (3 * p);
            }
            b[34 + 2 * g..36 + 2 * g].copy_from_slice(&h.to_le_bytes());
        }
        b
    }
}

impl EncodeBlock<256, 56> for M {
    fn encode(x: &[f32; 256], w: &[f32; 256]) -> [u8; 56] {
        let fit = |x: &[f32; 16], w: &[f32; 16], s| {
            let halves = x.as_chunks::<8>().0.iter().zip(w.as_chunks::<8>().0);
            halves.map(|(x, w)| shared_shift::<1>(x, w, s).2).fold(Fit::default(), |a, b| Fit {
                error: a.error + b.error,
                rq: a.rq + b.rq,
                qq: a.qq + b.qq,
            })
        };
        let ideal = |x: &[f32; 16], w: &[f32; 16]| lattice::best_scale(x, 8.0, 8.0, |s| fit(x, w, s));
        let unit = multiples::best_unit::<16, 16>(x, w, MULTIPLES, ideal, fit);
        let mut b = [0; 56];
        for (p, (x, w)) in x.as_chunks::<8>().0.iter().zip(w.as_chunks::<8>().0).enumerate() {
            let ([point], down, _) = shared_shift::<1>(x, w, unit.scale(p / 2));
            b[p] = point.codes[0] as u8;
            b[32 + p / 2] |= ((point.codes[0] >> 8) as u8 | u8::from(down) << 3) << (4 * (p % 2));
        }
        let d = f16::from_f32(unit.d).to_bits();
        for (i, codes) in unit.codes.as_chunks::<4>().0.iter().enumerate() {
            let scales = codes.iter().rev().fold(0, |packed, code| packed << 3 | *code as u16);
            let packed = scales | (d >> (4 * i) & 15) << 12;
            b[48 + 2 * i..50 + 2 * i].copy_from_slice(&packed.to_le_bytes());
        }
        b
    }
}
