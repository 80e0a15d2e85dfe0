//! Rotations by signs and Hadamard matrices (see [`Rotation`]), by the fast transform: `n log n` additions, in place.
//!
//! The four steps that mix neighbours less than sixteen apart stay within a vector, and are done first, while it is loaded;
//! each further step is a pass over the block, which stays in the cache.

use super::{
    Row, RowOp,
    simd::{Kernel, LANES, Simd, dispatch},
};
use crate::{exec::step::StepView, isa::Isa};
use onebit_plan::{Rotation, Signs};

pub(crate) struct Hadamard {
    pub(crate) rotation: Rotation,
    pub(crate) inverse: bool,
    pub(crate) isa: Isa,
}

impl RowOp for Hadamard {
    fn run(&self, _: &StepView<'_>, _: Row, inputs: &[&[f32]], out: &mut [f32]) {
        out.copy_from_slice(inputs[0]);
        turn(self.isa, &self.rotation, self.inverse, out);
    }
}

/// `row = R row`, or the inverse.
pub(crate) fn turn(isa: Isa, rotation: &Rotation, inverse: bool, row: &mut [f32]) {
    let signs = rotation.signs.as_ref().map(Signs::factors);
    let (before, after) = if inverse { (None, signs) } else { (signs, None) };
    dispatch(isa, Transform { row, block: rotation.block, before, after });
}

struct Transform<'a> {
    row: &'a mut [f32],
    block: usize,
    before: Option<&'a [f32]>,
    after: Option<&'a [f32]>,
}

/// 1 for lanes whose number lacks the bit `BY`, -1 for those that have it.
const fn halves<const BY: usize>() -> [f32; LANES] {
    let mut out = [1.0; LANES];
    let mut i = 0;
    while i < LANES {
        if i & BY != 0 {
            out[i] = -1.0;
        }
        i += 1;
    }
    out
}

/// Sums in lanes without the bit, differences in those with it.
#[inline(always)]
fn within<const BY: usize, S: Simd>(s: S, v: S::V) -> S::V {
    s.mul_add(v, s.load(&const { halves::<BY>() }), s.exchange::<BY>(v))
}

impl Kernel for Transform<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self { row, block, before, after } = self;
        let scale = s.splat((1.0 / (block as f64).sqrt()) as f32);
        for (i, x) in row.chunks_mut(LANES).enumerate() {
            let mut v = s.mul(s.load_some(x, 0.0), scale);
            if let Some(signs) = before {
                v = s.mul(v, s.load_some(&signs[i * LANES..][..x.len()], 0.0));
            }
            if block > 1 {
                v = within::<1, S>(s, v);
            }
            if block > 2 {
                v = within::<2, S>(s, v);
            }
            if block > 4 {
                v = within::<4, S>(s, v);
            }
            if block > 8 {
                v = within::<8, S>(s, v);
            }
            s.store_some(v, x);
        }
        let mut step = LANES;
        while step < block {
            for pair in row.chunks_exact_mut(2 * step) {
                let (low, high) = pair.split_at_mut(step);
                for (a, b) in low.as_chunks_mut::<LANES>().0.iter_mut().zip(high.as_chunks_mut::<LANES>().0) {
                    let (x, y) = (s.load(a), s.load(b));
                    s.store(s.add(x, y), a);
                    s.store(s.sub(x, y), b);
                }
            }
            step *= 2;
        }
        if let Some(signs) = after {
            for (x, signs) in row.chunks_mut(LANES).zip(signs.chunks(LANES)) {
                s.store_some(s.mul(s.load_some(x, 0.0), s.load_some(signs, 0.0)), x);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::simd::levels;

    /// Against the definition, `H[i][j] = (-1)^popcount(i & j)`, summed in f64; the same bits with every instruction set.
    #[test]
    fn agrees_with_the_dense_matrix() {
        for (width, block) in [(24, 1), (24, 2), (24, 4), (24, 8), (48, 16), (96, 32), (192, 64), (2048, 1024), (8, 8)] {
            let x: Vec<f32> = (0..width).map(|i| (0.7 * i as f32 + 0.3).sin()).collect();
            let signs: Vec<f32> = (0..width).map(|i| if i * i % 7 < 3 { -1.0 } else { 1.0 }).collect();
            let rotation = Rotation { block, signs: Some(Signs::new(signs.clone()).unwrap()) };
            let dense = |i: usize| -> f64 {
                let start = i / block * block;
                let sign = |j: usize| if ((i % block) & j).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
                let sum: f64 = (0..block).map(|j| sign(j) * f64::from(x[start + j] * signs[start + j])).sum();
                sum / (block as f64).sqrt()
            };
            let mut first: Option<Vec<f32>> = None;
            for isa in levels() {
                let mut row = x.clone();
                turn(isa, &rotation, false, &mut row);
                for (i, y) in row.iter().enumerate() {
                    assert!((f64::from(*y) - dense(i)).abs() < 1e-5, "width {width}, block {block}: [{i}] {y} {}", dense(i));
                }
                assert_eq!(first.get_or_insert_with(|| row.clone()), &row);
                turn(isa, &rotation, true, &mut row);
                assert!(row.iter().zip(&x).all(|(a, b)| (a - b).abs() < 2e-6), "width {width}, block {block}: not turned back");
            }
        }
    }
}
