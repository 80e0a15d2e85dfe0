//! Floating-point arithmetic that hosts lack: f16 and bf16, rounding modes, round to odd, and the GPU's own functions.
//!
//! Where the host's operation rounds as wanted it is used. Other roundings come from an exact or odd-rounded wider result:
//! rounding to odd in a format with at least two more bits, then to the wanted format in any mode, rounds once
//! (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).

/// A rounding mode, numbered as in MODE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Round {
    #[default]
    NearestEven,
    Up,
    Down,
    Zero,
}

impl Round {
    pub(crate) fn from_bits(bits: u32) -> Self {
        [Self::NearestEven, Self::Up, Self::Down, Self::Zero][bits as usize & 3]
    }
}

/// f16 bits to f32, exact. Branchless, so that loops over lanes vectorise.
#[inline(always)]
pub(crate) fn from_f16(h: u32) -> f32 {
    let magnitude = h & 0x7fff;
    let scaled = f32::from_bits(magnitude << 13) * f32::from_bits((254 - 15) << 23);
    let special = if magnitude >= 0x7c00 { 0x7f80_0000 } else { 0 };
    f32::from_bits(scaled.to_bits() | special | (h & 0x8000) << 16)
}

/// f32 to f16 bits, to nearest even. A NaN stays one (quiet).
#[inline(always)]
pub(crate) fn to_f16(x: f32) -> u32 {
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let normal = magnitude.wrapping_add(0xc800_0fff).wrapping_add(magnitude >> 13 & 1) >> 13;
    // Below 2^-14 the sum with 0.5 has the f16 subnormal in its low bits.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    let special = if magnitude > 0x7f80_0000 { 0x7e00 | magnitude >> 13 & 0x1ff } else { 0x7c00 };
    let value = if magnitude < 0x3880_0000 { subnormal } else { normal };
    (if magnitude >= 0x4780_0000 { special } else { value }) | bits >> 16 & 0x8000
}

/// bf16 bits to f32, exact.
#[inline(always)]
pub(crate) fn from_bf16(b: u32) -> f32 {
    f32::from_bits(b << 16)
}

/// f32 to bf16 bits, to nearest even.
#[inline(always)]
pub(crate) fn to_bf16(x: f32) -> u32 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    if x.is_nan() { bits >> 16 | 0x40 } else { rounded }
}

/// f64 to f32, rounded to odd.
#[inline(always)]
pub(crate) fn odd_f32(x: f64) -> f32 {
    let near = x as f32;
    let bits = near.to_bits();
    let toward_zero = if f64::from(near).abs() > x.abs() { bits.wrapping_sub(1) } else { bits };
    if f64::from(near) == x || x.is_nan() { near } else { f32::from_bits(toward_zero | 1) }
}

/// The sum and what rounding it left out (Knuth's TwoSum).
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let s = a + b;
    let bb = s - a;
    (s, (a - (s - bb)) + (b - bb))
}

/// `s + error` rounded to odd, where `s` is its nearest f64.
fn odd_f64(s: f64, error: f64) -> f64 {
    if !s.is_finite() || error == 0.0 || error.is_nan() {
        return s;
    }
    let toward_zero = if (error > 0.0) == (s > 0.0) { s.to_bits() } else { s.to_bits() - 1 };
    f64::from_bits(toward_zero | 1)
}

/// `near`, which is `exact` rounded to nearest, corrected by `order` (exact compared to near) for another mode.
macro_rules! directed {
    ($near:expr, $order:expr, $round:expr) => {{
        let near = $near;
        match ($round, $order) {
            (Round::Up, Some(std::cmp::Ordering::Greater)) => near.next_up(),
            (Round::Down, Some(std::cmp::Ordering::Less)) => near.next_down(),
            (Round::Zero, Some(std::cmp::Ordering::Less)) if near > 0.0 => near.next_down(),
            (Round::Zero, Some(std::cmp::Ordering::Greater)) if near < 0.0 => near.next_up(),
            _ => near,
        }
    }};
}

/// A number of the sign of `a * b + c - near`, where `near` is the sum rounded to nearest. Scaled so that no product underflows.
fn missing_of_sum(a: f64, b: f64, c: f64, near: f64) -> f64 {
    const TINY: f64 = f64::from_bits((1023 - 900) << 52);
    let up = |x: f64, n: i32| ldexp64(x, n);
    let product = a * b;
    if !(a.is_finite() && b.is_finite() && c.is_finite()) || a == 0.0 || b == 0.0 {
        return 0.0;
    }
    if near.is_infinite() {
        return -near;
    }
    let (a, b, c, near) = if product.abs() > 1.0 / TINY {
        // Only the sign of a small addend matters.
        (up(a, -600), b, if up(c, -600) == 0.0 { c } else { up(c, -600) }, up(near, -600))
    } else if product.abs() >= TINY {
        (a, b, c, near)
    } else if c.abs() > 1e-90 {
        return if (a > 0.0) == (b > 0.0) { 1.0 } else { -1.0 };
    } else {
        (up(a, 600), up(b, 600), up(c, 1200), up(near, 1200))
    };
    let product = a * b;
    let low = a.mul_add(b, -product);
    let (high, middle) = two_sum(product, c);
    ((high - near) + middle) + low
}

/// The exact zero of a sum of opposite terms: negative when rounding down.
fn zero_sum(s: f64, a: f64, b: f64, round: Round) -> f64 {
    if s == 0.0 && a.is_sign_negative() != b.is_sign_negative() && round == Round::Down { -0.0 } else { s }
}

/// Arithmetic of f32, f16 (held as f32) and f64 in a rounding mode.
impl Round {
    /// An f64 (exact, or rounded to odd) to f32.
    pub(crate) fn to_f32(self, x: f64) -> f32 {
        let near = x as f32;
        directed!(near, x.partial_cmp(&f64::from(near)), self)
    }

    /// An f64 (exact, or rounded to odd) to f16 bits.
    pub(crate) fn to_f16(self, x: f64) -> u32 {
        let near = to_f16(odd_f32(x));
        let order = x.partial_cmp(&f64::from(from_f16(near)));
        let (up, down) = (order == Some(std::cmp::Ordering::Greater), order == Some(std::cmp::Ordering::Less));
        let negative = near & 0x8000 != 0;
        // Neighbours in f16 are neighbours in magnitude; a zero of either sign steps to the smallest value of the wanted sign.
        let away = match self {
            Self::Up => up && !negative,
            Self::Down => down && negative,
            _ => false,
        };
        let toward = match self {
            Self::Up => up && negative,
            Self::Down => down && !negative,
            Self::Zero => (up && negative) || (down && !negative),
            Self::NearestEven => false,
        };
        match (away, toward) {
            (true, _) => near + 1,
            (_, true) if near & 0x7fff != 0 => near - 1,
            _ => near,
        }
    }

    /// The sum of two f64, rounded to odd.
    pub(crate) fn sum(self, a: f64, b: f64) -> f64 {
        let (s, error) = two_sum(a, b);
        zero_sum(odd_f64(s, error), a, b, self)
    }

    pub(crate) fn add32(self, a: f32, b: f32) -> f32 {
        self.to_f32(self.sum(a.into(), b.into()))
    }

    pub(crate) fn mul32(self, a: f32, b: f32) -> f32 {
        self.to_f32(f64::from(a) * f64::from(b))
    }

    pub(crate) fn fma32(self, a: f32, b: f32, c: f32) -> f32 {
        self.to_f32(self.sum(f64::from(a) * f64::from(b), c.into()))
    }

    pub(crate) fn add64(self, a: f64, b: f64) -> f64 {
        // The larger first: then no step overflows unless the sum does (Dekker's FastTwoSum).
        let (a, b) = if a.abs() >= b.abs() { (a, b) } else { (b, a) };
        let s = a + b;
        let error = b - (s - a);
        let missing = if s.is_infinite() && a.is_finite() && b.is_finite() { -s } else { error };
        self.corrected(zero_sum(s, a, b, self), missing)
    }

    pub(crate) fn mul64(self, a: f64, b: f64) -> f64 {
        self.corrected(a * b, missing_of_sum(a, b, 0.0, a * b))
    }

    pub(crate) fn fma64(self, a: f64, b: f64, c: f64) -> f64 {
        let near = a.mul_add(b, c);
        let missing = missing_of_sum(a, b, c, near);
        // A product that underflows to zero is none, and a sum that is rounded to zero is no sum of opposites.
        let exact = missing == 0.0 && (a * b != 0.0 || a == 0.0 || b == 0.0);
        let near = if exact { zero_sum(near, a * b, c, self) } else { near };
        self.corrected(near, missing)
    }

    /// x * 2^n.
    pub(crate) fn scale64(self, x: f64, n: i32) -> f64 {
        let near = ldexp64(x, n);
        self.corrected(near, x - ldexp64(near, -n.clamp(-2200, 2200)))
    }

    /// (a * b + c) * 2^n, rounded once.
    pub(crate) fn fma_scaled64(self, a: f64, b: f64, c: f64, n: i32) -> f64 {
        let fused = a.mul_add(b, c);
        let missing = missing_of_sum(a, b, c, fused);
        let result = ldexp64(fused, n);
        let lost = fused - ldexp64(result, -n);
        if self != Self::NearestEven {
            return self.corrected(result, if lost == 0.0 { missing } else { lost });
        }
        // Where scaling was a tie, what the sum had lost decides.
        let neighbour = if lost > 0.0 { result.next_up() } else { result.next_down() };
        let tie = lost != 0.0 && ldexp64(neighbour, -n) - fused == lost;
        if tie && (missing > 0.0 && lost > 0.0 || missing < 0.0 && lost < 0.0) { neighbour } else { result }
    }

    /// `near` moved to its neighbour if the mode wants that, given the sign of what is missing.
    fn corrected(self, near: f64, missing: f64) -> f64 {
        directed!(near, missing.partial_cmp(&0.0), self)
    }
}

macro_rules! min_max {
    ($min:ident, $max:ident, $t:ty) => {
        /// The smaller, with -0 below +0 (ISA guide, `V_MIN_*`). In IEEE mode a signalling NaN gives a quiet one; else the number wins.
        #[inline(always)]
        pub(crate) fn $min(a: $t, b: $t, ieee: bool) -> $t {
            let least = if a < b || (a == b && a.is_sign_negative()) { a } else { b };
            number(a, b, least, ieee)
        }

        /// The greater, with -0 below +0.
        #[inline(always)]
        pub(crate) fn $max(a: $t, b: $t, ieee: bool) -> $t {
            let greatest = if a > b || (a == b && a.is_sign_positive()) { a } else { b };
            number(a, b, greatest, ieee)
        }
    };
}

/// What IEEE's minNum and maxNum do with NaN.
#[inline(always)]
fn number<T: Nan>(a: T, b: T, result: T, ieee: bool) -> T {
    let result = if b.is_nan() { a } else { result };
    let result = if a.is_nan() && !b.is_nan() { b } else { result };
    let result = if ieee && b.signals() { b.quiet() } else { result };
    if ieee && a.signals() { a.quiet() } else { result }
}

/// What differs between formats about NaN.
pub(crate) trait Nan: Copy {
    fn is_nan(self) -> bool;
    /// Whether it is a signalling NaN.
    fn signals(self) -> bool;
    fn quiet(self) -> Self;
}

macro_rules! nan {
    ($t:ty, $quiet:expr) => {
        impl Nan for $t {
            #[inline(always)]
            fn is_nan(self) -> bool {
                self != self
            }
            #[inline(always)]
            fn signals(self) -> bool {
                self != self && self.to_bits() & $quiet == 0
            }
            #[inline(always)]
            fn quiet(self) -> Self {
                Self::from_bits(self.to_bits() | $quiet)
            }
        }
    };
}

nan!(f32, 0x40_0000);
nan!(f64, 0x8_0000_0000_0000);
min_max!(min32, max32, f32);
min_max!(min64, max64, f64);

/// The middle of three (ISA guide, `V_MED3_F32`).
#[inline(always)]
pub(crate) fn med3(a: f32, b: f32, c: f32, ieee: bool) -> f32 {
    let greatest = max32(max32(a, b, ieee), c, ieee);
    let rest = if greatest == a {
        max32(b, c, ieee)
    } else if greatest == b {
        max32(a, c, ieee)
    } else {
        max32(a, b, ieee)
    };
    if a.is_nan() || b.is_nan() || c.is_nan() { min32(min32(a, b, ieee), c, ieee) } else { rest }
}

/// A subnormal becomes a zero of its sign.
#[inline(always)]
pub(crate) fn flush32(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE { f32::from_bits(x.to_bits() & 0x8000_0000) } else { x }
}

/// 2^x, correct to f32 (Taylor series of 2^f, |f| <= 1/2, in f64).
#[inline(always)]
pub(crate) fn exp2(x: f32) -> f32 {
    let clamped = f64::from(x.clamp(-200.0, 200.0));
    let n = clamped.round_ties_even();
    let t = (clamped - n) * std::f64::consts::LN_2;
    let mut sum = 1.0f64;
    let mut k = 13.0;
    while k >= 1.0 {
        sum = 1.0 + sum * (t / k);
        k -= 1.0;
    }
    let scale = f64::from_bits(((n as i64 + 1023) << 52) as u64);
    if x.is_nan() { x } else { (sum * scale) as f32 }
}

/// log2(x), correct to f32 (series of artanh in f64).
#[inline(always)]
pub(crate) fn log2(x: f32) -> f32 {
    let wide = f64::from(x);
    let bits = wide.to_bits();
    // Mantissa within [sqrt(1/2), sqrt(2)).
    let shifted = bits.wrapping_sub(0x3fe6_a09e_667f_3bcd);
    let exponent = (shifted as i64) >> 52;
    let mantissa = f64::from_bits(bits.wrapping_sub((exponent << 52) as u64));
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let mut sum = 0.0f64;
    let mut k = 21.0;
    while k >= 1.0 {
        sum = sum * square + 1.0 / k;
        k -= 2.0;
    }
    let value = (exponent as f64 + sum * s * (2.0 / std::f64::consts::LN_2)) as f32;
    let value = if x == f32::INFINITY { x } else { value };
    let value = if x < 0.0 { f32::NAN } else { value };
    let value = if x == 0.0 { f32::NEG_INFINITY } else { value };
    if x.is_nan() { x } else { value }
}

/// sin(2 pi x): the argument counts turns. Outside of 256 turns the hardware gives 0 for sine and 1 for cosine.
pub(crate) fn sin_turns(x: f32) -> f32 {
    if x.abs() > 256.0 && x.is_finite() {
        return 0.0;
    }
    let wide = f64::from(x);
    let angle = (wide - wide.round()) * std::f64::consts::TAU;
    angle.sin() as f32
}

/// cos(2 pi x).
pub(crate) fn cos_turns(x: f32) -> f32 {
    if x.abs() > 256.0 && x.is_finite() {
        return 1.0;
    }
    let wide = f64::from(x);
    let angle = (wide - wide.round()) * std::f64::consts::TAU;
    angle.cos() as f32
}

/// x * 2^n with one rounding.
#[inline(always)]
pub(crate) fn ldexp64(x: f64, n: i32) -> f64 {
    // Three factors reach every result; the product of the first two is exact or far out of range.
    let n = n.clamp(-2200, 2200);
    let power = |n: i32| f64::from_bits(((n + 1023) as u64) << 52);
    let (first, second) = (n / 3, n - n / 3 * 2);
    if x.abs() > 1.0 || n > 0 {
        x * power(first) * power(first) * power(second)
    } else {
        // Going down: steps that keep full precision come first, the one that may round last.
        let mut value = x;
        let mut left = n;
        while left < -1000 && value.abs() >= 1e-300 {
            value *= power(-500);
            left += 500;
        }
        if left < -1022 { value * power(-1022) * power((left + 1022).max(-1022)) } else { value * power(left) }
    }
}

/// The exponent and the mantissa in [1/2, 1) of a finite non-zero number.
pub(crate) fn frexp(x: f64) -> (f64, i32) {
    if x == 0.0 || !x.is_finite() {
        return (x, 0);
    }
    let (x, bias) = if x.abs() < f64::MIN_POSITIVE { (x * 2f64.powi(54), -54) } else { (x, 0) };
    let bits = x.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32 - 1022;
    (f64::from_bits(bits & !(0x7ff << 52) | 1022 << 52), exponent + bias)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every f16, there and back.
    #[test]
    fn f16_round_trips() {
        for h in 0..0x1_0000u32 {
            let x = from_f16(h);
            if x.is_nan() {
                assert_eq!(to_f16(x) & 0x7e00, 0x7e00, "{h:#x}");
            } else {
                assert_eq!(to_f16(x), h, "{h:#x}");
                assert_eq!(Round::Up.to_f16(x.into()), h, "{h:#x}");
            }
        }
    }

    /// Between two neighbours each mode takes the one that IEEE 754 names.
    #[test]
    fn f16_rounds_as_each_mode_says() {
        for h in (0..0x7bffu32).step_by(7) {
            let (low, high) = (f64::from(from_f16(h)), f64::from(from_f16(h + 1)));
            let step = high - low;
            for (at, nearest) in [(0.25, h), (0.5, h + (h & 1)), (0.75, h + 1)] {
                let x = low + at * step;
                assert_eq!(Round::NearestEven.to_f16(x), nearest, "{x}");
                assert_eq!((Round::Up.to_f16(x), Round::Up.to_f16(-x)), (h + 1, h | 0x8000), "{x}");
                assert_eq!((Round::Down.to_f16(x), Round::Down.to_f16(-x)), (h, (h + 1) | 0x8000), "{x}");
                assert_eq!((Round::Zero.to_f16(x), Round::Zero.to_f16(-x)), (h, h | 0x8000), "{x}");
            }
        }
        assert_eq!(Round::Zero.to_f16(1e9), 0x7bff);
        assert_eq!(Round::Up.to_f16(1e9), 0x7c00);
    }

    #[test]
    fn sums_are_rounded_once_in_each_mode() {
        // 1 + 2^-60 and 1 - 2^-60 are not representable.
        let tiny = 2f32.powi(-60);
        assert_eq!(Round::Up.add32(1.0, tiny), 1.0f32.next_up());
        assert_eq!(Round::Zero.add32(1.0, tiny), 1.0);
        assert_eq!(Round::Down.add32(1.0, -tiny), 1.0f32.next_down());
        assert_eq!(Round::Down.add32(1.0, -1.0).to_bits(), (-0.0f32).to_bits());
        assert_eq!(Round::Up.add64(1.0, 2f64.powi(-80)), 1.0f64.next_up());
        // (1 + e)^2 = 1 + 2e + e^2
        let e = f32::EPSILON;
        assert_eq!(Round::Up.mul32(1.0 + e, 1.0 + e), 1.0 + 3.0 * e);
        assert_eq!(Round::Zero.mul32(1.0 + e, 1.0 + e), 1.0 + 2.0 * e);
        assert_eq!(Round::Down.fma32(1.0 + e, 1.0 + e, tiny), 1.0 + 2.0 * e);
        assert_eq!(Round::Up.fma64(1.0, 1.0, f64::MIN_POSITIVE), 1.0f64.next_up());
    }

    #[test]
    fn sums_at_the_ends_of_f64() {
        let (big, small) = (f64::from_bits(0x7fef_ffff_ffff_ffff), f64::from_bits(0xffca_f1ce_0b0a_ef06));
        assert_eq!(Round::Down.add64(small, big).to_bits(), 0x7fe9_438c_7d3d_443d);
        assert_eq!(Round::Up.add64(big, small).to_bits(), 0x7fe9_438c_7d3d_443e);
        // Half the smallest number is rounded to zero, yet it is positive.
        let half = Round::Down.fma64(f64::from_bits(1), -0.5, f64::from_bits(1));
        assert_eq!(half.to_bits(), 0);
        assert_eq!(Round::Down.fma64(f64::from_bits(1), -1.0, f64::from_bits(1)).to_bits(), 1 << 63);
    }

    #[test]
    fn scaling_reaches_subnormals_with_one_rounding() {
        assert_eq!(ldexp64(1.5, -1074), f64::from_bits(2));
        assert_eq!(ldexp64(1.0, -1075), 0.0);
        assert_eq!(ldexp64(f64::MAX, -2098), f64::from_bits(1));
        assert_eq!(ldexp64(f64::MAX, -2097), f64::from_bits(2));
        assert_eq!(ldexp64(1.0 + f64::EPSILON, -1075), f64::from_bits(1));
        assert_eq!(ldexp64(f64::from_bits(1), 2097), 2f64.powi(1023));
        assert_eq!(ldexp64(1.0, 1024), f64::INFINITY);
        assert_eq!(ldexp64(3.0, 10), 3072.0);
    }

    #[test]
    fn functions_are_within_half_an_ulp_of_f64() {
        for i in 0..40_000u32 {
            let x = f32::from_bits(0x3000_0000 + i * 9973);
            let near = |got: f32, want: f64| (f64::from(got) - want).abs() <= f64::from(got.abs().next_up() - got.abs()) * 0.501;
            if x < 100.0 {
                assert!(near(exp2(x), f64::from(x).exp2()), "exp2({x})");
                assert!(near(exp2(-x), f64::from(-x).exp2()), "exp2(-{x})");
            }
            assert!(near(log2(x), f64::from(x).log2()), "log2({x}) = {}", log2(x));
        }
        assert_eq!((log2(0.0), log2(f32::INFINITY), log2(1.0)), (f32::NEG_INFINITY, f32::INFINITY, 0.0));
        assert_eq!((exp2(f32::NEG_INFINITY), exp2(f32::INFINITY), exp2(0.0)), (0.0, f32::INFINITY, 1.0));
    }
}
