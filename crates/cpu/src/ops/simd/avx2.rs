use super::{Kernel, LANES, Simd};
use std::arch::x86_64::*;

/// Two registers of eight.
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

/// Runs `kernel` with it.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn run<K: Kernel>(kernel: K) -> K::Out {
    kernel.run(Avx2(()))
}

/// Forwards an operation to both halves.
macro_rules! halves {
    ($f:ident($($v:ident),+)) => {
        // SAFETY: an `Avx2` exists only where AVX2, FMA and F16C are there (see `run`).
        unsafe { [$f($($v[0]),+), $f($($v[1]),+)] }
    };
}

impl Simd for Avx2 {
    type V = [__m256; 2];
    const REGISTERS: usize = 16;
    #[inline(always)]
    fn splat(self, x: f32) -> Self::V {
        // SAFETY: the features are there (see `halves`).
        unsafe { [_mm256_set1_ps(x); 2] }
    }
    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Self::V {
        // SAFETY: the features are there; `x` holds sixteen.
        unsafe { [_mm256_loadu_ps(x.as_ptr()), _mm256_loadu_ps(x.as_ptr().add(8))] }
    }
    #[inline(always)]
    fn store(self, v: Self::V, out: &mut [f32; LANES]) {
        // SAFETY: the features are there; `out` holds sixteen.
        unsafe {
            _mm256_storeu_ps(out.as_mut_ptr(), v[0]);
            _mm256_storeu_ps(out.as_mut_ptr().add(8), v[1]);
        }
    }
    #[inline(always)]
    fn load_half(self, x: &[u16; LANES]) -> Self::V {
        // SAFETY: the features are there; `x` holds sixteen.
        unsafe {
            let p = x.as_ptr().cast::<__m128i>();
            [_mm256_cvtph_ps(_mm_loadu_si128(p)), _mm256_cvtph_ps(_mm_loadu_si128(p.add(1)))]
        }
    }
    #[inline(always)]
    fn store_half(self, v: Self::V, out: &mut [u16; LANES]) {
        // SAFETY: the features are there; `out` holds sixteen.
        unsafe {
            let p = out.as_mut_ptr().cast::<__m128i>();
            _mm_storeu_si128(p, _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v[0]));
            _mm_storeu_si128(p.add(1), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v[1]));
        }
    }
    #[inline(always)]
    fn load_brain(self, x: &[u16; LANES]) -> Self::V {
        // SAFETY: the features are there; `x` holds sixteen.
        unsafe {
            let p = x.as_ptr().cast::<__m128i>();
            let widen = |half| _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(half)));
            [widen(_mm_loadu_si128(p)), widen(_mm_loadu_si128(p.add(1)))]
        }
    }
    #[inline(always)]
    fn load_bytes(self, x: &[i8; LANES]) -> Self::V {
        // SAFETY: the features are there; `x` holds sixteen.
        unsafe {
            let bytes = _mm_loadu_si128(x.as_ptr().cast());
            let widen = |half| _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(half));
            [widen(bytes), widen(_mm_unpackhi_epi64(bytes, bytes))]
        }
    }
    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        halves!(_mm256_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        halves!(_mm256_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        halves!(_mm256_mul_ps(a, b))
    }
    #[inline(always)]
    fn div(self, a: Self::V, b: Self::V) -> Self::V {
        halves!(_mm256_div_ps(a, b))
    }
    #[inline(always)]
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        halves!(_mm256_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn min(self, a: Self::V, b: Self::V) -> Self::V {
        halves!(_mm256_min_ps(a, b))
    }
    #[inline(always)]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        halves!(_mm256_max_ps(a, b))
    }
    #[inline(always)]
    fn round(self, v: Self::V) -> Self::V {
        // SAFETY: the features are there (see `halves`).
        unsafe { v.map(|v| _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(v)) }
    }
    #[inline(always)]
    fn exp2i(self, n: Self::V) -> Self::V {
        // SAFETY: the features are there (see `halves`).
        unsafe {
            n.map(|n| {
                let biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
                _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased))
            })
        }
    }
    #[inline(always)]
    fn exchange<const BY: usize>(self, v: Self::V) -> Self::V {
        // SAFETY: the features are there (see `halves`).
        unsafe {
            match BY {
                1 => v.map(|v| _mm256_permute_ps::<0b10_11_00_01>(v)),
                2 => v.map(|v| _mm256_permute_ps::<0b01_00_11_10>(v)),
                4 => v.map(|v| _mm256_permute2f128_ps::<1>(v, v)),
                8 => [v[1], v[0]],
                _ => unreachable!("no bit of a lane's number"),
            }
        }
    }
    #[inline(always)]
    fn where_less(self, a: Self::V, b: Self::V, x: Self::V, y: Self::V) -> Self::V {
        // SAFETY: the features are there (see `halves`).
        unsafe { [0, 1].map(|i| _mm256_blendv_ps(y[i], x[i], _mm256_cmp_ps::<_CMP_LT_OQ>(a[i], b[i]))) }
    }
}
