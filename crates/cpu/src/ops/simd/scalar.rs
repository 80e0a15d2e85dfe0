use super::{LANES, Simd};

/// Plain Rust.
#[derive(Clone, Copy)]
pub(super) struct Scalar;

#[inline(always)]
fn each(f: impl Fn(usize) -> f32) -> [f32; LANES] {
    std::array::from_fn(f)
}

impl Simd for Scalar {
    type V = [f32; LANES];
    const REGISTERS: usize = 16;
    #[inline(always)]
    fn splat(self, x: f32) -> Self::V {
        [x; LANES]
    }
    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Self::V {
        *x
    }
    #[inline(always)]
    fn store(self, v: Self::V, out: &mut [f32; LANES]) {
        *out = v;
    }
    #[inline(always)]
    fn load_half(self, x: &[u16; LANES]) -> Self::V {
        each(|i| half::f16::from_bits(x[i]).to_f32())
    }
    #[inline(always)]
    fn store_half(self, v: Self::V, out: &mut [u16; LANES]) {
        *out = std::array::from_fn(|i| half::f16::from_f32(v[i]).to_bits());
    }
    #[inline(always)]
    fn load_brain(self, x: &[u16; LANES]) -> Self::V {
        each(|i| f32::from_bits(u32::from(x[i]) << 16))
    }
    #[inline(always)]
    fn load_bytes(self, x: &[i8; LANES]) -> Self::V {
        each(|i| f32::from(x[i]))
    }
    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        each(|i| a[i] + b[i])
    }
    #[inline(always)]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        each(|i| a[i] - b[i])
    }
    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        each(|i| a[i] * b[i])
    }
    #[inline(always)]
    fn div(self, a: Self::V, b: Self::V) -> Self::V {
        each(|i| a[i] / b[i])
    }
    #[inline(always)]
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        each(|i| a[i].mul_add(b[i], c[i]))
    }
    #[inline(always)]
    fn min(self, a: Self::V, b: Self::V) -> Self::V {
        each(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        each(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn round(self, v: Self::V) -> Self::V {
        each(|i| v[i].round_ties_even())
    }
    #[inline(always)]
    fn exp2i(self, n: Self::V) -> Self::V {
        each(|i| f32::from_bits(((n[i] as i32 + 127) as u32) << 23))
    }
    #[inline(always)]
    fn exchange<const BY: usize>(self, v: Self::V) -> Self::V {
        each(|i| v[i ^ BY])
    }
    #[inline(always)]
    fn where_less(self, a: Self::V, b: Self::V, x: Self::V, y: Self::V) -> Self::V {
        each(|i| if a[i] < b[i] { x[i] } else { y[i] })
    }
}
