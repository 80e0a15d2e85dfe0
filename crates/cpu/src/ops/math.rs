//! Vectors of elementary functions, accurate to about one unit in the last place.

use super::simd::{Kernel, LANES, Simd, dispatch};
use crate::isa::Isa;
use onebit_plan::{Function, Gating};

/// `e^x`: zero below -87.33, and bounded (2.4e38) from 88.37 on. `exp(0)` is exactly one.
///
/// `x = n ln 2 + r` with `|r| <= ln 2 / 2` (Cody and Waite), and the Taylor polynomial of degree 7 on `r`, whose
/// remainder is below 6e-9.
#[inline(always)]
pub(crate) fn exp<S: Simd>(s: S, x: S::V) -> S::V {
    const LOWEST: f32 = -87.33;
    let clamped = s.min(s.splat(88.37), s.max(s.splat(LOWEST), x));
    let n = s.round(s.mul(clamped, s.splat(std::f32::consts::LOG2_E)));
    let r = s.mul_add(n, s.splat(-0.693_359_4), clamped);
    let r = s.mul_add(n, s.splat(2.121_944_4e-4), r);
    let mut p = s.splat(1.0 / 5040.0);
    for c in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        p = s.mul_add(p, r, s.splat(c));
    }
    s.where_less(x, s.splat(LOWEST), s.splat(0.0), s.mul(p, s.exp2i(n)))
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub(crate) fn sigmoid<S: Simd>(s: S, x: S::V) -> S::V {
    let one = s.splat(1.0);
    s.div(one, s.add(one, exp(s, s.sub(s.splat(0.0), x))))
}

/// Hyperbolic tangent: a Taylor polynomial near zero, where `1 - 2 / (e^2x + 1)` would cancel.
#[inline(always)]
pub(crate) fn tanh<S: Simd>(s: S, x: S::V) -> S::V {
    let one = s.splat(1.0);
    let square = s.mul(x, x);
    let far = s.sub(one, s.div(s.splat(2.0), s.add(exp(s, s.add(x, x)), one)));
    let mut p = s.splat(-1382.0 / 155_925.0);
    for c in [62.0 / 2835.0, -17.0 / 315.0, 2.0 / 15.0, -1.0 / 3.0] {
        p = s.mul_add(p, square, s.splat(c));
    }
    let near = s.mul_add(s.mul(p, square), x, x);
    s.where_less(square, s.splat(0.09), near, far)
}

/// The functions that have a vector form.
#[inline(always)]
fn vector<S: Simd>(s: S, f: Function, x: S::V) -> S::V {
    let zero = s.splat(0.0);
    match f {
        Function::Silu => s.mul(x, sigmoid(s, x)),
        Function::Sigmoid => sigmoid(s, x),
        Function::Tanh => tanh(s, x),
        Function::Exp => exp(s, x),
        Function::GeluTanh => {
            // 0.5 x (1 + tanh u) = x sigmoid(2 u).
            let u = s.mul(s.mul_add(s.mul(s.mul(x, x), x), s.splat(0.044715), x), s.splat(1.595_769_2));
            s.mul(x, sigmoid(s, u))
        }
        Function::QuickGelu => s.mul(x, sigmoid(s, s.mul(x, s.splat(1.702)))),
        Function::Relu => s.max(zero, x),
        Function::ReluSquared => {
            let y = s.max(zero, x);
            s.mul(y, y)
        }
        // Handled number by number.
        Function::Gelu | Function::Softplus | Function::SignedSqrt => x,
    }
}

/// Whether [`vector`] knows the function.
fn is_vector(f: Function) -> bool {
    !matches!(f, Function::Gelu | Function::Softplus | Function::SignedSqrt)
}

/// `out[i] = f(x[i])`.
pub(crate) fn apply(isa: Isa, f: Function, x: &[f32], out: &mut [f32]) {
    if !is_vector(f) {
        out.iter_mut().zip(x).for_each(|(o, x)| *o = f.apply(*x));
        return;
    }
    dispatch(isa, Apply { f, x, times: None, out });
}

/// `out[i] = f(gate[i]) * up[i]`.
pub(crate) fn apply_times(isa: Isa, f: Function, gate: &[f32], up: &[f32], out: &mut [f32]) {
    if !is_vector(f) {
        out.iter_mut().zip(gate.iter().zip(up)).for_each(|(o, (g, u))| *o = f.apply(*g) * u);
        return;
    }
    dispatch(isa, Apply { f, x: gate, times: Some(up), out });
}

/// `out[i] = gating(gate[i], up[i])`; bounds are applied to `gate` and `up` themselves.
pub(crate) fn gate(isa: Isa, gating: Gating, gate: &mut [f32], up: &mut [f32], out: &mut [f32]) {
    if let Some(limit) = gating.limit {
        gate.iter_mut().for_each(|g| *g = g.min(limit));
        up.iter_mut().for_each(|u| *u = u.clamp(-limit, limit));
    }
    if gating.offset != 0.0 {
        up.iter_mut().for_each(|u| *u += gating.offset);
    }
    apply_times(isa, gating.f, gate, up, out);
}

struct Apply<'a> {
    f: Function,
    x: &'a [f32],
    times: Option<&'a [f32]>,
    out: &'a mut [f32],
}

impl Kernel for Apply<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // The function is chosen outside of the loops.
        match self.f {
            Function::Silu => self.with(s, Function::Silu),
            Function::Sigmoid => self.with(s, Function::Sigmoid),
            Function::GeluTanh => self.with(s, Function::GeluTanh),
            f => self.with(s, f),
        }
    }
}

impl Apply<'_> {
    #[inline(always)]
    fn with<S: Simd>(self, s: S, f: Function) {
        match self.times {
            None => {
                for (x, out) in self.x.chunks(LANES).zip(self.out.chunks_mut(LANES)) {
                    s.store_some(vector(s, f, s.load_some(x, 0.0)), out);
                }
            }
            Some(times) => {
                for ((x, t), out) in self.x.chunks(LANES).zip(times.chunks(LANES)).zip(self.out.chunks_mut(LANES)) {
                    s.store_some(s.mul(vector(s, f, s.load_some(x, 0.0)), s.load_some(t, 0.0)), out);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::simd::levels;

    struct Exp<'a>(&'a [f32], &'a mut [f32]);
    impl Kernel for Exp<'_> {
        type Out = ();
        #[inline(always)]
        fn run<S: Simd>(self, s: S) {
            for (x, y) in self.0.chunks(LANES).zip(self.1.chunks_mut(LANES)) {
                s.store_some(exp(s, s.load_some(x, 0.0)), y);
            }
        }
    }

    /// Against f64, over the whole range; bit-equal on all instruction sets.
    #[test]
    fn exp_is_accurate_and_the_same_everywhere() {
        let x: Vec<f32> = (-8733..8837).map(|i| i as f32 * 0.01 + 0.0013).filter(|x| (-87.3..88.3).contains(x)).collect();
        let mut first: Option<Vec<f32>> = None;
        for isa in levels() {
            let mut y = vec![0.0; x.len()];
            dispatch(isa, Exp(&x, &mut y));
            for (x, y) in x.iter().zip(&y) {
                let exact = f64::from(*x).exp();
                assert!((f64::from(*y) - exact).abs() < 1.3e-7 * exact, "exp({x}) = {y} at {isa:?}");
            }
            assert_eq!(first.get_or_insert_with(|| y.clone()), &y, "{isa:?}");
        }
        let special = [0.0, -0.0, f32::NEG_INFINITY, -100.0, f32::NAN];
        for isa in levels() {
            let mut y = [1.0f32; 5];
            dispatch(isa, Exp(&special, &mut y));
            assert_eq!(y[..4], [1.0, 1.0, 0.0, 0.0], "{isa:?}");
            assert!(y[4].is_nan());
        }
    }

    /// Every function agrees with its definition in plain f64, and all instruction sets with each other.
    #[test]
    fn functions_agree_with_their_definition() {
        let exact = |f: Function, x: f64| match f {
            Function::Silu => x / (1.0 + (-x).exp()),
            Function::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Function::Tanh => x.tanh(),
            Function::Exp => x.exp(),
            Function::SignedSqrt if x == 0.0 => 0.0,
            Function::SignedSqrt => x.abs().max(1e-6).sqrt().copysign(x),
            Function::GeluTanh => 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh()),
            Function::QuickGelu => x / (1.0 + (-1.702 * x).exp()),
            Function::Relu => x.max(0.0),
            Function::ReluSquared => x.max(0.0).powi(2),
            Function::Softplus => x.exp().ln_1p(),
            Function::Gelu => f64::from(f.apply(x as f32)),
        };
        let x: Vec<f32> = (-997..1000).map(|i| i as f32 * 0.0123).collect();
        let up: Vec<f32> = x.iter().map(|x| x * 0.5 - 1.0).collect();
        let all = {
            use Function::*;
            [Silu, Sigmoid, Tanh, GeluTanh, QuickGelu, Relu, ReluSquared, Softplus, Gelu, Exp, SignedSqrt]
        };
        for f in all {
            let mut first: Option<Vec<f32>> = None;
            for isa in levels() {
                let mut y = vec![0.0; x.len()];
                apply(isa, f, &x, &mut y);
                for (x, y) in x.iter().zip(&y) {
                    let e = exact(f, f64::from(*x));
                    // The exponent of the gate grows with x, and its rounding with it.
                    assert!((f64::from(*y) - e).abs() <= 1e-6 * e.abs() + 1e-9, "{f:?}({x}) = {y}, not {e}, at {isa:?}");
                }
                let mut gated = vec![0.0; x.len()];
                apply_times(isa, f, &x, &up, &mut gated);
                assert!(gated.iter().zip(y.iter().zip(&up)).all(|(g, (y, u))| *g == y * u), "{f:?}");
                assert_eq!(first.get_or_insert_with(|| y.clone()), &y, "{f:?} at {isa:?}");
            }
        }
    }
}
