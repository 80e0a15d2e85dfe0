//! Products of codes with columns of whole numbers.

use super::{
    activations::{BASE, Block},
    codes::{BLOCK, CHUNK, Codes},
    kernel::{Kernel, Panel},
    scales::Scales,
    simd::Simd,
};
use std::marker::PhantomData;

/// Codes stored as `C` with scales stored as `K`.
///
/// An output is summed block by block in one f32: for each group of codes that share a scale
///
/// ```text
/// sum = fma(Σ (code - zero) · x, scale · x.scale, sum)      the inner sum exact, in whole numbers
/// sum = fma(offset, x.scale · Σ x, sum)                      where the type has offsets
/// ```
///
/// where x of two planes is `BASE * high + low`, whose sums are exact one by one; it is the same whatever the instruction set, the number of columns and the place of the row.
pub(super) struct Integer<C, K, const PLANES: usize>(PhantomData<(C, K)>);

impl<C: Codes, K: Scales, const PLANES: usize> Kernel for Integer<C, K, PLANES> {
    #[cfg(target_arch = "x86_64")]
    const WIDE: &'static [(usize, super::kernel::Tile)] = super::amx::Wide::<C, K, PLANES>::TILES;

    #[inline(always)]
    unsafe fn columns<S: Simd, const N: usize>(panel: Panel, x: [*const u8; N]) -> [[S::Floats; 2]; N] {
        // SAFETY: the caller's promise: the panel holds `blocks` blocks of `C` and the plane of `K` after them, columns hold
        // as many `Block`s, and the instructions are there.
        unsafe {
            let mut sums = [[S::splat(0.0); 2]; N];
            for block in 0..panel.blocks {
                let codes_at = panel.start.add(block * C::BYTES);
                panel.ahead::<S>(block, C::BYTES + CHUNK);
                for part in 0..S::PARTS {
                    let row = part * S::LANES;
                    let codes = C::unpack::<S>(codes_at.add(part * (CHUNK / S::PARTS)), panel.levels);
                    let w = K::load::<S>(panel.plane, panel.span, block, row);
                    for (x, sums) in x.iter().zip(&mut sums) {
                        let x = x.cast::<Block<PLANES>>().add(block);
                        let scale = S::splat((*x).scale);
                        let mut sum = sums[part];
                        if K::GROUPS == 1 {
                            let of = (&raw const (*x).sum).cast::<i32>();
                            let dot = dot::<S, C, 8, PLANES>(&codes, x, 0, of, 1);
                            sum = S::fma(dot, S::mul(w.scale[0], scale), sum);
                            if K::OFFSETS {
                                sum = S::fma(w.offset[0], S::splat((*x).weighted), sum);
                            }
                        } else {
                            for half in 0..2 {
                                let of = (&raw const (*x).sums).cast::<i32>().add(half);
                                let dot = dot::<S, C, 4, PLANES>(&codes[4 * half..], x, 16 * half, of, 2);
                                sum = S::fma(dot, S::mul(w.scale[half], scale), sum);
                                if K::OFFSETS {
                                    sum = S::fma(w.offset[half], S::splat((*x).weighteds[half]), sum);
                                }
                            }
                        }
                        sums[part] = sum;
                    }
                }
            }
            sums
        }
    }
}

/// `Σ (code - zero) · x` over `4 N` columns from `start` on, the sums of `x`'s planes being `stride` numbers apart from `of` on.
///
/// # Safety
/// As for [`Simd`]; the block and its sums are there.
#[inline(always)]
unsafe fn dot<S: Simd, C: Codes, const N: usize, const PLANES: usize>(
    codes: &[S::Bytes],
    x: *const Block<PLANES>,
    start: usize,
    of: *const i32,
    stride: usize,
) -> S::Floats {
    // SAFETY: the caller's promise.
    unsafe {
        let q = (&raw const (*x).codes).cast::<i8>().add(start);
        // Below 2^24 each, so that they are exact as floats.
        let mut dot = S::to_floats(S::dot::<N>(codes, C::BITS, C::ZERO, q, of));
        if PLANES == 2 {
            let low = S::to_floats(S::dot::<N>(codes, C::BITS, C::ZERO, q.add(BLOCK), of.add(stride)));
            dot = S::fma(dot, S::splat(BASE as f32), low);
        }
        dot
    }
}
