//! RMSNorm, LayerNorm and L2 norm.
//!
//! Sums are kept in four vectors of sixteen, which are added in a fixed order at the end: accurate, and the same on
//! every machine.

use super::{
    Row, RowOp,
    simd::{Kernel, LANES, Simd, dispatch},
};
use crate::{exec::step::StepView, isa::Isa};
use std::sync::Arc;

/// `x / sqrt(mean(x^2) + eps) * weight` over runs of `dim`, with one weight for all runs or one for each.
pub(crate) struct Rms {
    pub(crate) weight: Option<Arc<[f32]>>,
    pub(crate) dim: usize,
    pub(crate) eps: f32,
    pub(crate) isa: Isa,
}

impl RowOp for Rms {
    fn run(&self, _: &StepView<'_>, _: Row, inputs: &[&[f32]], out: &mut [f32]) {
        for (n, (x, out)) in inputs[0].chunks_exact(self.dim).zip(out.chunks_exact_mut(self.dim)).enumerate() {
            let weight = of_run(&self.weight, n, self.dim);
            let mean = dispatch(self.isa, Sum { x, shift: 0.0, square: true }) / self.dim as f32;
            let scale = 1.0 / (mean + self.eps).sqrt();
            dispatch(self.isa, Affine { x, shift: 0.0, scale, weight, bias: None, out });
        }
    }
}

/// The weight of run `n`.
fn of_run(weight: &Option<Arc<[f32]>>, n: usize, dim: usize) -> Option<&[f32]> {
    weight.as_deref().map(|w| if w.len() > dim { &w[n * dim..] } else { w })
}

/// `x / sqrt(sum(x^2) + eps)` over runs of `dim`.
pub(crate) struct L2 {
    pub(crate) dim: usize,
    pub(crate) eps: f32,
    pub(crate) isa: Isa,
}

impl RowOp for L2 {
    fn run(&self, _: &StepView<'_>, _: Row, inputs: &[&[f32]], out: &mut [f32]) {
        for (x, out) in inputs[0].chunks_exact(self.dim).zip(out.chunks_exact_mut(self.dim)) {
            let sum = dispatch(self.isa, Sum { x, shift: 0.0, square: true });
            let scale = 1.0 / (sum + self.eps).sqrt();
            dispatch(self.isa, Affine { x, shift: 0.0, scale, weight: None, bias: None, out });
        }
    }
}

/// `(x - mean) / sqrt(variance + eps) * weight + bias` over runs of `dim`, with one weight for all runs or one for each.
pub(crate) struct Layer {
    pub(crate) weight: Option<Arc<[f32]>>,
    pub(crate) bias: Option<Arc<[f32]>>,
    pub(crate) dim: usize,
    pub(crate) eps: f32,
    pub(crate) isa: Isa,
}

impl RowOp for Layer {
    fn run(&self, _: &StepView<'_>, _: Row, inputs: &[&[f32]], out: &mut [f32]) {
        for (n, (x, out)) in inputs[0].chunks_exact(self.dim).zip(out.chunks_exact_mut(self.dim)).enumerate() {
            let mean = dispatch(self.isa, Sum { x, shift: 0.0, square: false }) / self.dim as f32;
            let variance = dispatch(self.isa, Sum { x, shift: mean, square: true }) / self.dim as f32;
            let scale = 1.0 / (variance + self.eps).sqrt();
            let (weight, bias) = (of_run(&self.weight, n, self.dim), of_run(&self.bias, n, self.dim));
            dispatch(self.isa, Affine { x, shift: mean, scale, weight, bias, out });
        }
    }
}

/// The sum of `x - shift`, or of its square.
struct Sum<'a> {
    x: &'a [f32],
    shift: f32,
    square: bool,
}

impl Kernel for Sum<'_> {
    type Out = f32;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        let shift = s.splat(self.shift);
        let term = |x: S::V, sum: S::V| {
            let x = s.sub(x, shift);
            if self.square { s.mul_add(x, x, sum) } else { s.add(x, sum) }
        };
        let mut sums = [s.splat(0.0); 4];
        let (fours, rest) = self.x.as_chunks::<{ 4 * LANES }>();
        for x in fours {
            for (sum, x) in sums.iter_mut().zip(x.as_chunks::<LANES>().0) {
                *sum = term(s.load(x), *sum);
            }
        }
        for (i, x) in rest.chunks(LANES).enumerate() {
            // Lanes beyond the end hold `shift`, and so add zero.
            sums[i] = term(s.load_some(x, self.shift), sums[i]);
        }
        s.sum(s.add(s.add(sums[0], sums[1]), s.add(sums[2], sums[3])))
    }
}

/// `out = (x - shift) * scale * weight + bias`.
struct Affine<'a> {
    x: &'a [f32],
    shift: f32,
    scale: f32,
    weight: Option<&'a [f32]>,
    bias: Option<&'a [f32]>,
    out: &'a mut [f32],
}

impl Kernel for Affine<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (shift, scale) = (s.splat(self.shift), s.splat(self.scale));
        for (i, (x, out)) in self.x.chunks(LANES).zip(self.out.chunks_mut(LANES)).enumerate() {
            let mut y = s.mul(s.sub(s.load_some(x, 0.0), shift), scale);
            if let Some(w) = self.weight {
                y = s.mul(y, s.load_some(&w[i * LANES..][..x.len()], 0.0));
            }
            if let Some(b) = self.bias {
                y = s.add(y, s.load_some(&b[i * LANES..][..x.len()], 0.0));
            }
            s.store_some(y, out);
        }
    }
}
