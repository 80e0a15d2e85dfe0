//! Products of codes with many columns in tiles (AMX, int8): 16 columns of activations times the 16 rows of a panel at once.
//!
//! A register of codes is four columns of the matrix for all 16 rows, which is a row of the tile that the tile product takes on
//! its right; columns of activations are the rows of the one on its left. Intel 64 and IA-32 Architectures Software Developer's
//! Manual, volume 1, chapter 18, and volume 2, `TDPBSSD`.

use super::{
    activations::{BASE, Block, COLUMNS},
    avx512::Avx512,
    codes::{BLOCK, CHUNK, Codes},
    kernel::{Panel, Task, Tile},
    scales::{Affine, Scales},
    simd::ROWS,
};
use std::arch::x86_64::*;

/// Blocks whose codes are unpacked together for all columns: these and theirs stay in the first-level cache.
const SEGMENT: usize = 8;
/// How many products are under way before the first is used: a tile's way through the unit is long.
const AHEAD: usize = 7;

/// [`Block`]s of 16 columns as tiles want them: side by side, so that a product reads lines that follow each other.
#[repr(C, align(64))]
pub(super) struct Sixteen<const PLANES: usize> {
    codes: [[[i8; BLOCK]; COLUMNS]; PLANES],
    scale: [f32; COLUMNS],
    weighted: [f32; COLUMNS],
    weighteds: [[f32; COLUMNS]; 2],
}

impl<const PLANES: usize> Sixteen<PLANES> {
    /// Writes the blocks of one column into as many of these; other columns are left alone.
    ///
    /// # Safety
    /// They are at `to`, and nobody else uses this column of them.
    pub(super) unsafe fn put(to: *mut Self, column: usize, blocks: &[Block<PLANES>]) {
        assert!(column < COLUMNS);
        for (i, block) in blocks.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe {
                let to = to.add(i);
                for (plane, codes) in block.codes.iter().enumerate() {
                    (&raw mut (*to).codes[plane][column]).write(*codes);
                }
                (&raw mut (*to).scale[column]).write(block.scale);
                (&raw mut (*to).weighted[column]).write(block.weighted);
                for (half, weighted) in block.weighteds.iter().enumerate() {
                    (&raw mut (*to).weighteds[half][column]).write(*weighted);
                }
            }
        }
    }
}

/// Sums of a tile's products: a row for each column of activations.
#[repr(C, align(64))]
struct Dots([[i32; ROWS]; COLUMNS]);

/// Those that are under way, for each plane.
type Ring<const PLANES: usize> = [[Dots; PLANES]; AHEAD + 1];

/// The unit that multiplies tiles.
trait Tiles {
    /// Makes ready for products over `bytes` codes of each row, a multiple of 4 and at most 64.
    ///
    /// # Safety
    /// The unit is there, and may be used by this process.
    unsafe fn new(bytes: usize) -> Self;
    /// `dots[c][r] = Σ x[32 * c + k] * codes[k / 4 * 64 + 4 * r + k % 4]` over the bytes, all signed.
    ///
    /// # Safety
    /// As for [`Tiles::new`]; `x` has as many bytes in each of 16 places 32 bytes apart, `codes` 16 times as many.
    unsafe fn product(&self, x: *const i8, codes: *const i8, dots: &mut Dots);
}

/// The processor's.
struct Hardware;

/// What `LDTILECFG` reads.
#[repr(C, align(64))]
struct Shapes {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Tiles for Hardware {
    #[inline(always)]
    unsafe fn new(bytes: usize) -> Self {
        let mut shapes = Shapes { palette: 1, start_row: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
        for (tile, (row_bytes, rows)) in [(CHUNK, COLUMNS), (bytes, COLUMNS), (CHUNK, bytes / 4)].into_iter().enumerate() {
            (shapes.row_bytes[tile], shapes.rows[tile]) = (row_bytes as u16, rows as u8);
        }
        // SAFETY: the caller's promise; the instruction reads the 64 bytes.
        unsafe { std::arch::asm!("ldtilecfg [{}]", in(reg) &raw const shapes, options(nostack, readonly, preserves_flags)) };
        Self
    }
    #[inline(always)]
    unsafe fn product(&self, x: *const i8, codes: *const i8, dots: &mut Dots) {
        // SAFETY: the caller's promise; the shapes are those of `new`.
        unsafe {
            std::arch::asm!(
                "tilezero tmm0",
                "tileloadd tmm1, [{x} + {block}*1]",
                "tileloadd tmm2, [{codes} + {line}*1]",
                "tdpbssd tmm0, tmm1, tmm2",
                "tilestored [{dots} + {line}*1], tmm0",
                x = in(reg) x,
                block = in(reg) BLOCK,
                codes = in(reg) codes,
                line = in(reg) CHUNK,
                dots = in(reg) dots,
                out("tmm0") _, out("tmm1") _, out("tmm2") _,
                options(nostack, preserves_flags),
            );
        }
    }
}

impl Drop for Hardware {
    fn drop(&mut self) {
        // Else the system would save 8 KiB more whenever it switches threads.
        // SAFETY: `new` has used the unit.
        unsafe { std::arch::asm!("tilerelease", options(nostack, nomem, preserves_flags)) };
    }
}

/// The processor's where it has one, in tests: elsewhere, its definition.
#[cfg(test)]
struct Tested(Option<Hardware>, usize);

#[cfg(test)]
impl Tiles for Tested {
    unsafe fn new(bytes: usize) -> Self {
        // SAFETY: it is there.
        Self(crate::isa::has_tiles().then(|| unsafe { Hardware::new(bytes) }), bytes)
    }
    unsafe fn product(&self, x: *const i8, codes: *const i8, dots: &mut Dots) {
        // SAFETY: the caller's promise.
        unsafe {
            if let Some(hardware) = &self.0 {
                return hardware.product(x, codes, dots);
            }
            for (c, dots) in dots.0.iter_mut().enumerate() {
                for (r, dot) in dots.iter_mut().enumerate() {
                    let term = |k: usize| i32::from(*x.add(c * BLOCK + k)) * i32::from(*codes.add(k / 4 * CHUNK + 4 * r + k % 4));
                    *dot = (0..self.1).map(term).sum();
                }
            }
        }
    }
}

#[cfg(not(test))]
type Unit = Hardware;
#[cfg(test)]
type Unit = Tested;

/// A segment of a panel, unpacked.
struct Segment {
    codes: [[__m512i; 8]; SEGMENT],
    scales: [Affine<Avx512>; SEGMENT],
}

impl Segment {
    /// Unpacks blocks `from..from + count`: codes signed, scales as numbers.
    ///
    /// # Safety
    /// As for [`tile`]; the panel has the blocks.
    #[inline(always)]
    unsafe fn fill<C: Codes, K: Scales>(&mut self, panel: Panel, from: usize, count: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let zero = _mm512_set1_epi8(C::ZERO as u8 as i8);
            for (i, (codes, scales)) in self.codes.iter_mut().zip(&mut self.scales).enumerate().take(count) {
                let unsigned = C::unpack::<Avx512>(panel.start.add((from + i) * C::BYTES), panel.levels);
                for (to, from) in codes.iter_mut().zip(unsigned) {
                    *to = _mm512_sub_epi8(from, zero);
                }
                *scales = K::load::<Avx512>(panel.plane, panel.span, from + i, 0);
            }
        }
    }
}

/// Rows of a matrix times `16 * TILES` columns, with the sums of [`Integer`](super::integer::Integer), bit by bit.
///
/// # Safety
/// The instructions and the unit are there; the task's matrix has codes stored as `C` and scales as `K`, and the task that many
/// columns of `PLANES` planes as [`Sixteen`]s; results lie within a buffer that nobody else uses there.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn tile<C: Codes, K: Scales, const PLANES: usize, const TILES: usize>(t: &Task) {
    // SAFETY: the caller's promise; all of a segment that is read was filled before.
    unsafe {
        let unit = Unit::new(BLOCK / K::GROUPS);
        let none = _mm512_setzero_ps();
        let mut segment =
            Segment { codes: [[_mm512_setzero_si512(); 8]; SEGMENT], scales: [Affine { scale: [none; 2], offset: [none; 2] }; SEGMENT] };
        let mut ring: Ring<PLANES> = [const { [const { Dots([[0; ROWS]; COLUMNS]) }; PLANES] }; AHEAD + 1];
        let blocks = t.geometry.blocks;
        for from in (0..blocks).step_by(SEGMENT) {
            let count = SEGMENT.min(blocks - from);
            let mut row = t.rows.start;
            while row < t.rows.end {
                segment.fill::<C, K>(t.geometry.at(t.start, row), from, count);
                let mask = (0xffff_u32 >> (ROWS - (t.rows.end - row).min(ROWS))) as u16;
                for tile in 0..TILES {
                    let x = t.x.cast::<Sixteen<PLANES>>().add(tile * blocks + from);
                    let y: [*mut f32; COLUMNS] = std::array::from_fn(|c| t.y.add((tile * COLUMNS + c) * t.y_stride + row));
                    let sums = if from == 0 { [none; COLUMNS] } else { y.map(|y| _mm512_maskz_loadu_ps(mask, y)) };
                    let sums = columns::<K, PLANES>(&unit, &segment, x, count, &mut ring, sums);
                    y.iter().zip(sums).for_each(|(y, sum)| _mm512_mask_storeu_ps(*y, mask, sum));
                }
                row += ROWS;
            }
        }
    }
}

/// Adds a segment's products with as many blocks of 16 columns, at `x`, to their sums.
///
/// # Safety
/// As for [`tile`]; `count` blocks of the segment are filled.
#[inline(always)]
unsafe fn columns<K: Scales, const PLANES: usize>(
    unit: &Unit,
    segment: &Segment,
    x: *const Sixteen<PLANES>,
    count: usize,
    ring: &mut Ring<PLANES>,
    mut sums: [__m512; COLUMNS],
) -> [__m512; COLUMNS] {
    let steps = count * K::GROUPS;
    // SAFETY: the caller's promise.
    unsafe {
        let base = _mm512_set1_ps(BASE as f32);
        let start = |step: usize, ring: &mut Ring<PLANES>| {
            let (i, half) = (step / K::GROUPS, step % K::GROUPS);
            let codes = segment.codes[i].as_ptr().add(8 / K::GROUPS * half).cast();
            for (plane, dots) in ring[step % (AHEAD + 1)].iter_mut().enumerate() {
                let x = (&raw const (*x.add(i)).codes[plane]).cast::<i8>();
                unit.product(x.add(BLOCK / K::GROUPS * half), codes, dots);
            }
        };
        (0..AHEAD.min(steps)).for_each(|step| start(step, ring));
        for step in 0..steps {
            if step + AHEAD < steps {
                start(step + AHEAD, ring);
            }
            let (i, half) = (step / K::GROUPS, step % K::GROUPS);
            let (w, x, dots) = (&segment.scales[i], x.add(i), &ring[step % (AHEAD + 1)]);
            for (c, sum) in sums.iter_mut().enumerate() {
                let mut dot = _mm512_cvtepi32_ps(_mm512_load_si512(dots[0].0[c].as_ptr().cast()));
                if PLANES == 2 {
                    dot = _mm512_fmadd_ps(dot, base, _mm512_cvtepi32_ps(_mm512_load_si512(dots[1].0[c].as_ptr().cast())));
                }
                *sum = _mm512_fmadd_ps(dot, _mm512_mul_ps(w.scale[half], _mm512_set1_ps((*x).scale[c])), *sum);
                if K::OFFSETS {
                    let weighted = if K::GROUPS == 1 { (*x).weighted[c] } else { (*x).weighteds[half][c] };
                    *sum = _mm512_fmadd_ps(w.offset[half], _mm512_set1_ps(weighted), *sum);
                }
            }
        }
    }
    sums
}

/// The tiles of codes `C` with scales `K`, by their numbers of columns.
pub(super) struct Wide<C, K, const PLANES: usize>(std::marker::PhantomData<(C, K)>);

impl<C: Codes, K: Scales, const PLANES: usize> Wide<C, K, PLANES> {
    pub(super) const TILES: &'static [(usize, Tile)] = &[(4 * COLUMNS, tile::<C, K, PLANES, 4>), (COLUMNS, tile::<C, K, PLANES, 1>)];
}
