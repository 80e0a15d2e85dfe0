//! Which layout and kernels a weight type gets.

use super::{
    codes::{BLOCK, Bits2, Bits3, Bits4, Bits5, Bits6, Bits8, Codes, Lookup4},
    dense::{Bf16, Decoded, Dense, F16, F32},
    integer::Integer,
    kernel::{Geometry, Kernels},
    scales::{Half, HalfOffset, Scales, Source, Super16, Super16Offset, SuperOffset, Wide},
    simd::ROWS,
};
use crate::isa::Isa;
use onebit_plan::ActivationKind;
use onebit_quants::WeightType;

/// Everything about a layout that the rest needs to know.
#[derive(Clone, Copy)]
pub(super) struct Form {
    /// Codes that it can hold; `None` for floats.
    pub(super) codes: Option<Holds>,
    /// Columns share scales in groups of 16 (2) or 32 and more (1).
    groups: usize,
    offsets: bool,
    /// Bytes of a block's codes or floats.
    pub(super) block: usize,
    plane: fn(usize, u32) -> usize,
    /// Writes one row's codes of a block.
    pub(super) put_codes: fn(&mut [u8], usize, &[u8; BLOCK]),
    /// Writes the scales of a block of the weight type.
    pub(super) put_scales: fn(&mut [u8], u32, usize, usize, &Source<'_>),
    /// For each kind of columns: f32, 16 bits, 8 bits.
    kernels: [fn(Isa) -> Kernels; 3],
}

/// Codes that a form can hold.
#[derive(Clone, Copy)]
pub(super) enum Holds {
    /// From `-zero` to `last`, stored with `zero` added.
    Range {
        /// Minus the least.
        zero: i32,
        /// The largest.
        last: i32,
    },
    /// So many different ones, stored as their places among them.
    Levels(usize),
}

impl Holds {
    /// Whether all of these can be held, which are in ascending order.
    fn all(self, codes: &[i8]) -> bool {
        match self {
            Self::Range { zero, last } => codes.iter().all(|q| (-zero..=last).contains(&i32::from(*q))),
            Self::Levels(count) => codes.len() <= count,
        }
    }
}

const fn form<C: Codes, K: Scales>() -> Form {
    Form {
        codes: Some(match C::LEVELS {
            Some(levels) => Holds::Levels(levels),
            None => Holds::Range { zero: C::ZERO, last: (1 << C::BITS) - 1 - C::ZERO },
        }),
        groups: K::GROUPS,
        offsets: K::OFFSETS,
        block: C::BYTES,
        plane: K::bytes,
        put_codes: C::put,
        put_scales: K::put,
        kernels: [
            Kernels::four::<Dense<Decoded<C, K>>, Decoded<C, K>>,
            Kernels::four::<Integer<C, K, 2>, Decoded<C, K>>,
            Kernels::new::<Integer<C, K, 1>, Decoded<C, K>>,
        ],
    }
}

const fn float(bytes: usize, kernels: fn(Isa) -> Kernels) -> Form {
    Form {
        codes: None,
        groups: 1,
        offsets: false,
        block: bytes * BLOCK * ROWS,
        plane: |_, _| 0,
        put_codes: |_, _, _| {},
        put_scales: |_, _, _, _, _| {},
        kernels: [kernels; 3],
    }
}

/// f32.
pub(super) const FORM_F32: Form = float(4, Kernels::new::<Dense<F32>, F32>);
/// binary16.
pub(super) const FORM_F16: Form = float(2, Kernels::new::<Dense<F16>, F16>);
/// bfloat16.
pub(super) const FORM_BF16: Form = float(2, Kernels::new::<Dense<Bf16>, Bf16>);

/// Types whose scales have a layout of their own.
static OWN: &[(WeightType, Form)] = &[
    (onebit_quants::Q4_0, form::<Bits4<true>, Half>()),
    (onebit_quants::Q4_1, form::<Bits4<false>, HalfOffset>()),
    (onebit_quants::Q5_0, form::<Bits5<true>, Half>()),
    (onebit_quants::Q5_1, form::<Bits5<false>, HalfOffset>()),
    (onebit_quants::Q8_0, form::<Bits8, Half>()),
    (onebit_quants::Q2_K, form::<Bits2<false>, Super16Offset>()),
    (onebit_quants::Q3_K, form::<Bits3, Super16<108>>()),
    (onebit_quants::Q4_K, form::<Bits4<false>, SuperOffset>()),
    (onebit_quants::Q5_K, form::<Bits5<false>, SuperOffset>()),
    (onebit_quants::Q6_K, form::<Bits6, Super16<208>>()),
];

/// For all other types that split into codes, smallest first: the first that can hold a matrix is taken. The last two hold anything.
static GENERAL: &[Form] = &[
    form::<Bits2<true>, Wide<1, false>>(),
    form::<Lookup4, Wide<1, false>>(),
    form::<Lookup4, Wide<2, false>>(),
    form::<Lookup4, Wide<1, true>>(),
    form::<Lookup4, Wide<2, true>>(),
    form::<Bits8, Wide<1, false>>(),
    form::<Bits8, Wide<2, false>>(),
    form::<Bits8, Wide<1, true>>(),
    form::<Bits8, Wide<2, true>>(),
];

impl Form {
    /// The form made for a type.
    pub(super) fn of(ty: WeightType) -> Option<Self> {
        let floats = [(onebit_quants::F32, FORM_F32), (onebit_quants::F16, FORM_F16), (onebit_quants::BF16, FORM_BF16)];
        floats.iter().chain(OWN).find(|(t, _)| *t == ty).map(|(_, form)| *form)
    }
    /// The smallest general form for these codes, in ascending order, which share scales in groups of `group`.
    pub(super) fn general(codes: &[i8], group: usize, offsets: bool) -> Option<Self> {
        let groups = match group {
            16 => 2,
            g if g.is_multiple_of(BLOCK) && (g / BLOCK).is_power_of_two() => 1,
            _ => return None,
        };
        let holds = |f: &&Form| f.codes.is_some_and(|h| h.all(codes)) && f.groups == groups && (f.offsets || !offsets);
        GENERAL.iter().find(holds).copied()
    }
    /// How a matrix of so many columns lies in memory.
    pub(super) fn geometry(&self, columns: usize, span: u32) -> Geometry {
        let blocks = columns.div_ceil(BLOCK);
        let plane = blocks * self.block;
        let panel = (plane + (self.plane)(blocks, span)).next_multiple_of(64);
        Geometry { panel, plane, blocks, span, step: panel / blocks.max(1), levels: [0; 16] }
    }
    /// How columns are given to its products, where `wish` is what codes are multiplied with.
    pub(super) fn activation(&self, wish: ActivationKind) -> ActivationKind {
        if self.codes.is_none() { ActivationKind::F32 } else { wish }
    }
    /// What runs its products with columns of a kind.
    pub(super) fn kernels(&self, isa: Isa, kind: ActivationKind) -> Kernels {
        let index = match kind {
            ActivationKind::F32 => 0,
            ActivationKind::Int16 => 1,
            ActivationKind::Int8 => 2,
        };
        (self.kernels[index])(isa)
    }
}
