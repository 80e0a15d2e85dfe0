//! From a kernel's one panel to ranges of rows and columns, compiled once for each instruction set.

#[cfg(target_arch = "x86_64")]
use super::{avx2::Avx2, avx512::Avx512};
use super::{
    codes::Levels,
    dense::{Decode, decode_row},
    scalar::Scalar,
    simd::{ROWS, Simd},
};
use crate::isa::{Isa, Level};
use std::ops::Range;

/// One panel of a packed matrix.
#[derive(Clone, Copy)]
pub(super) struct Panel {
    /// Its first byte: codes, or floats.
    pub(super) start: *const u8,
    /// The plane of scales, where the form has one.
    pub(super) plane: *const u8,
    /// Blocks of 32 columns.
    pub(super) blocks: usize,
    /// `2^span` blocks share a scale, where the form asks.
    pub(super) span: u32,
    /// Bytes of the panel for each block, planes included.
    step: usize,
    /// Levels that codes choose from, where the form has such.
    pub(super) levels: *const Levels,
}

/// How far ahead of their use weights are asked for. Processors fetch ahead by themselves, but neither across pages nor
/// far enough when several columns make the way through the weights slow.
const AHEAD: usize = 4096;

impl Panel {
    /// Asks for the `bytes` that will be used when the kernel is [`AHEAD`] further, whether in this panel or the next.
    ///
    /// # Safety
    /// As for [`Simd`].
    #[inline(always)]
    pub(super) unsafe fn ahead<S: Simd>(&self, block: usize, bytes: usize) {
        let p = self.start.wrapping_add(AHEAD + block * self.step);
        for line in 0..bytes / 64 {
            // SAFETY: the caller's promise; any address will do.
            unsafe { S::prefetch(p.wrapping_add(64 * line)) }
        }
    }
}

/// The product of one panel with a few columns.
pub(super) trait Kernel: 'static {
    /// Tiles for many columns at once, widest first, where the processor multiplies tiles.
    const WIDE: &'static [(usize, Tile)] = &[];

    /// The 16 sums for each of `N` columns, in [`Simd::PARTS`] registers. What a column gives does not depend on `N`.
    ///
    /// # Safety
    /// As for [`Simd`]; the panel has the kernel's form, and the columns its kind and at least as many blocks.
    unsafe fn columns<S: Simd, const N: usize>(panel: Panel, x: [*const u8; N]) -> [[S::Floats; 2]; N];
}

/// Where panels lie in a matrix.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    /// Bytes from one panel to the next.
    pub(super) panel: usize,
    /// From a panel's start to its plane of scales.
    pub(super) plane: usize,
    /// Blocks of 32 columns.
    pub(super) blocks: usize,
    /// `2^span` blocks share a scale, where the form asks.
    pub(super) span: u32,
    /// Bytes of a panel for each block.
    pub(super) step: usize,
    /// Levels that codes choose from, 128 added, where the form has such.
    pub(super) levels: Levels,
}

impl Geometry {
    /// The panel that row `row` lies in, to be used while `self` lives.
    ///
    /// # Safety
    /// `start` is the first byte of a matrix of this geometry that has such a row.
    #[inline(always)]
    pub(super) unsafe fn at(&self, start: *const u8, row: usize) -> Panel {
        // SAFETY: the caller's promise.
        unsafe {
            let start = start.add(row / ROWS * self.panel);
            Panel {
                start,
                plane: start.add(self.plane),
                blocks: self.blocks,
                span: self.span,
                step: self.step,
                levels: &raw const self.levels,
            }
        }
    }
}

/// Rows of a matrix times a few columns, `y[c * y_stride + row]` being where the results go.
pub(super) struct Task {
    /// The matrix's first byte.
    pub(super) start: *const u8,
    /// Its form's numbers.
    pub(super) geometry: Geometry,
    /// Which rows; begins with a panel.
    pub(super) rows: Range<usize>,
    /// The first column; for wide tiles, the first that is stored for them.
    pub(super) x: *const u8,
    /// Bytes to the next; columns that are stored for wide tiles follow each other.
    pub(super) x_stride: usize,
    /// The first column's result for row 0.
    pub(super) y: *mut f32,
    /// Numbers to the next column's.
    pub(super) y_stride: usize,
}

/// Does a [`Task`] on as many columns as it was made for.
pub(super) type Tile = unsafe fn(&Task);
/// Decodes one row of a panel.
pub(super) type DecodeRow = unsafe fn(Panel, usize, &mut [f32]);

/// # Safety
/// The task's matrix has the kernel's form and `N` columns of its kind; results lie within a buffer that nobody else uses there.
#[inline(always)]
unsafe fn tile<S: Simd, K: Kernel, const N: usize>(t: &Task) {
    // SAFETY: the caller's promise; a register's lanes fit into what is left of `lanes`.
    unsafe {
        let x: [*const u8; N] = std::array::from_fn(|c| t.x.add(c * t.x_stride));
        let mut row = t.rows.start;
        while row < t.rows.end {
            let sums = K::columns::<S, N>(t.geometry.at(t.start, row), x);
            let count = (t.rows.end - row).min(ROWS);
            for (c, sums) in sums.into_iter().enumerate() {
                let y = t.y.add(c * t.y_stride + row);
                if count == ROWS {
                    for (part, sums) in sums.into_iter().enumerate().take(S::PARTS) {
                        S::store(sums, y.add(part * S::LANES));
                    }
                } else {
                    let mut lanes = [0.0; ROWS];
                    for (part, sums) in sums.into_iter().enumerate().take(S::PARTS) {
                        S::store(sums, lanes.as_mut_ptr().add(part * S::LANES));
                    }
                    y.copy_from_nonoverlapping(lanes.as_ptr(), count);
                }
            }
            row += ROWS;
        }
    }
}

/// Entry points for one instruction set, under which everything is inlined.
macro_rules! entry {
    ($tile:ident, $decode:ident, $simd:ty, $($feature:meta)?) => {
        /// # Safety
        /// As for [`tile`], and the instructions are there.
        $(#[$feature])?
        unsafe fn $tile<K: Kernel, const N: usize>(t: &Task) {
            // SAFETY: the caller's promise.
            unsafe { tile::<$simd, K, N>(t) }
        }
        /// # Safety
        /// As for [`decode_row`], and the instructions are there.
        $(#[$feature])?
        unsafe fn $decode<D: Decode>(panel: Panel, row: usize, out: &mut [f32]) {
            // SAFETY: the caller's promise.
            unsafe { decode_row::<$simd, D>(panel, row, out) }
        }
    };
}
entry!(scalar_tile, scalar_decode, Scalar,);
#[cfg(target_arch = "x86_64")]
entry!(avx2_tile, avx2_decode, Avx2, target_feature(enable = "avx2,fma,f16c"));
#[cfg(target_arch = "x86_64")]
entry!(avx512_tile, avx512_decode, Avx512, target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni"));

/// What runs the products of one form on one instruction set.
#[derive(Clone, Copy)]
pub(super) struct Kernels {
    /// [`Kernel::WIDE`], if there is the unit for it.
    pub(super) wide: &'static [(usize, Tile)],
    /// Numbers of columns, widest first, the last being 1.
    pub(super) tiles: &'static [(usize, Tile)],
    /// Decodes a row.
    pub(super) decode: DecodeRow,
}

impl Kernels {
    /// Those of kernel `K` over weights that `D` decodes, for at most four columns at a time: for kernels whose loops over
    /// eight are too long for the compiler to keep sums in registers.
    pub(super) fn four<K: Kernel, D: Decode>(isa: Isa) -> Self {
        let (tiles, decode): (&'static [(usize, Tile)], DecodeRow) = match isa.level() {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 | Level::Amx => {
                (const { &[(4, avx512_tile::<K, 4>), (2, avx512_tile::<K, 2>), (1, avx512_tile::<K, 1>)] }, avx512_decode::<D>)
            }
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => (const { &[(4, avx2_tile::<K, 4>), (1, avx2_tile::<K, 1>)] }, avx2_decode::<D>),
            _ => (const { &[(1, scalar_tile::<K, 1>)] }, scalar_decode::<D>),
        };
        Self::with_wide::<K>(isa, tiles, decode)
    }
    /// Those of kernel `K` over weights that `D` decodes.
    pub(super) fn new<K: Kernel, D: Decode>(isa: Isa) -> Self {
        let (tiles, decode): (&'static [(usize, Tile)], DecodeRow) = match isa.level() {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 | Level::Amx => (
                const { &[(8, avx512_tile::<K, 8>), (4, avx512_tile::<K, 4>), (2, avx512_tile::<K, 2>), (1, avx512_tile::<K, 1>)] },
                avx512_decode::<D>,
            ),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => (const { &[(4, avx2_tile::<K, 4>), (2, avx2_tile::<K, 2>), (1, avx2_tile::<K, 1>)] }, avx2_decode::<D>),
            _ => (const { &[(1, scalar_tile::<K, 1>)] }, scalar_decode::<D>),
        };
        Self::with_wide::<K>(isa, tiles, decode)
    }
    /// With the kernel's wide tiles, where the processor multiplies tiles.
    fn with_wide<K: Kernel>(isa: Isa, tiles: &'static [(usize, Tile)], decode: DecodeRow) -> Self {
        Self { wide: if isa.level() >= Level::Amx { K::WIDE } else { &[] }, tiles, decode }
    }
}
