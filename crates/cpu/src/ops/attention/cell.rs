//! How a number of the cache is stored.

use crate::{
    exec::shared::Plain,
    ops::simd::{LANES, Simd},
};

/// f32, or the bits of an IEEE binary16.
pub(crate) trait Cell: Plain {
    /// Zero.
    const ZERO: Self;
    /// Reads one.
    fn get(self) -> f32;
    /// Reads sixteen.
    fn load<S: Simd>(s: S, x: &[Self; LANES]) -> S::V;
    /// Writes sixteen. Numbers beyond what the type holds become its largest, so that no infinity gets in.
    fn store<S: Simd>(s: S, v: S::V, out: &mut [Self; LANES]);
}

impl Cell for f32 {
    const ZERO: Self = 0.0;
    fn get(self) -> f32 {
        self
    }
    #[inline(always)]
    fn load<S: Simd>(s: S, x: &[Self; LANES]) -> S::V {
        s.load(x)
    }
    #[inline(always)]
    fn store<S: Simd>(s: S, v: S::V, out: &mut [Self; LANES]) {
        s.store(v, out);
    }
}

impl Cell for u16 {
    const ZERO: Self = 0;
    fn get(self) -> f32 {
        half::f16::from_bits(self).to_f32()
    }
    #[inline(always)]
    fn load<S: Simd>(s: S, x: &[Self; LANES]) -> S::V {
        s.load_half(x)
    }
    #[inline(always)]
    fn store<S: Simd>(s: S, v: S::V, out: &mut [Self; LANES]) {
        let largest = half::f16::MAX.to_f32();
        s.store_half(s.min(s.splat(largest), s.max(s.splat(-largest), v)), out);
    }
}
