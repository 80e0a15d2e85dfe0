//! Rotary position embedding.
//!
//! Cosines and sines of a token are computed once in a step by [`Table`], a row op that makes a value of its own, and
//! read by every layer's [`Turn`].

use super::{
    Row, RowOp,
    simd::{Kernel, LANES, Simd, dispatch},
};
use crate::{exec::step::StepView, isa::Isa};
use onebit_plan::{Rope, RopeStyle};

/// Makes the cosines of all pairs, then their sines, times the rotation's scale.
pub(crate) struct Table {
    pub(crate) rope: Rope,
    /// Added to the position.
    pub(crate) shift: i32,
}

impl Table {
    /// Numbers in a row.
    pub(crate) fn width(rope: &Rope) -> usize {
        rope.dims()
    }
}

impl RowOp for Table {
    fn run(&self, view: &StepView<'_>, row: Row, _: &[&[f32]], out: &mut [f32]) {
        let (cos, sin) = out.split_at_mut(self.rope.frequencies.len());
        let position = view.axes(row).map(|position| position + i64::from(self.shift));
        for ((angle, cos), sin) in self.rope.angles(position).zip(cos).zip(sin) {
            *cos = angle.cos() * self.rope.scale;
            *sin = angle.sin() * self.rope.scale;
        }
    }
}

/// Turns each head; inputs are the heads and the table's row.
pub(crate) struct Turn {
    pub(crate) head: usize,
    pub(crate) style: RopeStyle,
    pub(crate) isa: Isa,
}

impl RowOp for Turn {
    fn run(&self, _: &StepView<'_>, _: Row, inputs: &[&[f32]], out: &mut [f32]) {
        let (x, table) = (inputs[0], inputs[1]);
        let (cos, sin) = table.split_at(table.len() / 2);
        for (x, out) in x.chunks_exact(self.head).zip(out.chunks_exact_mut(self.head)) {
            out[table.len()..].copy_from_slice(&x[table.len()..]);
            let (x, out) = (&x[..table.len()], &mut out[..table.len()]);
            match self.style {
                RopeStyle::Halves => dispatch(self.isa, Halves { x, cos, sin, out }),
                RopeStyle::Pairs => pairs(x, cos, sin, out),
            }
        }
    }
}

struct Halves<'a> {
    x: &'a [f32],
    cos: &'a [f32],
    sin: &'a [f32],
    out: &'a mut [f32],
}

impl Kernel for Halves<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let n = self.cos.len();
        let (xa, xb) = self.x.split_at(n);
        let (oa, ob) = self.out.split_at_mut(n);
        for i in (0..n).step_by(LANES) {
            let to = (i + LANES).min(n);
            let (a, b) = (s.load_some(&xa[i..to], 0.0), s.load_some(&xb[i..to], 0.0));
            let (cos, sin) = (s.load_some(&self.cos[i..to], 0.0), s.load_some(&self.sin[i..to], 0.0));
            s.store_some(s.sub(s.mul(a, cos), s.mul(b, sin)), &mut oa[i..to]);
            s.store_some(s.add(s.mul(b, cos), s.mul(a, sin)), &mut ob[i..to]);
        }
    }
}

fn pairs(x: &[f32], cos: &[f32], sin: &[f32], out: &mut [f32]) {
    let angles = cos.iter().zip(sin);
    for (([a, b], [oa, ob]), (cos, sin)) in x.as_chunks::<2>().0.iter().zip(out.as_chunks_mut::<2>().0).zip(angles) {
        *oa = a * cos - b * sin;
        *ob = b * cos + a * sin;
    }
}
