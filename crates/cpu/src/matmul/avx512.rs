//! [`Simd`] with AVX-512 F, BW, VL, DQ and VNNI: a panel's 16 rows in one register.

use super::simd::Simd;
use std::arch::x86_64::*;

/// Sixteen lanes in one register.
#[derive(Clone, Copy)]
pub(super) struct Avx512;

// The bodies only call intrinsics and read through pointers as `Simd` says; that the instructions are there, and the
// pointers valid, is the promise of every caller.
#[allow(clippy::undocumented_unsafe_blocks)]
impl Simd for Avx512 {
    type Bytes = __m512i;
    type Ints = __m512i;
    type Floats = __m512;
    const LANES: usize = 16;

    #[inline(always)]
    unsafe fn prefetch(p: *const u8) {
        unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
    }
    #[inline(always)]
    unsafe fn bytes(p: *const u8) -> __m512i {
        unsafe { _mm512_loadu_si512(p.cast()) }
    }
    #[inline(always)]
    unsafe fn field(v: __m512i, shift: i32, mask: u8) -> __m512i {
        unsafe { _mm512_and_si512(_mm512_srl_epi16(v, _mm_cvtsi32_si128(shift)), _mm512_set1_epi8(mask as i8)) }
    }
    #[inline(always)]
    unsafe fn raised(v: __m512i, shift: i32, mask: u8) -> __m512i {
        unsafe { _mm512_and_si512(_mm512_sll_epi16(v, _mm_cvtsi32_si128(shift)), _mm512_set1_epi8(mask as i8)) }
    }
    #[inline(always)]
    unsafe fn or(a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_or_si512(a, b) }
    }
    #[inline(always)]
    unsafe fn lookup(table: *const [u8; 16], v: __m512i) -> __m512i {
        unsafe { _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128(table.cast())), v) }
    }
    #[inline(always)]
    unsafe fn dot<const N: usize>(codes: &[__m512i], bits: u32, zero: i32, x: *const i8, sum: *const i32) -> __m512i {
        unsafe {
            let _ = bits;
            let mut dot = _mm512_setzero_si512();
            for (g, codes) in codes.iter().enumerate().take(N) {
                dot = _mm512_dpbusd_epi32(dot, *codes, _mm512_set1_epi32(x.add(4 * g).cast::<i32>().read_unaligned()));
            }
            if zero != 0 {
                let zeros = _mm512_sll_epi32(_mm512_set1_epi32(*sum), _mm_cvtsi32_si128(zero.trailing_zeros() as i32));
                dot = _mm512_sub_epi32(dot, zeros);
            }
            dot
        }
    }
    #[inline(always)]
    unsafe fn byte(v: __m512i, j: i32) -> __m512 {
        unsafe { _mm512_cvtepi32_ps(_mm512_and_si512(_mm512_srl_epi32(v, _mm_cvtsi32_si128(8 * j)), _mm512_set1_epi32(255))) }
    }
    #[inline(always)]
    unsafe fn to_floats(v: __m512i) -> __m512 {
        unsafe { _mm512_cvtepi32_ps(v) }
    }
    #[inline(always)]
    unsafe fn splat(v: f32) -> __m512 {
        unsafe { _mm512_set1_ps(v) }
    }
    #[inline(always)]
    unsafe fn f32s(p: *const u8) -> __m512 {
        unsafe { _mm512_loadu_ps(p.cast()) }
    }
    #[inline(always)]
    unsafe fn f16s(p: *const u8) -> __m512 {
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(p.cast())) }
    }
    #[inline(always)]
    unsafe fn bf16s(p: *const u8) -> __m512 {
        unsafe { _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast())))) }
    }
    #[inline(always)]
    unsafe fn u8s(p: *const u8) -> __m512 {
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(p.cast()))) }
    }
    #[inline(always)]
    unsafe fn i8s(p: *const u8) -> __m512 {
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p.cast()))) }
    }
    #[inline(always)]
    unsafe fn store(v: __m512, p: *mut f32) {
        unsafe { _mm512_storeu_ps(p, v) }
    }
    #[inline(always)]
    unsafe fn add(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn sub(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_sub_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn mul(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
}
