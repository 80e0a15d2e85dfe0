use super::{Kernel, LANES, Simd};
use std::arch::x86_64::*;

/// One register of sixteen.
#[derive(Clone, Copy)]
pub(super) struct Avx512(());

/// Runs `kernel` with it.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
pub(super) fn run<K: Kernel>(kernel: K) -> K::Out {
    kernel.run(Avx512(()))
}

/// Forwards an operation to the register.
macro_rules! whole {
    ($f:ident($($v:ident),+)) => {
        // SAFETY: an `Avx512` exists only where AVX-512 F, BW, VL and DQ are there (see `run`).
        unsafe { $f($($v),+) }
    };
}

impl Simd for Avx512 {
    type V = __m512;
    const REGISTERS: usize = 32;
    #[inline(always)]
    fn splat(self, x: f32) -> Self::V {
        whole!(_mm512_set1_ps(x))
    }
    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Self::V {
        // SAFETY: the features are there; `x` holds sixteen.
        unsafe { _mm512_loadu_ps(x.as_ptr()) }
    }
    #[inline(always)]
    fn store(self, v: Self::V, out: &mut [f32; LANES]) {
        // SAFETY: the features are there; `out` holds sixteen.
        unsafe { _mm512_storeu_ps(out.as_mut_ptr(), v) }
    }
    #[inline(always)]
    fn load_half(self, x: &[u16; LANES]) -> Self::V {
        // SAFETY: the features are there; `x` holds sixteen.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(x.as_ptr().cast())) }
    }
    #[inline(always)]
    fn store_half(self, v: Self::V, out: &mut [u16; LANES]) {
        // SAFETY: the features are there; `out` holds sixteen.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v)) }
    }
    #[inline(always)]
    fn load_brain(self, x: &[u16; LANES]) -> Self::V {
        // SAFETY: the features are there; `x` holds sixteen.
        unsafe { _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(x.as_ptr().cast())))) }
    }
    #[inline(always)]
    fn load_bytes(self, x: &[i8; LANES]) -> Self::V {
        // SAFETY: the features are there; `x` holds sixteen.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(x.as_ptr().cast()))) }
    }
    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        whole!(_mm512_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        whole!(_mm512_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        whole!(_mm512_mul_ps(a, b))
    }
    #[inline(always)]
    fn div(self, a: Self::V, b: Self::V) -> Self::V {
        whole!(_mm512_div_ps(a, b))
    }
    #[inline(always)]
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        whole!(_mm512_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn min(self, a: Self::V, b: Self::V) -> Self::V {
        whole!(_mm512_min_ps(a, b))
    }
    #[inline(always)]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        whole!(_mm512_max_ps(a, b))
    }
    #[inline(always)]
    fn round(self, v: Self::V) -> Self::V {
        // SAFETY: the features are there (see `whole`).
        unsafe { _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(v) }
    }
    #[inline(always)]
    fn exp2i(self, n: Self::V) -> Self::V {
        // SAFETY: the features are there (see `whole`).
        unsafe { _mm512_castsi512_ps(_mm512_slli_epi32::<23>(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)))) }
    }
    #[inline(always)]
    fn exchange<const BY: usize>(self, v: Self::V) -> Self::V {
        // SAFETY: the features are there (see `whole`).
        unsafe {
            match BY {
                1 => _mm512_permute_ps::<0b10_11_00_01>(v),
                2 => _mm512_permute_ps::<0b01_00_11_10>(v),
                4 => _mm512_shuffle_f32x4::<0b10_11_00_01>(v, v),
                8 => _mm512_shuffle_f32x4::<0b01_00_11_10>(v, v),
                _ => unreachable!("no bit of a lane's number"),
            }
        }
    }
    #[inline(always)]
    fn where_less(self, a: Self::V, b: Self::V, x: Self::V, y: Self::V) -> Self::V {
        // SAFETY: the features are there (see `whole`).
        unsafe { _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b), y, x) }
    }
}
