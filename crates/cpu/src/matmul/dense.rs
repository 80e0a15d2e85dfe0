//! Products of f32 columns with weights that are decoded on the way: plain floats, and every other type in exact mode.

use super::{
    codes::{CHUNK, Codes},
    kernel::{Kernel, Panel},
    scales::{Affine, Scales},
    simd::{ROWS, Simd},
};
use std::marker::PhantomData;

/// A way to store weights that gives f32.
pub(super) trait Decode: 'static {
    /// Bytes of a block of 16 rows, or nearly.
    const BYTES: usize;
    /// What is read once for a block.
    type Opened<S: Simd>;

    /// Reads what a block's columns share.
    ///
    /// # Safety
    /// As for [`Simd`]; `block` and the rows from `row` on lie within the panel.
    unsafe fn open<S: Simd>(panel: Panel, block: usize, row: usize) -> Self::Opened<S>;
    /// Four columns, exactly as the weight type's decoder gives them: those of group `group`.
    ///
    /// # Safety
    /// As for [`Decode::open`], whose result for the same block `opened` is.
    unsafe fn four<S: Simd>(opened: &Self::Opened<S>, group: usize) -> [S::Floats; 4];
}

/// f32, column by column, the rows side by side.
pub(super) struct F32;
/// binary16, likewise.
pub(super) struct F16;
/// bfloat16, likewise.
pub(super) struct Bf16;
/// Codes and scales, in the layout of the integer kernels.
pub(super) struct Decoded<C, K>(PhantomData<(C, K)>);

macro_rules! plain {
    ($name:ident, $bytes:literal, $load:ident) => {
        impl Decode for $name {
            const BYTES: usize = 32 * ROWS * $bytes;
            type Opened<S: Simd> = *const u8;

            #[inline(always)]
            unsafe fn open<S: Simd>(panel: Panel, block: usize, row: usize) -> *const u8 {
                // SAFETY: within the panel.
                unsafe { panel.start.add((block * 32 * ROWS + row) * $bytes) }
            }
            #[inline(always)]
            unsafe fn four<S: Simd>(opened: &*const u8, group: usize) -> [S::Floats; 4] {
                let step = ROWS * $bytes;
                // SAFETY: the caller's promise; a block has 32 columns of 16 rows.
                unsafe {
                    let p = opened.add(4 * group * step);
                    [S::$load(p), S::$load(p.add(step)), S::$load(p.add(2 * step)), S::$load(p.add(3 * step))]
                }
            }
        }
    };
}
plain!(F32, 4, f32s);
plain!(F16, 2, f16s);
plain!(Bf16, 2, bf16s);

impl<C: Codes, K: Scales> Decode for Decoded<C, K> {
    const BYTES: usize = C::BYTES + CHUNK;
    type Opened<S: Simd> = ([S::Bytes; 8], Affine<S>);

    #[inline(always)]
    unsafe fn open<S: Simd>(panel: Panel, block: usize, row: usize) -> Self::Opened<S> {
        // SAFETY: the caller's promise.
        unsafe {
            let codes = C::unpack::<S>(panel.start.add(block * C::BYTES + row * (CHUNK / ROWS)), panel.levels);
            (codes, K::load::<S>(panel.plane, panel.span, block, row))
        }
    }
    #[inline(always)]
    unsafe fn four<S: Simd>(opened: &Self::Opened<S>, group: usize) -> [S::Floats; 4] {
        let (codes, w) = opened;
        let half = group / 4 * (K::GROUPS - 1);
        // SAFETY: the caller's promise.
        unsafe {
            let mut out = [S::splat(0.0); 4];
            for (j, out) in out.iter_mut().enumerate() {
                let code = S::sub(S::byte(codes[group], j as i32), S::splat(C::ZERO as f32));
                *out = S::mul(code, w.scale[half]);
                // Not one fma: decoders round the product too.
                if K::OFFSETS {
                    *out = S::add(*out, w.offset[half]);
                }
            }
            out
        }
    }
}

/// f32 products of weights stored as `D`.
///
/// An output is summed in blocks of 32 columns; within a block, even and odd columns apart, each by fma in ascending
/// order; then `(even + odd)` is added to the sum of the blocks before. Errors so grow with 16 plus the number of blocks,
/// not with the number of columns.
pub(super) struct Dense<D>(PhantomData<D>);

impl<D: Decode> Kernel for Dense<D> {
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // the indices go into several arrays
    unsafe fn columns<S: Simd, const N: usize>(panel: Panel, x: [*const u8; N]) -> [[S::Floats; 2]; N] {
        // SAFETY: the caller's promise: the panel holds `blocks` blocks of `D`, columns hold 32 f32 for each, and the
        // instructions are there.
        unsafe {
            let mut sums = [[S::splat(0.0); 2]; N];
            for block in 0..panel.blocks {
                panel.ahead::<S>(block, D::BYTES);
                for part in 0..S::PARTS {
                    let opened = D::open::<S>(panel, block, part * S::LANES);
                    let mut even = [S::splat(0.0); N];
                    let mut odd = [S::splat(0.0); N];
                    for group in 0..8 {
                        let w = D::four::<S>(&opened, group);
                        for c in 0..N {
                            let x = x[c].cast::<f32>().add(32 * block + 4 * group);
                            even[c] = S::fma(w[0], S::splat(*x), even[c]);
                            odd[c] = S::fma(w[1], S::splat(*x.add(1)), odd[c]);
                            even[c] = S::fma(w[2], S::splat(*x.add(2)), even[c]);
                            odd[c] = S::fma(w[3], S::splat(*x.add(3)), odd[c]);
                        }
                    }
                    for c in 0..N {
                        sums[c][part] = S::add(sums[c][part], S::add(even[c], odd[c]));
                    }
                }
            }
            sums
        }
    }
}

/// Decodes a panel's row: `out` gets as many values as it has room for.
///
/// # Safety
/// As for [`Kernel::columns`]; `out` is not longer than the row.
#[inline(always)]
pub(super) unsafe fn decode_row<S: Simd, D: Decode>(panel: Panel, row: usize, out: &mut [f32]) {
    let (first, lane) = (row / S::LANES * S::LANES, row % S::LANES);
    let mut lanes = [0.0; ROWS];
    for (block, out) in out.chunks_mut(32).enumerate() {
        // SAFETY: the caller's promise; a register's lanes fit into `lanes`.
        unsafe {
            let opened = D::open::<S>(panel, block, first);
            for (group, out) in out.chunks_mut(4).enumerate() {
                for (w, out) in D::four::<S>(&opened, group).into_iter().zip(out) {
                    S::store(w, lanes.as_mut_ptr());
                    *out = lanes[lane];
                }
            }
        }
    }
}
