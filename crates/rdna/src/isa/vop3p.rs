//! VOP3P: packed operations, dot products and matrix products (ISA guide, 15.3.6 and 7.9).

use super::{Op, Run, flag, rows::*, value::*, vop2};
use crate::{
    exec::matrix,
    float::{self, max32, min32},
};

/// Field `i` of `bits` bits, signed where the operand's NEG bit says so.
#[inline(always)]
fn element(a: u32, i: u32, bits: u32, signed: u32) -> i32 {
    let raw = a >> (i * bits) & ((1 << bits) - 1);
    let sign = signed << (bits - 1);
    (raw ^ sign).wrapping_sub(sign) as i32
}

/// A dot product of four bytes or eight nibbles and a sum; bits 0 and 1 of `signed` are the signedness of `a` and `b`.
#[inline(always)]
fn dot<const BITS: u32>(a: u32, b: u32, c: i32, signed: u32) -> i64 {
    let mut sum = 0;
    for i in 0..32 / BITS {
        sum += element(a, i, BITS, signed & 1) * element(b, i, BITS, signed >> 1 & 1);
    }
    i64::from(sum) + i64::from(c)
}

fn saturate(x: i64) -> i32 {
    x.clamp(i32::MIN.into(), i32::MAX.into()) as i32
}

cloned! {
    pub(super) fn table() -> Vec<Op> {
        rows! { x, l;
            0x00 v_pk_mad_i16[PACKED]: i16(a: i16, b: i16, c: i16) => a.wrapping_mul(b).wrapping_add(c),
                clamped (i64::from(a) * i64::from(b) + i64::from(c)).clamp(-32768, 32767) as i16;
            0x01 v_pk_mul_lo_u16[PACKED]: u16(a: u16, b: u16) => a.wrapping_mul(b);
            0x02 v_pk_add_i16[PACKED]: i16(a: i16, b: i16) => a.wrapping_add(b), clamped a.saturating_add(b);
            0x03 v_pk_sub_i16[PACKED]: i16(a: i16, b: i16) => a.wrapping_sub(b), clamped a.saturating_sub(b);
            0x04 v_pk_lshlrev_b16[PACKED]: u16(a: u16, b: u16) => b << (a & 15);
            0x05 v_pk_lshrrev_b16[PACKED]: u16(a: u16, b: u16) => b >> (a & 15);
            0x06 v_pk_ashrrev_i16[PACKED]: i16(a: u16, b: i16) => b >> (a & 15);
            0x07 v_pk_max_i16[PACKED]: i16(a: i16, b: i16) => a.max(b);
            0x08 v_pk_min_i16[PACKED]: i16(a: i16, b: i16) => a.min(b);
            0x09 v_pk_mad_u16[PACKED]: u16(a: u16, b: u16, c: u16) => a.wrapping_mul(b).wrapping_add(c),
                clamped (u64::from(a) * u64::from(b) + u64::from(c)).min(65535) as u16;
            0x0a v_pk_add_u16[PACKED]: u16(a: u16, b: u16) => a.wrapping_add(b), clamped a.saturating_add(b);
            0x0b v_pk_sub_u16[PACKED]: u16(a: u16, b: u16) => a.wrapping_sub(b), clamped a.saturating_sub(b);
            0x0c v_pk_max_u16[PACKED]: u16(a: u16, b: u16) => a.max(b);
            0x0d v_pk_min_u16[PACKED]: u16(a: u16, b: u16) => a.min(b);
            0x0e v_pk_fma_f16[PACKED]: F16Wide(a: F16Wide, b: F16Wide, c: F16Wide) => vop2::fma16(a, b, c), modal x.sum16(a * b, c).into();
            0x0f v_pk_add_f16[PACKED]: F16(a: F16, b: F16) => a + b, modal x.sum16(a.into(), b.into());
            0x10 v_pk_mul_f16[PACKED]: F16(a: F16, b: F16) => a * b, modal x.f16(f64::from(a) * f64::from(b));
            0x11 v_pk_min_f16[PACKED]: F16(a: F16, b: F16) => min32(a, b, true), modal min32(a, b, x.ieee);
            0x12 v_pk_max_f16[PACKED]: F16(a: F16, b: F16) => max32(a, b, true), modal max32(a, b, x.ieee);
            0x13 v_dot2_f32_f16[DOT]: f32(a: PkF16, b: PkF16, c: f32) => vop2::dot2(a, b, c);
            0x16 v_dot4_i32_iu8[DOT | SIGNED]: i32(a: u32, b: u32, c: i32) => dot::<8>(a, b, c, x.signed) as i32, clamped saturate(dot::<8>(a, b, c, x.signed));
            0x17 v_dot4_u32_u8[DOT]: u32(a: u32, b: u32, c: u32) => (dot::<8>(a, b, 0, 0) as u32).wrapping_add(c), clamped (dot::<8>(a, b, 0, 0) as u32).saturating_add(c);
            0x18 v_dot8_i32_iu4[DOT | SIGNED]: i32(a: u32, b: u32, c: i32) => dot::<4>(a, b, c, x.signed) as i32, clamped saturate(dot::<4>(a, b, c, x.signed));
            0x19 v_dot8_u32_u4[DOT]: u32(a: u32, b: u32, c: u32) => (dot::<4>(a, b, 0, 0) as u32).wrapping_add(c), clamped (dot::<4>(a, b, 0, 0) as u32).saturating_add(c);
            0x1a v_dot2_f32_bf16[DOT]: f32(a: PkBf16, b: PkBf16, c: f32) => {
                let product = |shift: u32| f64::from(float::from_bf16(a >> shift & 0xffff)) * f64::from(float::from_bf16(b >> shift & 0xffff));
                (f64::from(c) + product(0) + product(16)) as f32
            };
            0x20 v_fma_mix_f32[MIX]: f32(a: f32, b: f32, c: f32) => a.mul_add(b, c), modal x.round32.fma32(a, b, c);
            0x21 v_fma_mixlo_f16[MIX]: F16(a: f32, b: f32, c: f32) => a.mul_add(b, c), modal x.f16(x.round32.fma32(a, b, c).into());
            0x22 v_fma_mixhi_f16[MIX | HIGH_DST]: F16(a: f32, b: f32, c: f32) => a.mul_add(b, c), modal x.f16(x.round32.fma32(a, b, c).into());
        }
    }
}

/// Matrix products: A and B of 16x16 elements, spread over the lanes; C and D of 16x16.
pub(super) fn special() -> Vec<Op> {
    let op = |code, name, ab: u8, ty: Ty, flags, step| Op {
        code,
        name,
        dst: Some(ty),
        src: vec![Ty::Regs(ab), Ty::Regs(ab), ty],
        flags: flag::MATRIX | flags,
        run: Run::Step(step),
    };
    vec![
        op(0x40, "v_wmma_f32_16x16x16_f16", 8, Ty::Regs(8), 0, matrix::f32_f16),
        op(0x41, "v_wmma_f32_16x16x16_bf16", 8, Ty::Regs(8), 0, matrix::f32_bf16),
        op(0x42, "v_wmma_f16_16x16x16_f16", 8, Ty::Regs(8), flag::OP_SEL, matrix::f16_f16),
        op(0x43, "v_wmma_bf16_16x16x16_bf16", 8, Ty::Regs(8), flag::OP_SEL, matrix::bf16_bf16),
        op(0x44, "v_wmma_i32_16x16x16_iu8", 4, Ty::Regs(8), flag::SIGNED, matrix::i32_iu8),
        op(0x45, "v_wmma_i32_16x16x16_iu4", 2, Ty::Regs(8), flag::SIGNED, matrix::i32_iu4),
    ]
}
