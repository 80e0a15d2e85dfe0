//! [`Simd`] with AVX2, FMA and F16C: a panel's 16 rows in two registers.

use super::{
    activations::{BASE, Block, scale},
    codes::BLOCK,
    simd::Simd,
};
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
    unsafe fn lookup(table: *const [u8; 16], v: __m256i) -> __m256i {
        unsafe { _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(table.cast())), v) }
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

/// [`Block::quantize`] for whole blocks, with the same results.
///
/// # Safety
/// The instructions are there.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn quantize<const PLANES: usize>(x: &[[f32; BLOCK]], out: &mut [Block<PLANES>]) {
    let magnitude = _mm256_set1_epi32(0x7fff_ffff);
    let (base, steps) = (_mm256_set1_epi32(BASE), _mm256_set1_ps(1.0 / BASE as f32));
    for (x, out) in x.iter().zip(out) {
        let at = x.as_ptr();
        // SAFETY: 8 of 32 values each.
        let v = unsafe { [_mm256_loadu_ps(at), _mm256_loadu_ps(at.add(8)), _mm256_loadu_ps(at.add(16)), _mm256_loadu_ps(at.add(24))] };
        let sizes = v.map(|v| _mm256_and_si256(_mm256_castps_si256(v), magnitude));
        let largest = _mm256_max_epu32(_mm256_max_epu32(sizes[0], sizes[1]), _mm256_max_epu32(sizes[2], sizes[3]));
        let largest = _mm_max_epu32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256::<1>(largest));
        let largest = _mm_max_epu32(largest, _mm_unpackhi_epi64(largest, largest));
        let largest = _mm_max_epu32(largest, _mm_shuffle_epi32::<1>(largest));
        let (scale, inverse) = scale(f32::from_bits(_mm_cvtsi128_si32(largest) as u32), Block::<PLANES>::LARGEST);
        if inverse == 0.0 {
            *out = Block::new([[0; BLOCK]; PLANES], scale, [[0; 2]; PLANES]);
            continue;
        }
        // Conversions round to nearest, ties to even, as the processor is set.
        let numbers = v.map(|v| _mm256_cvtps_epi32(_mm256_mul_ps(v, _mm256_set1_ps(inverse))));
        let mut planes = [narrow(numbers); PLANES];
        if PLANES == 2 {
            let high = numbers.map(|n| _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_cvtepi32_ps(n), steps)));
            let low = std::array::from_fn(|i| _mm256_sub_epi32(numbers[i], _mm256_mullo_epi32(high[i], base)));
            (planes[0], planes[PLANES - 1]) = (narrow(high), narrow(low));
        }
        let mut codes = [[0; BLOCK]; PLANES];
        for (codes, plane) in codes.iter_mut().zip(planes) {
            // SAFETY: 32 codes.
            unsafe { _mm256_storeu_si256(codes.as_mut_ptr().cast(), plane) };
        }
        *out = Block::new(codes, scale, planes.map(|plane| sums(plane)));
    }
}

/// The lowest bytes of 32 numbers from -128 to 127, in order.
#[target_feature(enable = "avx2")]
fn narrow(n: [__m256i; 4]) -> __m256i {
    // Packing works within 128-bit halves: dwords 0, 4, 1, 5, 2, 6, 3, 7 are then in order.
    let bytes = _mm256_packs_epi16(_mm256_packs_epi32(n[0], n[1]), _mm256_packs_epi32(n[2], n[3]));
    _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
}

/// Sums of the first and the last 16 codes.
#[target_feature(enable = "avx2")]
fn sums(codes: __m256i) -> [i32; 2] {
    let fours = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), codes), _mm256_set1_epi16(1));
    let twos = _mm256_add_epi32(fours, _mm256_srli_si256::<8>(fours));
    let ones = _mm256_add_epi32(twos, _mm256_srli_si256::<4>(twos));
    [_mm256_cvtsi256_si32(ones), _mm256_extract_epi32::<4>(ones)]
}
