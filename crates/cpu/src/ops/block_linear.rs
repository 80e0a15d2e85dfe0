//! A block-diagonal product, with matrices stored one row for each number of the input.

use super::{
    Row, RowOp,
    simd::{Kernel, LANES, Simd, dispatch},
};
use crate::{exec::step::StepView, isa::Isa};
use std::sync::Arc;

pub(crate) struct BlockLinear {
    /// `[runs][numbers in a run of x][numbers in a run of the output]`.
    pub(crate) weight: Arc<[f32]>,
    pub(crate) bias: Option<Arc<[f32]>>,
    pub(crate) runs: usize,
    pub(crate) isa: Isa,
}

impl RowOp for BlockLinear {
    fn run(&self, _: &StepView<'_>, _: Row, inputs: &[&[f32]], out: &mut [f32]) {
        let (from, to) = (inputs[0].len() / self.runs, out.len() / self.runs);
        let runs = inputs[0].chunks_exact(from).zip(out.chunks_exact_mut(to)).zip(self.weight.chunks_exact(from * to));
        for (r, ((x, out), weight)) in runs.enumerate() {
            let bias = self.bias.as_ref().map(|b| &b[r * to..(r + 1) * to]);
            dispatch(self.isa, Product { x, weight, bias, out });
        }
    }
}

/// `out = x weight + bias`.
struct Product<'a> {
    x: &'a [f32],
    weight: &'a [f32],
    bias: Option<&'a [f32]>,
    out: &'a mut [f32],
}

impl Kernel for Product<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let width = self.out.len();
        for (i, out) in self.out.chunks_mut(LANES).enumerate() {
            let columns = i * LANES..i * LANES + out.len();
            let mut sum = self.bias.map_or(s.splat(0.0), |b| s.load_some(&b[columns.clone()], 0.0));
            for (x, row) in self.x.iter().zip(self.weight.chunks_exact(width)) {
                sum = s.mul_add(s.splat(*x), s.load_some(&row[columns.clone()], 0.0), sum);
            }
            s.store_some(sum, out);
        }
    }
}
