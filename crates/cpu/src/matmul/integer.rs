//! Products of codes with int8 columns.

use super::{
    activations::Block,
    codes::{CHUNK, Codes},
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
/// which is the same whatever the instruction set, the number of columns and the place of the row.
pub(super) struct Integer<C, K>(PhantomData<(C, K)>);

impl<C: Codes, K: Scales> Kernel for Integer<C, K> {
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
                    let codes = C::unpack::<S>(codes_at.add(part * (CHUNK / S::PARTS)));
                    let w = K::load::<S>(panel.plane, panel.span, block, row);
                    for (x, sums) in x.iter().zip(&mut sums) {
                        let x = x.cast::<Block>().add(block);
                        let q = (&raw const (*x).codes).cast::<i8>();
                        let scale = S::splat((*x).scale);
                        let mut sum = sums[part];
                        if K::GROUPS == 1 {
                            let dot = S::to_floats(S::dot::<8>(&codes, C::BITS, C::ZERO, q, &raw const (*x).sum));
                            sum = S::fma(dot, S::mul(w.scale[0], scale), sum);
                            if K::OFFSETS {
                                sum = S::fma(w.offset[0], S::splat((*x).weighted), sum);
                            }
                        } else {
                            for half in 0..2 {
                                let of = (&raw const (*x).sums).cast::<i32>().add(half);
                                let dot = S::to_floats(S::dot::<4>(&codes[4 * half..], C::BITS, C::ZERO, q.add(16 * half), of));
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
