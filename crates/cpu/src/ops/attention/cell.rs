//! How a number of the cache is stored.

use crate::{
    exec::shared::Plain,
    ops::simd::{LANES, Simd},
};

/// f32, the bits of an IEEE binary16, a [bfloat16](Brain), or a whole number that a scale belongs to.
pub(crate) trait Cell: Plain {
    /// Zero.
    const ZERO: Self;
    /// The largest whole number, where whole numbers are what is stored: each position's key and value of a head has a scale then.
    const WHOLE: Option<f32> = None;
    /// Reads one.
    fn get(self) -> f32;
    /// Reads sixteen.
    fn load<S: Simd>(s: S, x: &[Self; LANES]) -> S::V;
    /// Writes sixteen. Numbers beyond what the type holds become its largest, so that no infinity gets in.
    fn store<S: Simd>(s: S, v: S::V, out: &mut [Self; LANES]);
}

/// Bytes of the scale of a key or a value.
pub(crate) const fn scale_bytes<C: Cell>() -> usize {
    if C::WHOLE.is_some() { size_of::<f32>() } else { 0 }
}

/// `v` where it lies between `-largest` and `largest`, else the nearer of them.
#[inline(always)]
fn within<S: Simd>(s: S, v: S::V, largest: f32) -> S::V {
    s.min(s.splat(largest), s.max(s.splat(-largest), v))
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
        s.store_half(within(s, v, half::f16::MAX.to_f32()), out);
    }
}

/// The bits of a bfloat16.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Brain(u16);

impl Plain for Brain {}

impl Cell for Brain {
    const ZERO: Self = Self(0);
    fn get(self) -> f32 {
        half::bf16::from_bits(self.0).to_f32()
    }
    #[inline(always)]
    fn load<S: Simd>(s: S, x: &[Self; LANES]) -> S::V {
        // SAFETY: the same sixteen numbers; the type is transparent.
        s.load_brain(unsafe { &*std::ptr::from_ref(x).cast() })
    }
    #[inline(always)]
    fn store<S: Simd>(s: S, v: S::V, out: &mut [Self; LANES]) {
        let v = s.to_array(within(s, v, half::bf16::MAX.to_f32()));
        *out = v.map(|x| Self(half::bf16::from_f32(x).to_bits()));
    }
}

impl Cell for i8 {
    const ZERO: Self = 0;
    const WHOLE: Option<f32> = Some(127.0);
    fn get(self) -> f32 {
        f32::from(self)
    }
    #[inline(always)]
    fn load<S: Simd>(s: S, x: &[Self; LANES]) -> S::V {
        s.load_bytes(x)
    }
    #[inline(always)]
    fn store<S: Simd>(s: S, v: S::V, out: &mut [Self; LANES]) {
        *out = s.to_array(s.round(v)).map(|x| x as i8);
    }
}
