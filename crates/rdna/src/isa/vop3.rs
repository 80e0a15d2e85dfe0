//! VOP3: operations that only exist with three 9-bit sources (ISA guide, 15.3.4). 0x000..0x0ff are VOPC's, 0x100..0x13f VOP2's and
//! 0x180..0x1ff VOP1's.

use super::{Op, Run, flag, rows::*, value::*, vop2};
use crate::{
    exec::vector,
    float::{self, Round, max32, max64, med3, min32, min64},
};

fn bytes(a: u32) -> [u32; 4] {
    [a & 255, a >> 8 & 255, a >> 16 & 255, a >> 24]
}

/// The byte of `a` (high) and `b` (low) that a selector names, or a sign, zero or ones.
#[inline(always)]
fn select_byte(a: u32, b: u32, selector: u32) -> u32 {
    let both = u64::from(a) << 32 | u64::from(b);
    let byte = (both >> (8 * (selector & 7))) as u32 & 255;
    // 8..11 spread the sign of bytes 1, 3, 5 and 7.
    let sign = ((both >> (16 * (selector & 3) + 15)) & 1) as u32 * 255;
    if selector >= 13 {
        255
    } else if selector == 12 {
        0
    } else if selector >= 8 {
        sign
    } else {
        byte
    }
}

#[inline(always)]
fn permute_bytes(a: u32, b: u32, selectors: u32) -> u32 {
    let at = |i: u32| select_byte(a, b, selectors >> (8 * i) & 255) << (8 * i);
    at(0) | at(1) | at(2) | at(3)
}

#[inline(always)]
fn sad8(a: u32, b: u32, c: u32) -> u32 {
    let at = |i: u32| (a >> (8 * i) & 255).abs_diff(b >> (8 * i) & 255);
    c.wrapping_add(at(0) + at(1) + at(2) + at(3))
}

/// As `sad8`, leaving out bytes where `b` is 0.
#[inline(always)]
fn masked_sad8(a: u32, b: u32, c: u32) -> u32 {
    let at = |i: u32| if b >> (8 * i) & 255 == 0 { 0 } else { (a >> (8 * i) & 255).abs_diff(b >> (8 * i) & 255) };
    c.wrapping_add(at(0) + at(1) + at(2) + at(3))
}

/// Four sums over windows of `a` that are a byte apart, in 16 bits each.
fn quad_sad(a: u64, b: u32, c: u64, sad: impl Fn(u32, u32, u32) -> u32) -> u64 {
    (0..4).fold(0, |sum, i| sum | u64::from(sad((a >> (8 * i)) as u32, b, (c >> (16 * i)) as u32 & 0xffff) & 0xffff) << (16 * i))
}

fn lerp(a: u32, b: u32, c: u32) -> u32 {
    let (a, b, c) = (bytes(a), bytes(b), bytes(c));
    (0..4).fold(0, |sum, i| sum | (a[i] + b[i] + (c[i] & 1)) >> 1 << (8 * i))
}

#[inline(always)]
fn field(a: u32, offset: u32, width: u32) -> u32 {
    a >> (offset & 31) & ((1u32 << (width & 31)) - 1)
}

#[inline(always)]
fn signed_field(a: i32, offset: u32, width: u32) -> i32 {
    let width = width & 31;
    if width == 0 { 0 } else { (a >> (offset & 31)) << (32 - width) >> (32 - width) }
}

/// Which face of a cube a direction meets, and where (ISA guide, `V_CUBE*`).
fn cube(x: f32, y: f32, z: f32) -> (f32, f32, f32, f32) {
    let (ax, ay, az) = (x.abs(), y.abs(), z.abs());
    if az >= ax && az >= ay {
        if z < 0.0 { (5.0, -x, -y, 2.0 * z) } else { (4.0, x, -y, 2.0 * z) }
    } else if ay >= ax {
        if y < 0.0 { (3.0, x, -z, 2.0 * y) } else { (2.0, x, z, 2.0 * y) }
    } else if x < 0.0 {
        (1.0, z, -y, 2.0 * x)
    } else {
        (0.0, -z, -y, 2.0 * x)
    }
}

/// The last step of a division: special cases, else the quotient with its sign (ISA guide, `V_DIV_FIXUP_*`). A quotient that is no
/// number although the operands are comes from an overflow on the way.
macro_rules! div_fixup {
    ($name:ident, $t:ty, $bits:ty, $mantissa:expr, $underflow:expr) => {
        fn $name(quotient: $t, denominator: $t, numerator: $t) -> $t {
            let negative = denominator.is_sign_negative() != numerator.is_sign_negative();
            let signed = |magnitude: $t| if negative { -magnitude } else { magnitude };
            let exponent = |x: $t| ((x.abs().to_bits() >> $mantissa) as $bits) as i32;
            if numerator.is_nan() {
                numerator
            } else if denominator.is_nan() {
                denominator
            } else if (denominator == 0.0 && numerator == 0.0) || (denominator.is_infinite() && numerator.is_infinite()) {
                <$t>::NAN
            } else if denominator == 0.0 || numerator.is_infinite() {
                signed(<$t>::INFINITY)
            } else if denominator.is_infinite() || numerator == 0.0 || exponent(numerator) - exponent(denominator) < $underflow {
                signed(0.0)
            } else if quotient.is_nan() {
                signed(<$t>::INFINITY)
            } else {
                signed(quotient.abs())
            }
        }
    };
}

div_fixup!(div_fixup32, f32, u32, 23, -150);
div_fixup!(div_fixup64, f64, u64, 52, -1075);

/// Scales an operand of a division so that nothing on the way over- or underflows, and tells whether the result has to be scaled back
/// (ISA guide, `V_DIV_SCALE_F32`): the value to scale, denominator, numerator.
fn div_scale32(value: f32, denominator: f32, numerator: f32) -> (f32, bool) {
    let exponent = |x: f32| (x.to_bits() >> 23 & 255) as i32;
    let scaled = |n| float::ldexp64(value.into(), n) as f32;
    let subnormal = |x: f32| x != 0.0 && x.abs() < f32::MIN_POSITIVE;
    let inverse = 1.0 / f64::from(denominator);
    let tiny_inverse = inverse != 0.0 && inverse.abs() < f64::from(f32::MIN_POSITIVE);
    let tiny_quotient = subnormal(numerator / denominator);
    if numerator == 0.0 || denominator == 0.0 {
        (f32::NAN, false)
    } else if exponent(numerator) - exponent(denominator) >= 96 {
        (if value == denominator { scaled(64) } else { value }, true)
    } else if subnormal(denominator) {
        (scaled(64), false)
    } else if tiny_inverse && tiny_quotient {
        (if value == denominator { scaled(-64) } else { value }, true)
    } else if tiny_inverse {
        (scaled(-64), false)
    } else if tiny_quotient {
        (if value == numerator { scaled(64) } else { value }, true)
    } else if exponent(numerator) <= 23 {
        (scaled(64), false)
    } else {
        (value, false)
    }
}

/// A fused product and sum that undoes the scaling of `div_scale32`, rounded once: a large quotient was scaled down, a small one up.
/// (The guide has 2^32; quotients come out right with the 2^64 that the operands were scaled by, in the direction that the
/// quotient's exponent tells.)
fn scaled_back32(scaled: u32, round: Round, [a, b, quotient]: [f32; 3]) -> f32 {
    let direction = if quotient.abs() >= 2.0 { 64 } else { -64 };
    let fused = round.sum(f64::from(a) * f64::from(b), quotient.into());
    round.to_f32(if scaled != 0 { float::ldexp64(fused, direction) } else { fused })
}

fn scaled_back64(scaled: u32, round: Round, [a, b, quotient]: [f64; 3]) -> f64 {
    let direction = if quotient.abs() >= 2.0 { 128 } else { -128 };
    round.fma_scaled64(a, b, quotient, if scaled != 0 { direction } else { 0 })
}

/// The same for f64 (`V_DIV_SCALE_F64`).
fn div_scale64(value: f64, denominator: f64, numerator: f64) -> (f64, bool) {
    let exponent = |x: f64| (x.to_bits() >> 52 & 0x7ff) as i32;
    let scaled = |n| float::ldexp64(value, n);
    let subnormal = |x: f64| x != 0.0 && x.abs() < f64::MIN_POSITIVE;
    let (tiny_inverse, tiny_quotient) = (subnormal(1.0 / denominator), subnormal(numerator / denominator));
    if numerator == 0.0 || denominator == 0.0 {
        (f64::NAN, false)
    } else if exponent(numerator) - exponent(denominator) >= 768 {
        (if value == denominator { scaled(128) } else { value }, true)
    } else if subnormal(denominator) {
        (scaled(128), false)
    } else if tiny_inverse && tiny_quotient {
        (if value == denominator { scaled(-128) } else { value }, true)
    } else if tiny_inverse {
        (scaled(-128), false)
    } else if tiny_quotient {
        (if value == numerator { scaled(128) } else { value }, true)
    } else if exponent(numerator) <= 53 {
        (scaled(128), false)
    } else {
        (value, false)
    }
}

/// 2 / pi in binary, from the first fractional bit on, as 32-bit words. Needed to 1201 bits (`V_TRIG_PREOP_F64`).
const TWO_OVER_PI: [u32; 38] = two_over_pi();

/// Bits of 2/pi from Machin's formula in fixed point of 40 words: pi/4 = 4 arctan(1/5) - arctan(1/239), then a division.
const fn two_over_pi() -> [u32; 38] {
    const N: usize = 44;
    let mut pi_over_4 = [0u32; N];
    let mut k = 0;
    while k < 2 {
        let (d, factor) = if k == 0 { (5u64, 4u64) } else { (239, 1) };
        // term = factor / d, then repeatedly / d^2
        let mut term = [0u32; N];
        term[0] = factor as u32;
        term = divide(term, d);
        let mut n = 1u64;
        let mut add = k == 0;
        while !is_zero(&term) {
            let part = divide(term, n);
            pi_over_4 = if add { sum(pi_over_4, part) } else { difference(pi_over_4, part) };
            term = divide(term, d * d);
            n += 2;
            add = !add;
        }
        k += 1;
    }
    // 2/pi = (1/2) / (pi/4), bit by bit.
    let mut remainder = [0u32; N];
    remainder[0] = 1;
    remainder = divide(remainder, 2);
    let mut words = [0u32; 38];
    let mut bit = 0;
    while bit < 38 * 32 {
        remainder = sum(remainder, remainder);
        if !less(&remainder, &pi_over_4) {
            remainder = difference(remainder, pi_over_4);
            words[bit / 32] |= 1 << (31 - bit % 32);
        }
        bit += 1;
    }
    words
}

const fn divide(a: [u32; 44], by: u64) -> [u32; 44] {
    let mut quotient = [0; 44];
    let mut rest = 0u64;
    let mut i = 0;
    while i < 44 {
        let whole = rest << 32 | a[i] as u64;
        quotient[i] = (whole / by) as u32;
        rest = whole % by;
        i += 1;
    }
    quotient
}

const fn sum(a: [u32; 44], b: [u32; 44]) -> [u32; 44] {
    let mut out = [0; 44];
    let mut carry = 0u64;
    let mut i = 44;
    while i > 0 {
        i -= 1;
        let s = a[i] as u64 + b[i] as u64 + carry;
        out[i] = s as u32;
        carry = s >> 32;
    }
    out
}

const fn difference(a: [u32; 44], b: [u32; 44]) -> [u32; 44] {
    let mut out = [0; 44];
    let mut borrow = 0i64;
    let mut i = 44;
    while i > 0 {
        i -= 1;
        let d = a[i] as i64 - b[i] as i64 - borrow;
        out[i] = d as u32;
        borrow = (d < 0) as i64;
    }
    out
}

const fn is_zero(a: &[u32; 44]) -> bool {
    let mut i = 0;
    while i < 44 {
        if a[i] != 0 {
            return false;
        }
        i += 1;
    }
    true
}

const fn less(a: &[u32; 44], b: &[u32; 44]) -> bool {
    let mut i = 0;
    while i < 44 {
        if a[i] != b[i] {
            return a[i] < b[i];
        }
        i += 1;
    }
    false
}

/// 53 bits of 2/pi, from where an argument of that size needs them (ISA guide, `V_TRIG_PREOP_F64`).
fn trig_preop(a: f64, segment: u32) -> f64 {
    let exponent = (a.to_bits() >> 52 & 0x7ff) as i32;
    let shift = (segment as i32 & 31) * 53 + (exponent - 1077).max(0);
    let bit = |i: i32| TWO_OVER_PI.get(i as usize / 32).map_or(0, |w| w >> (31 - i % 32) & 1);
    let bits = (shift..shift + 53).fold(0u64, |n, i| n << 1 | u64::from(bit(i)));
    let scale = -53 - shift + if exponent >= 1968 { 128 } else { 0 };
    float::ldexp64(bits as f64, scale)
}

/// f32 to an unsigned byte, to nearest even (as `V_CVT_PK_U8_F32` of earlier guides rounds).
fn to_u8(x: f32) -> u32 {
    u32::from(x.round_ties_even() as u8)
}

fn product_u(a: u32, b: u32) -> u64 {
    u64::from(a) * u64::from(b)
}

cloned! {
    pub(super) fn table() -> Vec<Op> {
        let mut ops = rows! { x, l;
            0x209 v_fma_dx9_zero_f32: f32(a: f32, b: f32, c: f32) => vop2::dx9_fma(a, b, c);
            0x20a v_mad_i32_i24: i32(a: u32, b: u32, c: i32) => (vop2::i24(a) * vop2::i24(b)).wrapping_add(c.into()) as i32,
                clamped (vop2::i24(a) * vop2::i24(b)).saturating_add(c.into()).clamp(i32::MIN.into(), i32::MAX.into()) as i32;
            0x20b v_mad_u32_u24: u32(a: u32, b: u32, c: u32) => (vop2::u24(a) * vop2::u24(b)).wrapping_add(c.into()) as u32,
                clamped (vop2::u24(a) * vop2::u24(b)).saturating_add(c.into()).min(u32::MAX.into()) as u32;
            0x20c v_cubeid_f32: f32(a: f32, b: f32, c: f32) => cube(a, b, c).0;
            0x20d v_cubesc_f32: f32(a: f32, b: f32, c: f32) => cube(a, b, c).1;
            0x20e v_cubetc_f32: f32(a: f32, b: f32, c: f32) => cube(a, b, c).2;
            0x20f v_cubema_f32: f32(a: f32, b: f32, c: f32) => cube(a, b, c).3;
            0x210 v_bfe_u32: u32(a: u32, b: u32, c: u32) => field(a, b, c);
            0x211 v_bfe_i32: i32(a: i32, b: u32, c: u32) => signed_field(a, b, c);
            0x212 v_bfi_b32: u32(a: u32, b: u32, c: u32) => (a & b) | (!a & c);
            0x213 v_fma_f32: f32(a: f32, b: f32, c: f32) => a.mul_add(b, c), modal x.round32.fma32(a, b, c);
            0x215 v_lerp_u8: u32(a: u32, b: u32, c: u32) => lerp(a, b, c);
            0x216 v_alignbit_b32: u32(a: u32, b: u32, c: u32) => ((u64::from(a) << 32 | u64::from(b)) >> (c & 31)) as u32;
            0x217 v_alignbyte_b32: u32(a: u32, b: u32, c: u32) => ((u64::from(a) << 32 | u64::from(b)) >> (8 * (c & 3))) as u32;
            0x218 v_mullit_f32: f32(a: f32, b: f32, c: f32) =>
                if b == -f32::MAX || b == f32::NEG_INFINITY || b.is_nan() || c <= 0.0 || c.is_nan() { -f32::MAX } else { a * b };
            0x219 v_min3_f32: f32(a: f32, b: f32, c: f32) => min32(min32(a, b, true), c, true), modal min32(min32(a, b, x.ieee), c, x.ieee);
            0x21a v_min3_i32: i32(a: i32, b: i32, c: i32) => a.min(b).min(c);
            0x21b v_min3_u32: u32(a: u32, b: u32, c: u32) => a.min(b).min(c);
            0x21c v_max3_f32: f32(a: f32, b: f32, c: f32) => max32(max32(a, b, true), c, true), modal max32(max32(a, b, x.ieee), c, x.ieee);
            0x21d v_max3_i32: i32(a: i32, b: i32, c: i32) => a.max(b).max(c);
            0x21e v_max3_u32: u32(a: u32, b: u32, c: u32) => a.max(b).max(c);
            0x21f v_med3_f32: f32(a: f32, b: f32, c: f32) => med3(a, b, c, true), modal med3(a, b, c, x.ieee);
            0x220 v_med3_i32: i32(a: i32, b: i32, c: i32) => a.max(b).min(a.min(b).max(c));
            0x221 v_med3_u32: u32(a: u32, b: u32, c: u32) => a.max(b).min(a.min(b).max(c));
            0x222 v_sad_u8: u32(a: u32, b: u32, c: u32) => sad8(a, b, c);
            0x223 v_sad_hi_u8: u32(a: u32, b: u32, c: u32) => (sad8(a, b, 0) << 16).wrapping_add(c);
            0x224 v_sad_u16: u32(a: u32, b: u32, c: u32) => c.wrapping_add((a & 0xffff).abs_diff(b & 0xffff)).wrapping_add((a >> 16).abs_diff(b >> 16));
            0x225 v_sad_u32: u32(a: u32, b: u32, c: u32) => c.wrapping_add(a.abs_diff(b));
            0x226 v_cvt_pk_u8_f32: u32(a: f32, b: u32, c: u32) => {
                let shift = 8 * (b & 3);
                c & !(255 << shift) | to_u8(a) << shift
            };
            0x227 v_div_fixup_f32: f32(a: f32, b: f32, c: f32) => div_fixup32(a, b, c);
            0x237 v_div_fmas_f32[VCC_READ]: f32(a: f32, b: f32, c: f32) => scaled_back32(x.vcc >> l & 1, x.round32, [a, b, c]);
            0x239 v_msad_u8: u32(a: u32, b: u32, c: u32) => masked_sad8(a, b, c);
            0x240 v_xor3_b32: u32(a: u32, b: u32, c: u32) => a ^ b ^ c;
            0x241 v_mad_u16[OP_SEL]: u16(a: u16, b: u16, c: u16) => a.wrapping_mul(b).wrapping_add(c),
                clamped (u64::from(a) * u64::from(b) + u64::from(c)).min(65535) as u16;
            0x244 v_perm_b32: u32(a: u32, b: u32, c: u32) => permute_bytes(a, b, c);
            0x245 v_xad_u32: u32(a: u32, b: u32, c: u32) => (a ^ b).wrapping_add(c);
            0x246 v_lshl_add_u32: u32(a: u32, b: u32, c: u32) => (a << (b & 31)).wrapping_add(c);
            0x247 v_add_lshl_u32: u32(a: u32, b: u32, c: u32) => a.wrapping_add(b) << (c & 31);
            0x248 v_fma_f16[OP_SEL]: F16Wide(a: F16Wide, b: F16Wide, c: F16Wide) => vop2::fma16(a, b, c), modal x.sum16(a * b, c).into();
            0x249 v_min3_f16[OP_SEL]: F16(a: F16, b: F16, c: F16) => min32(min32(a, b, true), c, true);
            0x24a v_min3_i16[OP_SEL]: i16(a: i16, b: i16, c: i16) => a.min(b).min(c);
            0x24b v_min3_u16[OP_SEL]: u16(a: u16, b: u16, c: u16) => a.min(b).min(c);
            0x24c v_max3_f16[OP_SEL]: F16(a: F16, b: F16, c: F16) => max32(max32(a, b, true), c, true);
            0x24d v_max3_i16[OP_SEL]: i16(a: i16, b: i16, c: i16) => a.max(b).max(c);
            0x24e v_max3_u16[OP_SEL]: u16(a: u16, b: u16, c: u16) => a.max(b).max(c);
            0x24f v_med3_f16[OP_SEL]: F16(a: F16, b: F16, c: F16) => med3(a, b, c, true);
            0x250 v_med3_i16[OP_SEL]: i16(a: i16, b: i16, c: i16) => a.max(b).min(a.min(b).max(c));
            0x251 v_med3_u16[OP_SEL]: u16(a: u16, b: u16, c: u16) => a.max(b).min(a.min(b).max(c));
            0x253 v_mad_i16[OP_SEL]: i16(a: i16, b: i16, c: i16) => a.wrapping_mul(b).wrapping_add(c),
                clamped (i64::from(a) * i64::from(b) + i64::from(c)).clamp(-32768, 32767) as i16;
            0x254 v_div_fixup_f16[OP_SEL]: F16(a: F16, b: F16, c: F16) => div_fixup32(a, b, c);
            0x255 v_add3_u32: u32(a: u32, b: u32, c: u32) => a.wrapping_add(b).wrapping_add(c);
            0x256 v_lshl_or_b32: u32(a: u32, b: u32, c: u32) => (a << (b & 31)) | c;
            0x257 v_and_or_b32: u32(a: u32, b: u32, c: u32) => (a & b) | c;
            0x258 v_or3_b32: u32(a: u32, b: u32, c: u32) => a | b | c;
            0x259 v_mad_u32_u16[OP_SEL]: u32(a: u16, b: u16, c: u32) => (u32::from(a) * u32::from(b)).wrapping_add(c),
                clamped (u32::from(a) * u32::from(b)).saturating_add(c);
            0x25a v_mad_i32_i16[OP_SEL]: i32(a: i16, b: i16, c: i32) => (i32::from(a) * i32::from(b)).wrapping_add(c),
                clamped (i32::from(a) * i32::from(b)).saturating_add(c);
            0x25d v_cndmask_b16[OP_SEL | FLOAT_MODS]: B16(a: B16, b: B16, c: bool) => if c { b } else { a };
            0x25e v_maxmin_f32: f32(a: f32, b: f32, c: f32) => min32(max32(a, b, true), c, true), modal min32(max32(a, b, x.ieee), c, x.ieee);
            0x25f v_minmax_f32: f32(a: f32, b: f32, c: f32) => max32(min32(a, b, true), c, true), modal max32(min32(a, b, x.ieee), c, x.ieee);
            0x260 v_maxmin_f16[OP_SEL]: F16(a: F16, b: F16, c: F16) => min32(max32(a, b, true), c, true);
            0x261 v_minmax_f16[OP_SEL]: F16(a: F16, b: F16, c: F16) => max32(min32(a, b, true), c, true);
            0x262 v_maxmin_u32: u32(a: u32, b: u32, c: u32) => a.max(b).min(c);
            0x263 v_minmax_u32: u32(a: u32, b: u32, c: u32) => a.min(b).max(c);
            0x264 v_maxmin_i32: i32(a: i32, b: i32, c: i32) => a.max(b).min(c);
            0x265 v_minmax_i32: i32(a: i32, b: i32, c: i32) => a.min(b).max(c);
            0x266 v_dot2_f16_f16[OP_SEL]: F16Wide(a: PkF16, b: PkF16, c: F16Wide) => {
                let product = |shift: u32| f64::from(float::from_f16(a >> shift & 0xffff)) * f64::from(float::from_f16(b >> shift & 0xffff));
                c + product(0) + product(16)
            };
            0x267 v_dot2_bf16_bf16[OP_SEL]: Bf16(a: PkBf16, b: PkBf16, c: Bf16) => {
                let product = |shift: u32| f64::from(float::from_bf16(a >> shift & 0xffff)) * f64::from(float::from_bf16(b >> shift & 0xffff));
                float::odd_f32(f64::from(c) + product(0) + product(16))
            };
            0x303 v_add_nc_u16[OP_SEL]: u16(a: u16, b: u16) => a.wrapping_add(b), clamped a.saturating_add(b);
            0x304 v_sub_nc_u16[OP_SEL]: u16(a: u16, b: u16) => a.wrapping_sub(b), clamped a.saturating_sub(b);
            0x305 v_mul_lo_u16[OP_SEL]: u16(a: u16, b: u16) => a.wrapping_mul(b);
            0x306 v_cvt_pk_i16_f32: PkI16(a: f32, b: f32) => u32::from(b as i16 as u16) << 16 | u32::from(a as i16 as u16);
            0x307 v_cvt_pk_u16_f32: PkI16(a: f32, b: f32) => u32::from(b as u16) << 16 | u32::from(a as u16);
            0x309 v_max_u16[OP_SEL]: u16(a: u16, b: u16) => a.max(b);
            0x30a v_max_i16[OP_SEL]: i16(a: i16, b: i16) => a.max(b);
            0x30b v_min_u16[OP_SEL]: u16(a: u16, b: u16) => a.min(b);
            0x30c v_min_i16[OP_SEL]: i16(a: i16, b: i16) => a.min(b);
            0x30d v_add_nc_i16[OP_SEL]: i16(a: i16, b: i16) => a.wrapping_add(b), clamped a.saturating_add(b);
            0x30e v_sub_nc_i16[OP_SEL]: i16(a: i16, b: i16) => a.wrapping_sub(b), clamped a.saturating_sub(b);
            0x311 v_pack_b32_f16[OP_SEL]: PkF16(a: F16Bits, b: F16Bits) => u32::from(b) << 16 | u32::from(a);
            0x312 v_cvt_pk_norm_i16_f16[OP_SEL]: PkI16(a: F16, b: F16) => norm_i16(b) << 16 | norm_i16(a);
            0x313 v_cvt_pk_norm_u16_f16[OP_SEL]: PkI16(a: F16, b: F16) => norm_u16(b) << 16 | norm_u16(a);
            0x31c v_ldexp_f32: f32(a: f32, b: i32) => float::ldexp64(a.into(), b) as f32, modal x.round32.to_f32(float::ldexp64(a.into(), b.clamp(-600, 600)));
            0x31d v_bfm_b32: u32(a: u32, b: u32) => ((1u32 << (a & 31)) - 1) << (b & 31);
            0x31e v_bcnt_u32_b32: u32(a: u32, b: u32) => a.count_ones().wrapping_add(b);
            0x31f v_mbcnt_lo_u32_b32: u32(a: u32, b: u32) => (a & ((1u32 << l) - 1)).count_ones().wrapping_add(b);
            0x320 v_mbcnt_hi_u32_b32: u32(a: u32, b: u32) => { let _ = a; b };
            0x321 v_cvt_pk_norm_i16_f32: PkI16(a: f32, b: f32) => norm_i16(b) << 16 | norm_i16(a);
            0x322 v_cvt_pk_norm_u16_f32: PkI16(a: f32, b: f32) => norm_u16(b) << 16 | norm_u16(a);
            0x323 v_cvt_pk_u16_u32: PkI16(a: u32, b: u32) => b.min(0xffff) << 16 | a.min(0xffff);
            0x324 v_cvt_pk_i16_i32: PkI16(a: i32, b: i32) => {
                let saturated = |v: i32| v.clamp(-32768, 32767) as u32 & 0xffff;
                saturated(b) << 16 | saturated(a)
            };
            0x325 v_sub_nc_i32: i32(a: i32, b: i32) => a.wrapping_sub(b), clamped a.saturating_sub(b);
            0x326 v_add_nc_i32: i32(a: i32, b: i32) => a.wrapping_add(b), clamped a.saturating_add(b);
            0x32c v_mul_lo_u32: u32(a: u32, b: u32) => a.wrapping_mul(b);
            0x32d v_mul_hi_u32: u32(a: u32, b: u32) => (product_u(a, b) >> 32) as u32;
            0x32e v_mul_hi_i32: i32(a: i32, b: i32) => ((i64::from(a) * i64::from(b)) >> 32) as i32;
            0x338 v_lshlrev_b16[OP_SEL]: u16(a: u16, b: u16) => b << (a & 15);
            0x339 v_lshrrev_b16[OP_SEL]: u16(a: u16, b: u16) => b >> (a & 15);
            0x33a v_ashrrev_i16[OP_SEL]: i16(a: u16, b: i16) => b >> (a & 15);
            0x362 v_and_b16[OP_SEL]: B16(a: B16, b: B16) => a & b;
            0x363 v_or_b16[OP_SEL]: B16(a: B16, b: B16) => a | b;
            0x364 v_xor_b16[OP_SEL]: B16(a: B16, b: B16) => a ^ b;
        };
        ops.extend(wide_rows! { x, l;
            0x214 v_fma_f64: f64(a: f64, b: f64, c: f64) => a.mul_add(b, c), modal x.round16.fma64(a, b, c);
            0x228 v_div_fixup_f64: f64(a: f64, b: f64, c: f64) => div_fixup64(a, b, c);
            0x238 v_div_fmas_f64[VCC_READ]: f64(a: f64, b: f64, c: f64) => scaled_back64(x.vcc >> l & 1, x.round16, [a, b, c]);
            0x23a v_qsad_pk_u16_u8: u64(a: u64, b: u32, c: u64) => quad_sad(a, b, c, sad8);
            0x23b v_mqsad_pk_u16_u8: u64(a: u64, b: u32, c: u64) => quad_sad(a, b, c, masked_sad8);
            0x2fc v_div_scale_f32[SCALAR_DST]: f32, bool(a: f32, b: f32, c: f32) => div_scale32(a, b, c);
            0x2fd v_div_scale_f64[SCALAR_DST]: f64, bool(a: f64, b: f64, c: f64) => div_scale64(a, b, c);
            0x2fe v_mad_u64_u32[SCALAR_DST]: u64, bool(a: u32, b: u32, c: u64) => product_u(a, b).overflowing_add(c);
            0x2ff v_mad_i64_i32[SCALAR_DST]: i64, bool(a: i32, b: i32, c: i64) => (i64::from(a) * i64::from(b)).overflowing_add(c);
            0x327 v_add_f64: f64(a: f64, b: f64) => a + b, modal x.round16.add64(a, b);
            0x328 v_mul_f64: f64(a: f64, b: f64) => a * b, modal x.round16.mul64(a, b);
            0x329 v_min_f64: f64(a: f64, b: f64) => min64(a, b, true), modal min64(a, b, x.ieee);
            0x32a v_max_f64: f64(a: f64, b: f64) => max64(a, b, true), modal max64(a, b, x.ieee);
            0x32b v_ldexp_f64: f64(a: f64, b: i32) => float::ldexp64(a, b), modal x.round16.scale64(a, b);
            0x32f v_trig_preop_f64: f64(a: f64, b: u32) => trig_preop(a, b);
            0x33c v_lshlrev_b64: u64(a: u32, b: u64) => b << (a & 63);
            0x33d v_lshrrev_b64: u64(a: u32, b: u64) => b >> (a & 63);
            0x33e v_ashrrev_i64: i64(a: u32, b: i64) => b >> (a & 63);
        });
        ops.extend(carry_rows! { x, l;
            0x300 v_add_co_u32[SCALAR_DST]: u32(a: u32, b: u32) => a.overflowing_add(b);
            0x301 v_sub_co_u32[SCALAR_DST]: u32(a: u32, b: u32) => a.overflowing_sub(b);
            0x302 v_subrev_co_u32[SCALAR_DST]: u32(a: u32, b: u32) => b.overflowing_sub(a);
        });
        ops
    }
}

#[inline(always)]
fn norm_i16(x: f32) -> u32 {
    ((x.clamp(-1.0, 1.0) * 32767.0).round_ties_even() as i16 as u32) & 0xffff
}

#[inline(always)]
fn norm_u16(x: f32) -> u32 {
    (x.clamp(0.0, 1.0) * 65535.0).round_ties_even() as u16 as u32
}

/// Four sums in 32 bits each, for the one operation with a 128-bit result.
pub(crate) fn masked_quad_sad(a: u64, b: u32, c: [u32; 4]) -> [u32; 4] {
    std::array::from_fn(|i| masked_sad8((a >> (8 * i)) as u32, b, c[i]))
}

/// What is no function of a lane.
pub(super) fn special() -> Vec<Op> {
    let op = |code, name, dst, src: &[Ty], flags, step| Op { code, name, dst: Some(dst), src: src.to_vec(), flags, run: Run::Step(step) };
    vec![
        op(0x23d, "v_mqsad_u32_u8", Ty::Regs(4), &[Ty::U64, Ty::U32, Ty::Regs(4)], 0, vector::mqsad),
        op(0x25b, "v_permlane16_b32", Ty::U32, &[Ty::U32; 3], flag::OP_SEL, vector::permute_lanes),
        op(0x25c, "v_permlanex16_b32", Ty::U32, &[Ty::U32; 3], flag::OP_SEL, vector::permute_lanes),
        op(0x360, "v_readlane_b32", Ty::U32, &[Ty::U32; 2], flag::SGPR_DST, vector::read_lane),
        op(0x361, "v_writelane_b32", Ty::U32, &[Ty::U32; 2], 0, vector::write_lane),
    ]
}
