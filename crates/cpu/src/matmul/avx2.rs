//! [`Simd`] with AVX2, FMA and F16C: a panel's 16 rows in two registers.

use super::simd::Simd;
use std::arch::x86_64::*;

/// Eight lanes in one register.
#[derive(Clone, Copy)]
pub(super) struct Avx2;

// The bodies only call intrinsics and read through pointers as `Simd` says; that the instructions are there, and the
// pointers valid, is the promise of every caller.
#[allow(clippy::undocumented_unsafe_blocks)]
impl Simd for Avx2 {
    type Bytes = __m256i;
    type Ints = __m256i;
    type Floats = __m256;
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn prefetch(p: *const u8) {
        unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
    }
    #[inline(always)]
    unsafe fn bytes(p: *const u8) -> __m256i {
        unsafe { _mm256_loadu_si256(p.cast()) }
    }
    #[inline(always)]
    unsafe fn field(v: __m256i, shift: i32, mask: u8) -> __m256i {
        unsafe { _mm256_and_si256(_mm256_srl_epi16(v, _mm_cvtsi32_si128(shift)), _mm256_set1_epi8(mask as i8)) }
    }
    #[inline(always)]
    unsafe fn raised(v: __m256i, shift: i32, mask: u8) -> __m256i {
        unsafe { _mm256_and_si256(_mm256_sll_epi16(v, _mm_cvtsi32_si128(shift)), _mm256_set1_epi8(mask as i8)) }
    }
    #[inline(always)]
    unsafe fn or(a: __m256i, b: __m256i) -> __m256i {
        unsafe { _mm256_or_si256(a, b) }
    }
    #[inline(always)]
    unsafe fn dot<const N: usize>(codes: &[__m256i], bits: u32, zero: i32, x: *const i8, sum: *const i32) -> __m256i {
        unsafe {
            let ones = _mm256_set1_epi16(1);
            let mut dot = _mm256_setzero_si256();
            if bits == 8 {
                // Two products of 255 and 127 do not fit into 16 bits; with 128 subtracted and the sign moved over to `x`, they do.
                for (g, codes) in codes.iter().enumerate().take(N) {
                    let codes = _mm256_xor_si256(*codes, _mm256_set1_epi8(-128));
                    let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(four(x, g), codes));
                    dot = _mm256_add_epi32(dot, _mm256_madd_epi16(pairs, ones));
                }
                return dot;
            }
            // Groups whose products fit into 16 bits together: pairs are at most 2 * 127 * (2^bits - 1).
            let together = (32767 / (254 * ((1 << bits) - 1))).min(N);
            let mut g = 0;
            while g < N {
                let mut pairs = _mm256_maddubs_epi16(codes[g], four(x, g));
                for (h, codes) in codes.iter().enumerate().take(N.min(g + together)).skip(g + 1) {
                    pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(*codes, four(x, h)));
                }
                dot = _mm256_add_epi32(dot, _mm256_madd_epi16(pairs, ones));
                g += together;
            }
            if zero != 0 {
                let zeros = _mm256_sll_epi32(_mm256_set1_epi32(*sum), _mm_cvtsi32_si128(zero.trailing_zeros() as i32));
                dot = _mm256_sub_epi32(dot, zeros);
            }
            dot
        }
    }
    #[inline(always)]
    unsafe fn byte(v: __m256i, j: i32) -> __m256 {
        unsafe { _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srl_epi32(v, _mm_cvtsi32_si128(8 * j)), _mm256_set1_epi32(255))) }
    }
    #[inline(always)]
    unsafe fn to_floats(v: __m256i) -> __m256 {
        unsafe { _mm256_cvtepi32_ps(v) }
    }
    #[inline(always)]
    unsafe fn splat(v: f32) -> __m256 {
        unsafe { _mm256_set1_ps(v) }
    }
    #[inline(always)]
    unsafe fn f32s(p: *const u8) -> __m256 {
        unsafe { _mm256_loadu_ps(p.cast()) }
    }
    #[inline(always)]
    unsafe fn f16s(p: *const u8) -> __m256 {
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(p.cast())) }
    }
    #[inline(always)]
    unsafe fn bf16s(p: *const u8) -> __m256 {
        unsafe { _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast())))) }
    }
    #[inline(always)]
    unsafe fn u8s(p: *const u8) -> __m256 {
        unsafe { _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(p.cast()))) }
    }
    #[inline(always)]
    unsafe fn i8s(p: *const u8) -> __m256 {
        unsafe { _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p.cast()))) }
    }
    #[inline(always)]
    unsafe fn store(v: __m256, p: *mut f32) {
        unsafe { _mm256_storeu_ps(p, v) }
    }
    #[inline(always)]
    unsafe fn add(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_add_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn sub(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_sub_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn mul(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_mul_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn fma(a: __m256, b: __m256, c: __m256) -> __m256 {
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }
}

/// Group `g` of a column's codes, in each lane.
///
/// # Safety
/// The instructions are there, and the group is.
#[inline(always)]
unsafe fn four(x: *const i8, g: usize) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_set1_epi32(x.add(4 * g).cast::<i32>().read_unaligned()) }
}
