//! What packed operations, dot products and mixed-precision sums should give.

use super::{
    oracle::{In, dot, oracle},
    soft::{BF16, F16, F32, Format, Number, Round, product, sum},
};

fn half(x: u64, high: bool) -> u64 {
    x >> if high { 16 } else { 0 } & 0xffff
}

fn s16(x: u64) -> i64 {
    i64::from(x as u16 as i16)
}

/// One half of a packed operation: exact where it is an integer, so that the clamp can tell.
fn integer(name: &str, a: u64, b: u64, c: u64) -> Option<i64> {
    let (a, b, c) = if name.ends_with("i16") { (s16(a), s16(b), s16(c)) } else { (a as i64, b as i64, c as i64) };
    Some(match name.strip_prefix("v_pk_")?.rsplit_once('_')?.0 {
        "mad" => a * b + c,
        "mul_lo" => a * b,
        "add" => a + b,
        "sub" => a - b,
        "lshlrev" => b << (a & 15),
        "lshrrev" | "ashrrev" => b >> (a & 15),
        "max" => a.max(b),
        "min" => a.min(b),
        _ => return None,
    })
}

/// The modifiers of VOP3P: a bit for each source.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Modifiers {
    pub(crate) op_sel: u32,
    pub(crate) op_sel_hi: u32,
    pub(crate) neg_lo: u32,
    pub(crate) neg_hi: u32,
    pub(crate) clamp: bool,
}

fn clamped(format: Format, bits: u64) -> u64 {
    let one = format.write(Number::Finite { negative: false, mantissa: 1, exponent: 0, sticky: false }, Round::Nearest);
    let negative = bits >> (format.bits() - 1) & 1 == 1;
    if negative || format.is_nan(bits) { 0 } else { bits.min(one) }
}

/// A packed operation on 16-bit halves.
pub(crate) fn packed(name: &str, i: &In, m: Modifiers, flush: bool) -> Option<u64> {
    let sources = [i.a, i.b, i.c];
    let float = name.ends_with("f16");
    let flushed = |x: u64| if flush && float { F16.flush(x) } else { x };
    let one = |high: bool| {
        let (select, negate) = if high { (m.op_sel_hi, m.neg_hi) } else { (m.op_sel, m.neg_lo) };
        let operand = |k: usize| {
            let value = half(sources[k], select >> k & 1 == 1);
            flushed(if float && negate >> k & 1 == 1 { value ^ 0x8000 } else { value })
        };
        let (a, b, c) = (operand(0), operand(1), operand(2));
        if float {
            let function = oracle(&name.replace("v_pk_", "v_"))?;
            let value = flushed(function(&In { a, b, c, ..*i }).0);
            return Some(if m.clamp { clamped(F16, value) } else { value });
        }
        let exact = integer(name, a, b, c)?;
        let limits = if name.ends_with("i16") { (-0x8000, 0x7fff) } else { (0, 0xffff) };
        let clamps = m.clamp && ["mad", "add", "sub"].iter().any(|kind| name.contains(kind));
        Some((if clamps { exact.clamp(limits.0, limits.1) } else { exact }) as u64 & 0xffff)
    };
    Some(one(false)? | one(true)? << 16)
}

/// Integer dot products; NEG says which of the first two operands is signed.
pub(crate) fn integer_dot(name: &str, i: &In, m: Modifiers) -> Option<u64> {
    let bits = match name.strip_prefix("v_dot")?.split_once('_')? {
        ("4", _) => 8,
        ("8", _) => 4,
        _ => return None,
    };
    let signed = name.contains("i32");
    let exact = if signed {
        dot(i.a, i.b, bits, [m.neg_lo & 1 == 1, m.neg_lo >> 1 & 1 == 1]) + i128::from(i.c as i32)
    } else {
        dot(i.a, i.b, bits, [false; 2]) + i128::from(i.c as u32)
    };
    let (low, high) = if signed { (i32::MIN.into(), i32::MAX.into()) } else { (0, u32::MAX.into()) };
    Some((if m.clamp { exact.clamp(low, high) } else { exact }) as u64 & 0xffff_ffff)
}

/// `v_fma_mix*`: each operand an f32, or the half of a register that OP_SEL says if OP_SEL_HI is set; NEG_HI is the absolute value.
pub(crate) fn mixed(name: &str, i: &In, m: Modifiers, flush: bool) -> Option<u64> {
    let round = i.rounds[0];
    let operand = |x: u64, k: u32| {
        let bit = |field: u32| field >> k & 1 == 1;
        let value = if bit(m.op_sel_hi) { F32.write(F16.read(half(x, bit(m.op_sel))), Round::Nearest) } else { x & 0xffff_ffff };
        let value = if bit(m.neg_hi) { value & 0x7fff_ffff } else { value };
        let value = if bit(m.neg_lo) { value ^ 0x8000_0000 } else { value };
        F32.read(if flush { F32.flush(value) } else { value })
    };
    let exact = sum(product(operand(i.a, 0), operand(i.b, 1)), operand(i.c, 2), round);
    let wide = F32.write(exact, round);
    let (value, format) = match name {
        "v_fma_mix_f32" => (wide, F32),
        "v_fma_mixlo_f16" | "v_fma_mixhi_f16" => (F16.write(F32.read(wide), i.rounds[1]), F16),
        _ => return None,
    };
    let value = if flush { format.flush(value) } else { value };
    Some(if m.clamp { clamped(format, value) } else { value })
}

/// The exact sum of two products of halves and a third operand of `format`, as f64: every term fits, the sum is rounded there once.
pub(crate) fn float_dot(name: &str, i: &In) -> Option<(f64, f64, Format)> {
    let (element, result) = match name {
        "v_dot2_f32_f16" | "v_dot2acc_f32_f16" => (F16, F32),
        "v_dot2_f32_bf16" => (BF16, F32),
        "v_dot2_f16_f16" => (F16, F16),
        "v_dot2_bf16_bf16" => (BF16, BF16),
        _ => return None,
    };
    let term = |high| real(element, half(i.a, high)) * real(element, half(i.b, high));
    let third = real(result, i.c & ((1 << result.bits()) - 1));
    let terms = [term(false), term(true), third];
    // The size of the terms bounds the error of any order of summing.
    Some((terms.iter().sum(), terms.iter().map(|t| t.abs()).sum(), result))
}

pub(crate) fn real(format: Format, bits: u64) -> f64 {
    f64::from_bits(super::soft::F64.write(format.read(bits), Round::Nearest))
}
