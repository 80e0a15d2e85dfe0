//! What each vector operation should give, written from the ISA guide's descriptions in the plainest way: exact numbers rounded once,
//! integers wide enough not to overflow, bits one by one.

use super::soft::{self, BF16, F16, F32, F64, Format, Number, Round, negated, product};

/// Operands of a lane, as bits.
pub(crate) struct In {
    pub(crate) a: u64,
    pub(crate) b: u64,
    pub(crate) c: u64,
    /// The lane's bit of VCC.
    pub(crate) bit: bool,
    pub(crate) lane: u32,
    /// Rounding of f32, and of f16 and f64.
    pub(crate) rounds: [Round; 2],
}

/// Result, and the mask's bit where there is one.
pub(crate) type Out = (u64, bool);
pub(crate) type Oracle = fn(&In) -> Out;

/// Anything that a row may return.
trait Result {
    fn out(self) -> Out;
}

macro_rules! results {
    ($($t:ty: |$x:ident| $e:expr;)*) => {
        $(impl Result for $t {
            fn out(self) -> Out {
                let $x = self;
                $e
            }
        })*
    };
}

results! {
    u64: |x| (x, false);
    i64: |x| (x as u64, false);
    u32: |x| (x.into(), false);
    i32: |x| (x as u32 as u64, false);
    u16: |x| (x.into(), false);
    i16: |x| (x as u16 as u64, false);
    bool: |x| (x.into(), x);
    i128: |x| (x as u32 as u64, false);
    (u64, bool): |x| x;
}

impl In {
    fn round(&self, format: Format) -> Round {
        self.rounds[usize::from(format != F32)]
    }

    fn sum(&self, format: Format, x: Number, y: Number) -> u64 {
        let round = self.round(format);
        format.write(soft::sum(x, y, round), round)
    }

    fn product(&self, format: Format, x: u64, y: u64) -> u64 {
        format.write(product(format.read(x), format.read(y)), self.round(format))
    }

    fn fma(&self, format: Format, x: u64, y: u64, z: u64) -> u64 {
        let round = self.round(format);
        format.write(soft::sum(product(format.read(x), format.read(y)), format.read(z), round), round)
    }

    fn convert(&self, from: Format, to: Format, x: u64) -> u64 {
        to.write(from.read(x), self.round(to))
    }

    fn int(&self, to: Format, x: i128) -> u64 {
        to.write(Number::Finite { negative: x < 0, mantissa: x.unsigned_abs(), exponent: 0, sticky: false }, self.round(to))
    }
}

/// A number as f64, which holds all of f16 and f32.
fn real(format: Format, bits: u64) -> f64 {
    f64::from_bits(F64.write(format.read(bits), Round::Nearest))
}

fn narrowed(format: Format, x: f64) -> u64 {
    format.write(F64.read(x.to_bits()), Round::Nearest)
}

fn to_int(x: f64, low: i128, high: i128) -> i128 {
    if x.is_nan() {
        0
    } else if x <= low as f64 {
        low
    } else if x >= high as f64 {
        high
    } else {
        x as i128
    }
}

/// IEEE minNum / maxNum with signalling NaNs quieted, and -0 below +0.
fn extreme(format: Format, x: u64, y: u64, greater: bool) -> u64 {
    if format.is_signalling(x) || format.is_signalling(y) {
        return format.nan();
    }
    match (format.is_nan(x), format.is_nan(y)) {
        (_, true) => x,
        (true, _) => y,
        _ => {
            // Sign and magnitude to a number in order.
            let order = |bits: u64| {
                let magnitude = (bits & ((1 << (format.bits() - 1)) - 1)) as i64;
                if bits >> (format.bits() - 1) & 1 == 1 { -magnitude - 1 } else { magnitude }
            };
            if (order(x) < order(y)) != greater { x } else { y }
        }
    }
}

/// As LLVM folds `llvm.amdgcn.fmed3`: the greatest is left out, where -0 equals +0.
fn median(format: Format, x: u64, y: u64, z: u64) -> u64 {
    let max = |p, q| extreme(format, p, q, true);
    let min = |p, q| extreme(format, p, q, false);
    let greatest = max(max(x, y), z);
    let is_greatest = |v| compare(format, greatest, v) == Some(std::cmp::Ordering::Equal);
    if [x, y, z].into_iter().any(|v| format.is_nan(v)) {
        min(min(x, y), z)
    } else if is_greatest(x) {
        max(y, z)
    } else if is_greatest(y) {
        max(x, z)
    } else {
        max(x, y)
    }
}

/// Truncation, floor and the like of any format: exact in f64.
fn rounded(format: Format, x: u64, how: fn(f64) -> f64) -> u64 {
    if format == F64 { how(f64::from_bits(x)).to_bits() } else { narrowed(format, how(real(format, x))) }
}

fn fraction(format: Format, x: u64) -> u64 {
    let value = real(format, x);
    let largest = 1.0 - 2f64.powi(-(format.mantissa as i32) - 1);
    if value.is_infinite() { format.nan() } else { narrowed(format, (value - value.floor()).min(largest)) }
}

fn exponent_of(format: Format, x: u64) -> i32 {
    match format.read(x) {
        Number::Finite { mantissa, exponent, .. } if mantissa != 0 => 128 - mantissa.leading_zeros() as i32 + exponent,
        _ => 0,
    }
}

fn mantissa_of(format: Format, x: u64) -> u64 {
    match format.read(x) {
        Number::Finite { negative, mantissa, .. } if mantissa != 0 => {
            let exponent = mantissa.leading_zeros() as i32 - 128;
            format.write(Number::Finite { negative, mantissa, exponent, sticky: false }, Round::Nearest)
        }
        _ => x,
    }
}

fn scaled(i: &In, format: Format, x: u64, n: i32) -> u64 {
    let scaled = match format.read(x) {
        Number::Finite { negative, mantissa, exponent, sticky } => {
            Number::Finite { negative, mantissa, exponent: exponent.saturating_add(n).clamp(-100_000, 100_000), sticky }
        }
        other => other,
    };
    format.write(scaled, i.round(format))
}

fn compare(format: Format, x: u64, y: u64) -> Option<std::cmp::Ordering> {
    if format == F64 { f64::from_bits(x).partial_cmp(&f64::from_bits(y)) } else { real(format, x).partial_cmp(&real(format, y)) }
}

fn in_class(format: Format, x: u64, asked: u64) -> bool {
    let sign = x >> (format.bits() - 1) & 1 == 1;
    let class = match format.read(x) {
        Number::Nan => u32::from(!format.is_signalling(x)),
        Number::Infinite { .. } => {
            if sign {
                2
            } else {
                9
            }
        }
        Number::Finite { mantissa: 0, .. } => {
            if sign {
                5
            } else {
                6
            }
        }
        Number::Finite { mantissa, .. } if mantissa >> format.mantissa == 0 => {
            if sign {
                4
            } else {
                7
            }
        }
        Number::Finite { .. } => {
            if sign {
                3
            } else {
                8
            }
        }
    };
    asked >> class & 1 == 1
}

fn byte(x: u64, i: u32) -> i128 {
    (x >> (8 * i) & 255).into()
}

fn sad(a: u64, b: u64, masked: bool) -> i128 {
    (0..4).filter(|&i| !masked || byte(b, i) != 0).map(|i| (byte(a, i) - byte(b, i)).abs()).sum()
}

fn quad_sad(i: &In, masked: bool) -> u64 {
    (0..4).fold(0, |out, k| out | (((i.c >> (16 * k) & 0xffff) as i128 + sad(i.a >> (8 * k), i.b, masked)) as u64 & 0xffff) << (16 * k))
}

fn permuted(i: &In) -> u32 {
    let both = (i.a & 0xffff_ffff) << 32 | i.b & 0xffff_ffff;
    (0..4).fold(0, |out, k| {
        let selected = match i.c >> (8 * k) & 255 {
            s @ 0..=7 => both >> (8 * s) & 255,
            s @ 8..=11 => {
                if both >> (16 * (s - 8) + 15) & 1 == 1 {
                    255
                } else {
                    0
                }
            }
            12 => 0,
            _ => 255,
        };
        out | (selected as u32) << (8 * k)
    })
}

fn s24(x: u64) -> i128 {
    i128::from((x as i64) << 40 >> 40)
}

fn u24(x: u64) -> i128 {
    i128::from(x & 0xff_ffff)
}

fn s32(x: u64) -> i128 {
    i128::from(x as i32)
}

fn u32_(x: u64) -> i128 {
    i128::from(x as u32)
}

fn low_bits(count: u32) -> u64 {
    (0..count).fold(0, |mask, bit| mask | 1 << bit)
}

/// Elements of `bits` bits, signed or not.
fn elements(x: u64, bits: u32, signed: bool) -> Vec<i128> {
    let sign = 1i128 << (bits - 1);
    let element = |k: u32| i128::from(x >> (k * bits) & low_bits(bits));
    (0..32 / bits).map(|k| if signed && element(k) >= sign { element(k) - 2 * sign } else { element(k) }).collect()
}

pub(crate) fn dot(a: u64, b: u64, bits: u32, signed: [bool; 2]) -> i128 {
    elements(a, bits, signed[0]).iter().zip(elements(b, bits, signed[1])).map(|(x, y)| x * y).sum()
}

fn dx9_product(i: &In) -> u64 {
    if real(F32, i.a) == 0.0 || real(F32, i.b) == 0.0 { 0 } else { i.product(F32, i.a, i.b) }
}

fn divided(format: Format, i: &In) -> u64 {
    let (quotient, denominator, numerator) = (i.a, i.b, i.c);
    let sign_bit = 1 << (format.bits() - 1);
    let sign = (denominator ^ numerator) & sign_bit;
    let kind = |x: u64| match format.read(x) {
        Number::Nan => 'n',
        Number::Infinite { .. } => 'i',
        Number::Finite { mantissa: 0, .. } => '0',
        Number::Finite { .. } => 'f',
    };
    let infinite = format.nan() & !(1 << (format.mantissa - 1));
    let field = |x: u64| ((x & !sign_bit) >> format.mantissa) as i32;
    let underflow = if format == F64 {
        -1075
    } else if format == F32 {
        -150
    } else {
        i32::MIN
    };
    match (kind(numerator), kind(denominator)) {
        ('n', _) | (_, 'n') | ('0', '0') | ('i', 'i') => format.nan(),
        (_, '0') | ('i', _) => sign | infinite,
        ('0', _) | (_, 'i') => sign,
        _ if field(numerator) - field(denominator) < underflow => sign,
        _ if format.is_nan(quotient) => sign | infinite,
        _ => sign | quotient & !sign_bit,
    }
}

fn cube(i: &In) -> [f32; 4] {
    let [x, y, z] = [i.a, i.b, i.c].map(|v| f32::from_bits(v as u32));
    // Face, s, t, major axis: the table of the Vulkan specification, "Cube Map Face Selection".
    let biggest_z = z.abs() >= x.abs() && z.abs() >= y.abs();
    let (face, s, t, axis) = if biggest_z {
        (4 + i32::from(z < 0.0), if z < 0.0 { -x } else { x }, -y, z)
    } else if y.abs() >= x.abs() {
        (2 + i32::from(y < 0.0), x, if y < 0.0 { -z } else { z }, y)
    } else {
        (i32::from(x < 0.0), if x < 0.0 { z } else { -z }, -y, x)
    };
    [face as f32, s, t, 2.0 * axis]
}

macro_rules! oracles {
    ($(#[$meta:meta])* fn $function:ident; $($name:ident |$i:ident| $e:expr;)*) => {
        $(#[$meta])*
        fn $function() -> Vec<(&'static str, Oracle)> {
            vec![$((stringify!($name), (|$i: &In| Result::out($e)) as Oracle)),*]
        }
    };
}

oracles! { fn integers;
    v_mov_b32 |i| i.a as u32;
    v_mov_b16 |i| i.a as u16;
    v_not_b32 |i| !i.a as u32;
    v_not_b16 |i| !i.a as u16;
    v_bfrev_b32 |i| (0..32).fold(0u32, |r, k| r | ((i.a >> k & 1) as u32) << (31 - k));
    v_clz_i32_u32 |i| (0..32).find(|k| i.a >> (31 - k) & 1 == 1).unwrap_or(-1i32);
    v_ctz_i32_b32 |i| (0..32).find(|k| i.a >> k & 1 == 1).unwrap_or(-1i32);
    v_cls_i32 |i| (1..32).find(|k| i.a >> (31 - k) & 1 != i.a >> 31 & 1).unwrap_or(-1i32);
    v_cvt_i32_i16 |i| i.a as i16 as i32;
    v_cvt_u32_u16 |i| i.a as u16 as u32;
    v_sat_pk_u8_i16 |i| (((i.a >> 16) as i16).clamp(0, 255) as u32) << 8 | (i.a as i16).clamp(0, 255) as u32;
    v_cndmask_b32 |i| (if i.bit { i.b } else { i.a }) as u32;
    v_cndmask_b16 |i| (if i.bit { i.b } else { i.a }) as u16;
    v_mul_i32_i24 |i| s24(i.a) * s24(i.b);
    v_mul_hi_i32_i24 |i| (s24(i.a) * s24(i.b)) >> 32;
    v_mul_u32_u24 |i| u24(i.a) * u24(i.b);
    v_mul_hi_u32_u24 |i| (u24(i.a) * u24(i.b)) >> 32;
    v_min_i32 |i| s32(i.a).min(s32(i.b));
    v_max_i32 |i| s32(i.a).max(s32(i.b));
    v_min_u32 |i| u32_(i.a).min(u32_(i.b));
    v_max_u32 |i| u32_(i.a).max(u32_(i.b));
    v_lshlrev_b32 |i| u32_(i.b) << (i.a & 31);
    v_lshrrev_b32 |i| u32_(i.b) >> (i.a & 31);
    v_ashrrev_i32 |i| s32(i.b) >> (i.a & 31);
    v_and_b32 |i| u32_(i.a & i.b);
    v_or_b32 |i| u32_(i.a | i.b);
    v_xor_b32 |i| u32_(i.a ^ i.b);
    v_xnor_b32 |i| u32_(!(i.a ^ i.b));
    v_add_nc_u32 |i| u32_(i.a) + u32_(i.b);
    v_sub_nc_u32 |i| u32_(i.a) - u32_(i.b);
    v_subrev_nc_u32 |i| u32_(i.b) - u32_(i.a);
    v_add_nc_i32 |i| s32(i.a) + s32(i.b);
    v_sub_nc_i32 |i| s32(i.a) - s32(i.b);
    v_add_co_u32 |i| { let s = u32_(i.a) + u32_(i.b); (s as u32 as u64, s >> 32 != 0) };
    v_sub_co_u32 |i| { let s = u32_(i.a) - u32_(i.b); (s as u32 as u64, s < 0) };
    v_subrev_co_u32 |i| { let s = u32_(i.b) - u32_(i.a); (s as u32 as u64, s < 0) };
    v_add_co_ci_u32 |i| { let s = u32_(i.a) + u32_(i.b) + i128::from(i.bit); (s as u32 as u64, s >> 32 != 0) };
    v_sub_co_ci_u32 |i| { let s = u32_(i.a) - u32_(i.b) - i128::from(i.bit); (s as u32 as u64, s < 0) };
    v_subrev_co_ci_u32 |i| { let s = u32_(i.b) - u32_(i.a) - i128::from(i.bit); (s as u32 as u64, s < 0) };
    v_mad_i32_i24 |i| s24(i.a) * s24(i.b) + s32(i.c);
    v_mad_u32_u24 |i| u24(i.a) * u24(i.b) + u32_(i.c);
    v_bfe_u32 |i| (i.a as u32 as u64) >> (i.b & 31) & low_bits(i.c as u32 & 31);
    v_bfe_i32 |i| { let n = i.c as u32 & 31; if n == 0 { 0 } else { let f = s32(i.a) >> (i.b & 31) & low_bits(n) as i128; if f >> (n - 1) & 1 == 1 { f - (1 << n) } else { f } } };
    v_bfi_b32 |i| (i.a & i.b | !i.a & i.c) as u32;
    v_lerp_u8 |i| (0..4).fold(0i128, |s, k| s | ((byte(i.a, k) + byte(i.b, k) + (byte(i.c, k) & 1)) / 2) << (8 * k));
    v_alignbit_b32 |i| (u32_(i.a) << 32 | u32_(i.b)) >> (i.c & 31);
    v_alignbyte_b32 |i| (u32_(i.a) << 32 | u32_(i.b)) >> (8 * (i.c & 3));
    v_min3_i32 |i| s32(i.a).min(s32(i.b)).min(s32(i.c));
    v_min3_u32 |i| u32_(i.a).min(u32_(i.b)).min(u32_(i.c));
    v_max3_i32 |i| s32(i.a).max(s32(i.b)).max(s32(i.c));
    v_max3_u32 |i| u32_(i.a).max(u32_(i.b)).max(u32_(i.c));
    v_med3_i32 |i| { let mut v = [s32(i.a), s32(i.b), s32(i.c)]; v.sort(); v[1] };
    v_med3_u32 |i| { let mut v = [u32_(i.a), u32_(i.b), u32_(i.c)]; v.sort(); v[1] };
    v_maxmin_i32 |i| s32(i.a).max(s32(i.b)).min(s32(i.c));
    v_minmax_i32 |i| s32(i.a).min(s32(i.b)).max(s32(i.c));
    v_maxmin_u32 |i| u32_(i.a).max(u32_(i.b)).min(u32_(i.c));
    v_minmax_u32 |i| u32_(i.a).min(u32_(i.b)).max(u32_(i.c));
    v_sad_u8 |i| sad(i.a, i.b, false) + u32_(i.c);
    v_sad_hi_u8 |i| (sad(i.a, i.b, false) << 16) + u32_(i.c);
    v_sad_u16 |i| ((i.a & 0xffff) as i128 - (i.b & 0xffff) as i128).abs() + ((i.a >> 16 & 0xffff) as i128 - (i.b >> 16 & 0xffff) as i128).abs() + u32_(i.c);
    v_sad_u32 |i| (u32_(i.a) - u32_(i.b)).abs() + u32_(i.c);
    v_msad_u8 |i| sad(i.a, i.b, true) + u32_(i.c);
    v_qsad_pk_u16_u8 |i| quad_sad(i, false);
    v_mqsad_pk_u16_u8 |i| quad_sad(i, true);
    v_perm_b32 |i| permuted(i);
    v_xor3_b32 |i| (i.a ^ i.b ^ i.c) as u32;
    v_xad_u32 |i| u32_(i.a ^ i.b) + u32_(i.c);
    v_lshl_add_u32 |i| (u32_(i.a) << (i.b & 31)) + u32_(i.c);
    v_add_lshl_u32 |i| (u32_(i.a) + u32_(i.b)) << (i.c & 31);
    v_add3_u32 |i| u32_(i.a) + u32_(i.b) + u32_(i.c);
    v_lshl_or_b32 |i| u32_(i.a) << (i.b & 31) | u32_(i.c);
    v_and_or_b32 |i| (i.a & i.b | i.c) as u32;
    v_or3_b32 |i| (i.a | i.b | i.c) as u32;
    v_bfm_b32 |i| low_bits(i.a as u32 & 31) << (i.b & 31) & 0xffff_ffff;
    v_bcnt_u32_b32 |i| (0..32).map(|k| i128::from(i.a >> k & 1)).sum::<i128>() + u32_(i.b);
    v_mbcnt_lo_u32_b32 |i| (0..i.lane).map(|k| i128::from(i.a >> k & 1)).sum::<i128>() + u32_(i.b);
    v_mbcnt_hi_u32_b32 |i| u32_(i.b);
    v_mul_lo_u32 |i| u32_(i.a) * u32_(i.b);
    v_mul_hi_u32 |i| (u32_(i.a) * u32_(i.b)) >> 32;
    v_mul_hi_i32 |i| (s32(i.a) * s32(i.b)) >> 32;
    v_mad_u64_u32 |i| { let s = u32_(i.a) * u32_(i.b) + i128::from(i.c); (s as u64, s >> 64 != 0) };
    v_mad_i64_i32 |i| { let s = s32(i.a) * s32(i.b) + i128::from(i.c as i64); (s as u64, s != i128::from(s as i64)) };
    v_lshlrev_b64 |i| i.b << (i.a & 63);
    v_lshrrev_b64 |i| i.b >> (i.a & 63);
    v_ashrrev_i64 |i| i.b as i64 >> (i.a & 63);
    v_cvt_pk_u16_u32 |i| u32_(i.b).min(65535) << 16 | u32_(i.a).min(65535);
    v_cvt_pk_i16_i32 |i| (s32(i.b).clamp(-32768, 32767) as u16 as u32) << 16 | s32(i.a).clamp(-32768, 32767) as u16 as u32;
    v_mad_u16 |i| (i.a as u16).wrapping_mul(i.b as u16).wrapping_add(i.c as u16);
    v_mad_i16 |i| (i.a as u16).wrapping_mul(i.b as u16).wrapping_add(i.c as u16);
    v_mad_u32_u16 |i| (i.a & 0xffff) as i128 * (i.b & 0xffff) as i128 + u32_(i.c);
    v_mad_i32_i16 |i| i128::from(i.a as i16) * i128::from(i.b as i16) + u32_(i.c);
    v_min3_i16 |i| (i.a as i16).min(i.b as i16).min(i.c as i16);
    v_min3_u16 |i| (i.a as u16).min(i.b as u16).min(i.c as u16);
    v_max3_i16 |i| (i.a as i16).max(i.b as i16).max(i.c as i16);
    v_max3_u16 |i| (i.a as u16).max(i.b as u16).max(i.c as u16);
    v_med3_i16 |i| { let mut v = [i.a as i16, i.b as i16, i.c as i16]; v.sort(); v[1] };
    v_med3_u16 |i| { let mut v = [i.a as u16, i.b as u16, i.c as u16]; v.sort(); v[1] };
    v_add_nc_u16 |i| (i.a + i.b) as u16;
    v_sub_nc_u16 |i| i.a.wrapping_sub(i.b) as u16;
    v_add_nc_i16 |i| (i.a + i.b) as u16;
    v_sub_nc_i16 |i| i.a.wrapping_sub(i.b) as u16;
    v_mul_lo_u16 |i| (i.a & 0xffff).wrapping_mul(i.b & 0xffff) as u16;
    v_max_u16 |i| (i.a as u16).max(i.b as u16);
    v_max_i16 |i| (i.a as i16).max(i.b as i16);
    v_min_u16 |i| (i.a as u16).min(i.b as u16);
    v_min_i16 |i| (i.a as i16).min(i.b as i16);
    v_lshlrev_b16 |i| ((i.b & 0xffff) << (i.a & 15)) as u16;
    v_lshrrev_b16 |i| (i.b as u16) >> (i.a & 15);
    v_ashrrev_i16 |i| (i.b as i16) >> (i.a & 15);
    v_and_b16 |i| (i.a & i.b) as u16;
    v_or_b16 |i| (i.a | i.b) as u16;
    v_xor_b16 |i| (i.a ^ i.b) as u16;
    v_pack_b32_f16 |i| ((i.b as u32) << 16) | i.a as u16 as u32;
    v_dot4_u32_u8 |i| dot(i.a, i.b, 8, [false; 2]) + u32_(i.c);
    v_dot8_u32_u4 |i| dot(i.a, i.b, 4, [false; 2]) + u32_(i.c);
}

oracles! { fn floats;
    v_add_f32 |i| i.sum(F32, F32.read(i.a), F32.read(i.b));
    v_sub_f32 |i| i.sum(F32, F32.read(i.a), negated(F32.read(i.b)));
    v_subrev_f32 |i| i.sum(F32, F32.read(i.b), negated(F32.read(i.a)));
    v_mul_f32 |i| i.product(F32, i.a, i.b);
    v_mul_dx9_zero_f32 |i| dx9_product(i);
    v_fma_dx9_zero_f32 |i| if real(F32, i.a) == 0.0 || real(F32, i.b) == 0.0 { i.c } else { i.fma(F32, i.a, i.b, i.c) };
    v_fmac_dx9_zero_f32 |i| if real(F32, i.a) == 0.0 || real(F32, i.b) == 0.0 { i.c } else { i.fma(F32, i.a, i.b, i.c) };
    v_fma_f32 |i| i.fma(F32, i.a, i.b, i.c);
    v_fmac_f32 |i| i.fma(F32, i.a, i.b, i.c);
    v_min_f32 |i| extreme(F32, i.a, i.b, false);
    v_max_f32 |i| extreme(F32, i.a, i.b, true);
    v_min3_f32 |i| extreme(F32, extreme(F32, i.a, i.b, false), i.c, false);
    v_max3_f32 |i| extreme(F32, extreme(F32, i.a, i.b, true), i.c, true);
    v_med3_f32 |i| median(F32, i.a, i.b, i.c);
    v_maxmin_f32 |i| extreme(F32, extreme(F32, i.a, i.b, true), i.c, false);
    v_minmax_f32 |i| extreme(F32, extreme(F32, i.a, i.b, false), i.c, true);
    v_add_f16 |i| i.sum(F16, F16.read(i.a), F16.read(i.b));
    v_sub_f16 |i| i.sum(F16, F16.read(i.a), negated(F16.read(i.b)));
    v_subrev_f16 |i| i.sum(F16, F16.read(i.b), negated(F16.read(i.a)));
    v_mul_f16 |i| i.product(F16, i.a, i.b);
    v_fma_f16 |i| i.fma(F16, i.a, i.b, i.c);
    v_fmac_f16 |i| i.fma(F16, i.a, i.b, i.c);
    v_min_f16 |i| extreme(F16, i.a, i.b, false);
    v_max_f16 |i| extreme(F16, i.a, i.b, true);
    v_min3_f16 |i| extreme(F16, extreme(F16, i.a, i.b, false), i.c, false);
    v_max3_f16 |i| extreme(F16, extreme(F16, i.a, i.b, true), i.c, true);
    v_med3_f16 |i| median(F16, i.a, i.b, i.c);
    v_maxmin_f16 |i| extreme(F16, extreme(F16, i.a, i.b, true), i.c, false);
    v_minmax_f16 |i| extreme(F16, extreme(F16, i.a, i.b, false), i.c, true);
    v_ldexp_f16 |i| scaled(i, F16, i.a, (i.b as i16).into());
    v_ldexp_f32 |i| scaled(i, F32, i.a, i.b as i32);
    v_ldexp_f64 |i| scaled(i, F64, i.a, i.b as i32);
    v_add_f64 |i| i.sum(F64, F64.read(i.a), F64.read(i.b));
    v_mul_f64 |i| i.product(F64, i.a, i.b);
    v_fma_f64 |i| i.fma(F64, i.a, i.b, i.c);
    v_min_f64 |i| extreme(F64, i.a, i.b, false);
    v_max_f64 |i| extreme(F64, i.a, i.b, true);
    v_div_fixup_f16 |i| divided(F16, i);
    v_div_fixup_f32 |i| divided(F32, i);
    v_div_fixup_f64 |i| divided(F64, i);
    v_cubeid_f32 |i| cube(i)[0].to_bits();
    v_cubesc_f32 |i| cube(i)[1].to_bits();
    v_cubetc_f32 |i| cube(i)[2].to_bits();
    v_cubema_f32 |i| cube(i)[3].to_bits();
    v_mullit_f32 |i| {
        let (b, c) = (real(F32, i.b), real(F32, i.c));
        let lowest = f64::from(-f32::MAX);
        if b.is_nan() || b <= lowest || c.is_nan() || c <= 0.0 { u64::from((-f32::MAX).to_bits()) } else { i.product(F32, i.a, i.b) }
    };
    v_trunc_f16 |i| rounded(F16, i.a, f64::trunc);
    v_ceil_f16 |i| rounded(F16, i.a, f64::ceil);
    v_floor_f16 |i| rounded(F16, i.a, f64::floor);
    v_rndne_f16 |i| rounded(F16, i.a, f64::round_ties_even);
    v_fract_f16 |i| fraction(F16, i.a);
    v_trunc_f32 |i| rounded(F32, i.a, f64::trunc);
    v_ceil_f32 |i| rounded(F32, i.a, f64::ceil);
    v_floor_f32 |i| rounded(F32, i.a, f64::floor);
    v_rndne_f32 |i| rounded(F32, i.a, f64::round_ties_even);
    v_fract_f32 |i| fraction(F32, i.a);
    v_trunc_f64 |i| rounded(F64, i.a, f64::trunc);
    v_ceil_f64 |i| rounded(F64, i.a, f64::ceil);
    v_floor_f64 |i| rounded(F64, i.a, f64::floor);
    v_rndne_f64 |i| rounded(F64, i.a, f64::round_ties_even);
    v_frexp_exp_i16_f16 |i| exponent_of(F16, i.a) as i16;
    v_frexp_exp_i32_f32 |i| exponent_of(F32, i.a);
    v_frexp_exp_i32_f64 |i| exponent_of(F64, i.a);
    v_frexp_mant_f16 |i| mantissa_of(F16, i.a);
    v_frexp_mant_f32 |i| mantissa_of(F32, i.a);
    v_frexp_mant_f64 |i| mantissa_of(F64, i.a);
    v_cmp_class_f16 |i| in_class(F16, i.a, i.b);
    v_cmp_class_f32 |i| in_class(F32, i.a, i.b);
    v_cmp_class_f64 |i| in_class(F64, i.a, i.b);
}

oracles! { fn conversions;
    v_cvt_f32_i32 |i| i.int(F32, s32(i.a));
    v_cvt_f32_u32 |i| i.int(F32, u32_(i.a));
    v_cvt_f64_i32 |i| i.int(F64, s32(i.a));
    v_cvt_f64_u32 |i| i.int(F64, u32_(i.a));
    v_cvt_f16_u16 |i| i.int(F16, (i.a & 0xffff).into());
    v_cvt_f16_i16 |i| i.int(F16, (i.a as i16).into());
    v_cvt_f32_ubyte0 |i| i.int(F32, byte(i.a, 0));
    v_cvt_f32_ubyte1 |i| i.int(F32, byte(i.a, 1));
    v_cvt_f32_ubyte2 |i| i.int(F32, byte(i.a, 2));
    v_cvt_f32_ubyte3 |i| i.int(F32, byte(i.a, 3));
    v_cvt_off_f32_i4 |i| F32.write(Number::Finite { negative: i.a >> 3 & 1 == 1, mantissa: if i.a >> 3 & 1 == 1 { 16 - (i.a & 15) as u128 } else { (i.a & 15).into() }, exponent: -4, sticky: false }, Round::Nearest);
    v_cvt_u32_f32 |i| to_int(real(F32, i.a), 0, u32::MAX.into());
    v_cvt_i32_f32 |i| to_int(real(F32, i.a), i32::MIN.into(), i32::MAX.into());
    v_cvt_u32_f64 |i| to_int(f64::from_bits(i.a), 0, u32::MAX.into());
    v_cvt_i32_f64 |i| to_int(f64::from_bits(i.a), i32::MIN.into(), i32::MAX.into());
    v_cvt_u16_f16 |i| to_int(real(F16, i.a), 0, 65535) as u16;
    v_cvt_i16_f16 |i| to_int(real(F16, i.a), -32768, 32767) as i16;
    v_cvt_nearest_i32_f32 |i| to_int((real(F32, i.a) + 0.5).floor(), i32::MIN.into(), i32::MAX.into());
    v_cvt_floor_i32_f32 |i| to_int(real(F32, i.a).floor(), i32::MIN.into(), i32::MAX.into());
    v_cvt_f16_f32 |i| i.convert(F32, F16, i.a);
    v_cvt_f32_f16 |i| i.convert(F16, F32, i.a);
    v_cvt_f32_f64 |i| i.convert(F64, F32, i.a);
    v_cvt_f64_f32 |i| i.convert(F32, F64, i.a);
    v_cvt_pk_rtz_f16_f32 |i| F16.write(F32.read(i.b), Round::Zero) << 16 | F16.write(F32.read(i.a), Round::Zero);
    v_cvt_pk_i16_f32 |i| (to_int(real(F32, i.b), -32768, 32767) as u16 as u32) << 16 | to_int(real(F32, i.a), -32768, 32767) as u16 as u32;
    v_cvt_pk_u16_f32 |i| (to_int(real(F32, i.b), 0, 65535) as u32) << 16 | to_int(real(F32, i.a), 0, 65535) as u32;
    v_cvt_pk_u8_f32 |i| { let shift = 8 * (i.b & 3); (i.c & 0xffff_ffff & !(255 << shift)) | (to_int(real(F32, i.a).round_ties_even(), 0, 255) as u64) << shift };
    v_cvt_norm_i16_f16 |i| normalized(real(F16, i.a), true) as u16;
    v_cvt_norm_u16_f16 |i| normalized(real(F16, i.a), false) as u16;
    v_cvt_pk_norm_i16_f16 |i| normalized(real(F16, i.b), true) << 16 | normalized(real(F16, i.a), true);
    v_cvt_pk_norm_u16_f16 |i| normalized(real(F16, i.b), false) << 16 | normalized(real(F16, i.a), false);
    v_cvt_pk_norm_i16_f32 |i| normalized(real(F32, i.b), true) << 16 | normalized(real(F32, i.a), true);
    v_cvt_pk_norm_u16_f32 |i| normalized(real(F32, i.b), false) << 16 | normalized(real(F32, i.a), false);
}

/// [-1, 1] or [0, 1] to 16 bits: the product is an f32, as f32 is what the guide computes with.
fn normalized(x: f64, signed: bool) -> u32 {
    let (low, factor) = if signed { (-1.0, 32767.0f32) } else { (0.0, 65535.0) };
    let scaled = if x.is_nan() { 0.0 } else { x.clamp(low, 1.0) as f32 * factor };
    scaled.round_ties_even() as i32 as u32 & 0xffff
}

/// The comparisons `v_cmp_CONDITION_TYPE`.
fn comparison(name: &str) -> Option<Oracle> {
    fn of<const C: usize, const T: usize>(i: &In) -> Out {
        use std::cmp::Ordering::{Equal, Greater, Less};
        let order = match T {
            0 => compare(F16, i.a & 0xffff, i.b & 0xffff),
            1 => compare(F32, i.a & 0xffff_ffff, i.b & 0xffff_ffff),
            2 => compare(F64, i.a, i.b),
            3 => Some((i.a as i16).cmp(&(i.b as i16))),
            4 => Some((i.a as u16).cmp(&(i.b as u16))),
            5 => Some((i.a as i32).cmp(&(i.b as i32))),
            6 => Some((i.a as u32).cmp(&(i.b as u32))),
            7 => Some((i.a as i64).cmp(&(i.b as i64))),
            _ => Some(i.a.cmp(&i.b)),
        };
        let (less, equal, greater, unordered) = (order == Some(Less), order == Some(Equal), order == Some(Greater), order.is_none());
        let holds = match C {
            0 => false,
            1 => less,
            2 => equal,
            3 => less || equal,
            4 => greater,
            5 => less || greater,
            6 => greater || equal,
            7 => !unordered,
            8 => unordered,
            9 => !(greater || equal),
            10 => !(less || greater),
            11 => !greater,
            12 => !(less || equal),
            13 => !equal,
            14 => !less,
            _ => true,
        };
        (holds.into(), holds)
    }
    macro_rules! each {
        ($t:literal: $($c:literal)*) => { [$(of::<$c, $t> as Oracle),*] };
    }
    macro_rules! types {
        ($($t:literal)*) => { [$(each!($t: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)),*] };
    }
    const CONDITIONS: [&str; 16] = ["f", "lt", "eq", "le", "gt", "lg", "ge", "o", "u", "nge", "nlg", "ngt", "nle", "neq", "nlt", "t"];
    const TYPES: [&str; 9] = ["f16", "f32", "f64", "i16", "u16", "i32", "u32", "i64", "u64"];
    let (condition, ty) = name.strip_prefix("v_cmp_").or_else(|| name.strip_prefix("v_cmpx_"))?.rsplit_once('_')?;
    let condition = if condition == "ne" { "lg" } else { condition };
    let c = CONDITIONS.iter().position(|&n| n == condition)?;
    let t = TYPES.iter().position(|&n| n == ty)?;
    Some(types!(0 1 2 3 4 5 6 7 8)[t][c])
}

/// The oracle of an operation, if it has one here.
pub(crate) fn oracle(name: &str) -> Option<Oracle> {
    let class = name.strip_prefix("v_cmpx_class").map(|rest| format!("v_cmp_class{rest}"));
    let wanted = class.as_deref().unwrap_or(name);
    let found = integers().into_iter().chain(floats()).chain(conversions()).find(|(n, _)| *n == wanted);
    found.map(|(_, oracle)| oracle).or_else(|| comparison(name))
}

/// The format of a float type's name in operation names.
pub(crate) fn format(ty: rdna::isa::Ty) -> Option<Format> {
    use rdna::isa::Ty;
    match ty {
        Ty::F16 => Some(F16),
        Ty::Bf16 => Some(BF16),
        Ty::F32 => Some(F32),
        Ty::F64 => Some(F64),
        _ => None,
    }
}
