//! Which planes a weight type has on the device: the counterpart of `kernels/weights/*.h`.

use onebit_quants::{self as q, Codes, WeightType};
use std::ops::Range;

/// Weights that a lane takes at a time.
pub(crate) const UNIT: usize = 32;

/// How the 32 codes of a unit become bytes of the planes `lo` and `hi`.
#[derive(Clone, Copy)]
pub(crate) enum Store {
    /// Numbers of so many bits: `(code + bias) / mul`.
    Bits {
        /// Bits of a number.
        bits: u32,
        /// What is added to a code.
        bias: i32,
        /// What that is divided by.
        mul: i32,
    },
    /// Places among 16 levels.
    Levels([i8; 16]),
    /// Bytes as they are.
    Bytes,
    /// Bytes of the block itself, by the unit's place in it: of `lo` and of `hi`, at most 8 each.
    Stored(fn(block: &[u8], unit: usize, lo: &mut [u8], hi: &mut [u8])),
}

/// What the plane `head` has for a block.
#[derive(Clone, Copy)]
pub(crate) enum Head {
    /// These bytes of the block, one after the other.
    Stored(&'static [Range<usize>]),
    /// Scales, then offsets if there are any, of its groups in f32; blocks are units.
    Groups {
        /// Groups of 16, else the unit is one.
        halves: bool,
        /// Whether there are offsets.
        offsets: bool,
    },
}

/// The planes of a weight type.
#[derive(Clone, Copy)]
pub struct Form {
    /// The code object that reads them: `linear_q4_k`.
    pub object: &'static str,
    /// Weights that share a head.
    pub block: usize,
    /// Bytes of a unit of 32 weights in the first and the second plane.
    pub planes: [usize; 2],
    /// Bytes of a block in the third plane.
    pub head_bytes: usize,
    pub(crate) store: Store,
    pub(crate) head: Head,
}

const fn length(ranges: &[Range<usize>]) -> usize {
    let (mut sum, mut i) = (0, 0);
    while i < ranges.len() {
        sum += ranges[i].end - ranges[i].start;
        i += 1;
    }
    sum
}

const fn bits(object: &'static str, bits: u32, bias: i32, mul: i32, block: usize, head: &'static [Range<usize>]) -> Form {
    let low = if bits >= 4 {
        4
    } else if bits >= 2 {
        2
    } else {
        1
    };
    let planes = [4 * low as usize, 4 * (bits - low) as usize];
    Form { object, block, planes, head_bytes: length(head), store: Store::Bits { bits, bias, mul }, head: Head::Stored(head) }
}

const fn levels(object: &'static str, levels: [i8; 16], block: usize, head: &'static [Range<usize>]) -> Form {
    Form { object, block, planes: [16, 0], head_bytes: length(head), store: Store::Levels(levels), head: Head::Stored(head) }
}

const fn bytes(object: &'static str, block: usize, head: &'static [Range<usize>]) -> Form {
    Form { object, block, planes: [32, 0], head_bytes: length(head), store: Store::Bytes, head: Head::Stored(head) }
}

const fn general(object: &'static str, halves: bool, offsets: bool) -> Form {
    let head_bytes = 4 << (halves as usize + offsets as usize);
    Form { object, block: UNIT, planes: [32, 0], head_bytes, store: Store::Bytes, head: Head::Groups { halves, offsets } }
}

type Put = fn(&[u8], usize, &mut [u8], &mut [u8]);

const fn points(object: &'static str, planes: [usize; 2], put: Put, head: &'static [Range<usize>]) -> Form {
    Form { object, block: 256, planes, head_bytes: length(head), store: Store::Stored(put), head: Head::Stored(head) }
}

const UNEVEN: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
/// Twice the numbers of E2M1; the second zero is the negative one.
const E2M1: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

fn copy(block: &[u8], from: usize, to: &mut [u8]) {
    to.copy_from_slice(&block[from..from + to.len()]);
}

/// Types with a layout of their own.
#[allow(clippy::single_range_in_vec_init)] // one field of a block is a list as well
static OWN: &[(WeightType, Form)] = &[
    (q::Q4_0, bits("linear_q4_0", 4, 8, 1, 32, &[0..2])),
    (q::Q4_1, bits("linear_q4_1", 4, 0, 1, 32, &[0..4])),
    (q::Q5_0, bits("linear_q5_0", 5, 16, 1, 32, &[0..2])),
    (q::Q5_1, bits("linear_q5_1", 5, 0, 1, 32, &[0..4])),
    (q::Q6_0, bits("linear_q6_0", 6, 32, 1, 32, &[0..2])),
    (q::Q8_0, bytes("linear_q8_0", 32, &[0..2])),
    (q::Q2_K, bits("linear_q2_k", 2, 0, 1, 256, &[0..16, 80..84])),
    (q::Q3_K, bits("linear_q3_k", 3, 4, 1, 256, &[96..110])),
    (q::Q4_K, bits("linear_q4_k", 4, 0, 1, 256, &[0..16])),
    (q::Q5_K, bits("linear_q5_k", 5, 0, 1, 256, &[0..16])),
    (q::Q6_K, bits("linear_q6_k", 6, 32, 1, 256, &[192..210])),
    (q::IQ4_NL, levels("linear_iq4_nl", UNEVEN, 32, &[0..2])),
    (q::IQ4_XS, levels("linear_iq4_xs", UNEVEN, 256, &[0..8])),
    (q::MXFP4, levels("linear_mxfp4", E2M1, 32, &[0..1])),
    (q::NVFP4, levels("linear_nvfp4", E2M1, 64, &[0..4])),
    (q::TQ1_0, bits("linear_tq1_0", 2, 1, 1, 256, &[52..54])),
    (q::TQ2_0, bits("linear_tq2_0", 2, 1, 1, 256, &[64..66])),
    (q::PTQ1_0, bits("linear_ptq1_0", 2, 1, 1, 128, &[26..28])),
    (q::Q1_0, bits("linear_q1_0", 1, 1, 2, 128, &[0..2])),
    (q::Q2_0, bits("linear_q2_0", 2, 1, 1, 64, &[0..2])),
    (q::PQ2_0, bits("linear_pq2_0", 2, 1, 1, 128, &[0..2])),
    (q::IQ2_XXS, points("linear_iq2_xxs", [8, 0], |b, u, lo, _| copy(b, 2 + 8 * u, lo), &[0..2])),
    (q::IQ2_XS, points("linear_iq2_xs", [8, 0], |b, u, lo, _| copy(b, 2 + 8 * u, lo), &[66..74, 0..2])),
    (q::IQ2_S, points("linear_iq2_s", [8, 0], iq2_s, &[66..82, 0..2])),
    (q::IQ3_XXS, points("linear_iq3_xxs", [8, 4], iq3_xxs, &[0..2])),
    (q::IQ3_S, points("linear_iq3_s", [8, 4], iq3_s, &[66..74, 106..110, 0..2])),
    (q::IQ1_S, points("linear_iq1_s", [4, 0], |b, u, lo, _| copy(b, 2 + 4 * u, lo), &[34..50, 0..2])),
    (q::IQ1_M, points("linear_iq1_m", [4, 0], |b, u, lo, _| copy(b, 4 * u, lo), &[32..56])),
];

fn iq2_s(b: &[u8], u: usize, lo: &mut [u8], _: &mut [u8]) {
    copy(b, 2 + 4 * u, &mut lo[..4]);
    copy(b, 34 + 4 * u, &mut lo[4..]);
}

fn iq3_xxs(b: &[u8], u: usize, lo: &mut [u8], hi: &mut [u8]) {
    copy(b, 2 + 8 * u, lo);
    copy(b, 66 + 4 * u, hi);
}

fn iq3_s(b: &[u8], u: usize, lo: &mut [u8], hi: &mut [u8]) {
    copy(b, 2 + 8 * u, lo);
    copy(b, 74 + 4 * u, hi);
}

/// For all other types that split into codes: groups of 16, offsets.
static GENERAL: [[Form; 2]; 2] = [
    [general("linear_codes_32", false, false), general("linear_codes_offset_32", false, true)],
    [general("linear_codes_16", true, false), general("linear_codes_offset_16", true, true)],
];

impl Form {
    /// The planes of a type; `None` for types that do not split into codes: plain numbers.
    ///
    /// A type without a layout of its own gets bytes with scales in f32: exact, though larger than the file has it.
    #[must_use]
    pub fn of(ty: WeightType) -> Option<Self> {
        if let Some((_, form)) = OWN.iter().find(|(t, _)| *t == ty) {
            return Some(*form);
        }
        let split = ty.info().codes?;
        // Any block tells the size of groups; whether there are offsets takes a block whose bytes are not all alike.
        let mut codes = Codes::default();
        let any: Vec<u8> = (0..ty.block_bytes()).map(|i| (i * 37 + 11) as u8).collect();
        let header: Vec<u8> = (0..ty.header_bytes()).map(|_| 0x3c).collect();
        split(&header, &any, &mut codes);
        let groups = ty.block_values() / codes.group;
        let offsets = codes.offsets[..groups].iter().any(|o| *o != 0.0);
        (codes.group == UNIT / 2 || codes.group.is_multiple_of(UNIT))
            .then(|| GENERAL[usize::from(codes.group < UNIT)][usize::from(offsets)])
    }

    /// Bytes that a weight takes, on average.
    #[must_use]
    pub fn bits_per_weight(&self) -> f64 {
        let unit = self.planes.iter().sum::<usize>() as f64 / UNIT as f64;
        8.0 * (unit + self.head_bytes as f64 / self.block as f64)
    }
}
