//! The types of operands, and how a lane's bits become a Rust value of each.

use crate::float;

/// Type of an operand. It says how many registers it takes, what an inline constant means, and what modifiers do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ty {
    /// 16 bits without a meaning.
    B16,
    /// 16-bit integers.
    I16,
    /// 16-bit unsigned integers.
    U16,
    /// IEEE half precision.
    F16,
    /// The upper half of an f32.
    Bf16,
    /// 32-bit integers.
    I32,
    /// 32 bits, or unsigned integers.
    U32,
    /// IEEE single precision.
    F32,
    /// 64-bit integers.
    I64,
    /// 64 bits, or unsigned integers.
    U64,
    /// IEEE double precision.
    F64,
    /// Two f16.
    PkF16,
    /// Two bf16.
    PkBf16,
    /// Two 16-bit integers.
    PkI16,
    /// A bit for each lane: an SGPR.
    Mask,
    /// A number of consecutive registers.
    Regs(u8),
}

impl Ty {
    /// Consecutive 32-bit registers that it takes.
    #[must_use]
    pub fn registers(self) -> u32 {
        match self {
            Self::I64 | Self::U64 | Self::F64 => 2,
            Self::Regs(n) => n.into(),
            _ => 1,
        }
    }

    pub(crate) fn is_16(self) -> bool {
        matches!(self, Self::B16 | Self::I16 | Self::U16 | Self::F16 | Self::Bf16)
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::F32 | Self::F64 | Self::PkF16 | Self::Bf16 | Self::PkBf16)
    }
}

/// A Rust type that stands for an operand's type in the tables.
pub(crate) trait Operand {
    type Value;
    const TY: Ty;
    fn get(bits: u64) -> Self::Value;
    fn put(value: Self::Value) -> u64;
}

macro_rules! operand {
    ($t:ty, $value:ty, $ty:expr, |$bits:ident| $get:expr, |$v:ident| $put:expr) => {
        impl Operand for $t {
            type Value = $value;
            const TY: Ty = $ty;
            #[inline(always)]
            fn get($bits: u64) -> $value {
                $get
            }
            #[inline(always)]
            fn put($v: $value) -> u64 {
                $put
            }
        }
    };
}

/// IEEE half precision; computed with as f32, which is wide enough for one operation to be rounded once.
pub(crate) struct F16;
/// As `F16`, but a result is computed in f64: for what rounds once after more than one operation.
pub(crate) struct F16Wide;
/// Brain float; computed with as f32.
pub(crate) struct Bf16;
/// 16 bits without a meaning.
pub(crate) struct B16;
/// Two f16 in one register, as bits.
pub(crate) struct PkF16;
/// Two bf16 in one register, as bits.
pub(crate) struct PkBf16;
/// Two 16-bit integers in one register, as bits.
pub(crate) struct PkI16;

/// An f16 of which the bits matter.
pub(crate) struct F16Bits;
/// An f32 of which the bits matter.
pub(crate) struct F32Bits;

operand!(F16Bits, u16, Ty::F16, |b| b as u16, |v| u64::from(v));
operand!(F32Bits, u32, Ty::F32, |b| b as u32, |v| u64::from(v));
operand!(u32, u32, Ty::U32, |b| b as u32, |v| u64::from(v));
operand!(i32, i32, Ty::I32, |b| b as i32, |v| u64::from(v as u32));
operand!(f32, f32, Ty::F32, |b| f32::from_bits(b as u32), |v| u64::from(v.to_bits()));
operand!(u64, u64, Ty::U64, |b| b, |v| v);
operand!(i64, i64, Ty::I64, |b| b as i64, |v| v as u64);
operand!(f64, f64, Ty::F64, |b| f64::from_bits(b), |v| v.to_bits());
operand!(u16, u16, Ty::U16, |b| b as u16, |v| u64::from(v));
operand!(i16, i16, Ty::I16, |b| b as i16, |v| u64::from(v as u16));
operand!(bool, bool, Ty::Mask, |b| b & 1 != 0, |v| u64::from(v));
operand!(B16, u32, Ty::B16, |b| b as u32 & 0xffff, |v| u64::from(v & 0xffff));
operand!(F16, f32, Ty::F16, |b| float::from_f16(b as u32 & 0xffff), |v| u64::from(float::to_f16(v)));
operand!(F16Wide, f64, Ty::F16, |b| f64::from(float::from_f16(b as u32 & 0xffff)), |v| u64::from(float::to_f16(float::odd_f32(v))));
operand!(Bf16, f32, Ty::Bf16, |b| float::from_bf16(b as u32 & 0xffff), |v| u64::from(float::to_bf16(v)));
operand!(PkF16, u32, Ty::PkF16, |b| b as u32, |v| u64::from(v));
operand!(PkBf16, u32, Ty::PkBf16, |b| b as u32, |v| u64::from(v));
operand!(PkI16, u32, Ty::PkI16, |b| b as u32, |v| u64::from(v));
