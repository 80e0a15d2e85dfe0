//! VOP2: two sources (ISA guide, 15.3.1). The same operations are VOP3's 0x100..0x13f.

use super::{Op, rows::*, value::*};
use crate::float::{self, max32, min32};

/// 24 bits, sign-extended.
#[inline(always)]
pub(super) fn i24(a: u32) -> i64 {
    i64::from((a << 8) as i32 >> 8)
}

/// 24 bits.
#[inline(always)]
pub(super) fn u24(a: u32) -> u64 {
    u64::from(a & 0xff_ffff)
}

/// The products' sum of two f16 pairs and an f32, rounded once.
#[inline(always)]
pub(super) fn dot2(a: u32, b: u32, c: f32) -> f32 {
    let product = |shift: u32| f64::from(float::from_f16(a >> shift & 0xffff)) * f64::from(float::from_f16(b >> shift & 0xffff));
    (f64::from(c) + product(0) + product(16)) as f32
}

/// Legacy multiplication: zero times anything is zero.
#[inline(always)]
fn dx9(a: f32, b: f32) -> f32 {
    if a == 0.0 || b == 0.0 { 0.0 } else { a * b }
}

#[inline(always)]
pub(super) fn dx9_fma(a: f32, b: f32, c: f32) -> f32 {
    if a == 0.0 || b == 0.0 { c } else { a.mul_add(b, c) }
}

/// A product and sum of f16, before its one rounding.
#[inline(always)]
pub(super) fn fma16(a: f64, b: f64, c: f64) -> f64 {
    a * b + c
}

/// Two f32 to f16, toward zero.
#[inline(always)]
pub(crate) fn pack_rtz(a: f32, b: f32) -> u32 {
    rtz16(b) << 16 | rtz16(a)
}

#[inline(always)]
fn rtz16(x: f32) -> u32 {
    let near = float::to_f16(x);
    let beyond = float::from_f16(near).abs() > x.abs();
    if beyond { near - 1 } else { near }
}

/// With a borrow in and out.
#[inline(always)]
fn subtract(a: u32, b: u32, borrow: bool) -> (u32, bool) {
    let (difference, under) = a.overflowing_sub(b);
    let (difference, again) = difference.overflowing_sub(u32::from(borrow));
    (difference, under | again)
}

cloned! {
    pub(super) fn table() -> Vec<Op> {
        let mut ops = rows! { x, l;
            0x01 v_cndmask_b32[VCC_SRC | FLOAT_MODS]: u32(a: u32, b: u32, c: bool) => if c { b } else { a };
            0x02 v_dot2acc_f32_f16[E32_ONLY | ACC]: f32(a: PkF16, b: PkF16, d: f32) => dot2(a, b, d);
            0x03 v_add_f32: f32(a: f32, b: f32) => a + b, modal x.round32.add32(a, b);
            0x04 v_sub_f32: f32(a: f32, b: f32) => a - b, modal x.round32.add32(a, -b);
            0x05 v_subrev_f32: f32(a: f32, b: f32) => b - a, modal x.round32.add32(b, -a);
            0x06 v_fmac_dx9_zero_f32[ACC]: f32(a: f32, b: f32, d: f32) => dx9_fma(a, b, d);
            0x07 v_mul_dx9_zero_f32: f32(a: f32, b: f32) => dx9(a, b);
            0x08 v_mul_f32: f32(a: f32, b: f32) => a * b, modal x.round32.mul32(a, b);
            0x09 v_mul_i32_i24: i32(a: u32, b: u32) => (i24(a) * i24(b)) as i32;
            0x0a v_mul_hi_i32_i24: i32(a: u32, b: u32) => ((i24(a) * i24(b)) >> 32) as i32;
            0x0b v_mul_u32_u24: u32(a: u32, b: u32) => (u24(a) * u24(b)) as u32;
            0x0c v_mul_hi_u32_u24: u32(a: u32, b: u32) => ((u24(a) * u24(b)) >> 32) as u32;
            0x0f v_min_f32: f32(a: f32, b: f32) => min32(a, b, true), modal min32(a, b, x.ieee);
            0x10 v_max_f32: f32(a: f32, b: f32) => max32(a, b, true), modal max32(a, b, x.ieee);
            0x11 v_min_i32: i32(a: i32, b: i32) => a.min(b);
            0x12 v_max_i32: i32(a: i32, b: i32) => a.max(b);
            0x13 v_min_u32: u32(a: u32, b: u32) => a.min(b);
            0x14 v_max_u32: u32(a: u32, b: u32) => a.max(b);
            0x18 v_lshlrev_b32: u32(a: u32, b: u32) => b << (a & 31);
            0x19 v_lshrrev_b32: u32(a: u32, b: u32) => b >> (a & 31);
            0x1a v_ashrrev_i32: i32(a: u32, b: i32) => b >> (a & 31);
            0x1b v_and_b32: u32(a: u32, b: u32) => a & b;
            0x1c v_or_b32: u32(a: u32, b: u32) => a | b;
            0x1d v_xor_b32: u32(a: u32, b: u32) => a ^ b;
            0x1e v_xnor_b32: u32(a: u32, b: u32) => !(a ^ b);
            0x25 v_add_nc_u32: u32(a: u32, b: u32) => a.wrapping_add(b), clamped a.saturating_add(b);
            0x26 v_sub_nc_u32: u32(a: u32, b: u32) => a.wrapping_sub(b), clamped a.saturating_sub(b);
            0x27 v_subrev_nc_u32: u32(a: u32, b: u32) => b.wrapping_sub(a), clamped b.saturating_sub(a);
            0x2b v_fmac_f32[ACC]: f32(a: f32, b: f32, d: f32) => a.mul_add(b, d), modal x.round32.fma32(a, b, d);
            0x2c v_fmamk_f32[E32_ONLY | K_SECOND]: f32(a: f32, b: f32, c: f32) => a.mul_add(b, c), modal x.round32.fma32(a, b, c);
            0x2d v_fmaak_f32[E32_ONLY | K_THIRD]: f32(a: f32, b: f32, c: f32) => a.mul_add(b, c), modal x.round32.fma32(a, b, c);
            0x2f v_cvt_pk_rtz_f16_f32: PkF16(a: f32, b: f32) => pack_rtz(a, b);
            0x32 v_add_f16: F16(a: F16, b: F16) => a + b, modal x.sum16(a.into(), b.into());
            0x33 v_sub_f16: F16(a: F16, b: F16) => a - b, modal x.sum16(a.into(), f64::from(-b));
            0x34 v_subrev_f16: F16(a: F16, b: F16) => b - a, modal x.sum16(b.into(), f64::from(-a));
            0x35 v_mul_f16: F16(a: F16, b: F16) => a * b, modal x.f16(f64::from(a) * f64::from(b));
            0x36 v_fmac_f16[ACC]: F16Wide(a: F16Wide, b: F16Wide, d: F16Wide) => fma16(a, b, d), modal x.sum16(a * b, d).into();
            0x37 v_fmamk_f16[E32_ONLY | K_SECOND]: F16Wide(a: F16Wide, b: F16Wide, c: F16Wide) => fma16(a, b, c), modal x.sum16(a * b, c).into();
            0x38 v_fmaak_f16[E32_ONLY | K_THIRD]: F16Wide(a: F16Wide, b: F16Wide, c: F16Wide) => fma16(a, b, c), modal x.sum16(a * b, c).into();
            0x39 v_max_f16: F16(a: F16, b: F16) => max32(a, b, true), modal max32(a, b, x.ieee);
            0x3a v_min_f16: F16(a: F16, b: F16) => min32(a, b, true), modal min32(a, b, x.ieee);
            0x3b v_ldexp_f16: F16Wide(a: F16Wide, b: i16) => float::ldexp64(a, i32::from(b)), modal x.f16(float::ldexp64(a, i32::from(b.clamp(-99, 99)))).into();
            0x3c v_pk_fmac_f16[E32_ONLY | ACC | PACKED]: F16Wide(a: F16Wide, b: F16Wide, d: F16Wide) => fma16(a, b, d), modal x.sum16(a * b, d).into();
        };
        ops.extend(carry_rows! { x, l;
            0x20 v_add_co_ci_u32[VCC_SRC]: u32(a: u32, b: u32, c: bool) => {
                let (sum, over) = a.overflowing_add(b);
                let (sum, again) = sum.overflowing_add(u32::from(c));
                (sum, over | again)
            };
            0x21 v_sub_co_ci_u32[VCC_SRC]: u32(a: u32, b: u32, c: bool) => subtract(a, b, c);
            0x22 v_subrev_co_ci_u32[VCC_SRC]: u32(a: u32, b: u32, c: bool) => subtract(b, a, c);
        });
        ops
    }
}
