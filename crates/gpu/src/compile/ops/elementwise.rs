//! Numbers one by one.

use super::{Lowered, count};
use crate::compile::{At, Lowering, Recorder, Scratch, Shape, Side, Step, Symbol, Work};
use onebit_plan::{Binary, Rows, Value, ops};
use std::ops::Range;

/// Threads of a workgroup.
const THREADS: usize = 256;

/// A kernel of `elementwise` over all numbers of a value: its operands, then the output; numbers behind the count.
struct Each {
    kernel: &'static str,
    operands: Vec<Value>,
    width: usize,
    rows: Rows,
    more: Vec<u32>,
    out: Value,
}

fn each(kernel: &'static str, operands: Vec<Value>, out: Value, more: Vec<u32>, l: &Lowering<'_>) -> Lowered {
    Ok(Box::new(Each { kernel, operands, width: l.width(out), rows: l.plan.value(out).rows, more, out }))
}

pub(crate) fn function(op: &ops::Elementwise, l: &mut Lowering<'_>) -> Lowered {
    each("function", vec![op.x], op.out, vec![op.f as u32], l)
}

pub(crate) fn glu(op: &ops::Glu, l: &mut Lowering<'_>) -> Lowered {
    each("gated", vec![op.gate, op.up], op.out, vec![op.f as u32], l)
}

/// Columns of gates, for these rows of `inner` gates and as many numbers that they gate.
pub(super) fn gated_rows(x: Value, y: Value, inner: usize, function: u32, rows: Range<usize>, out: &mut Recorder) {
    let numbers = rows.len() * inner;
    let x = Symbol::Value(x).at(8 * rows.start * inner);
    let codes = Symbol::Scratch(Scratch::Codes(Side::Inner)).at(rows.start * inner);
    let steps = Symbol::Scratch(Scratch::Steps(Side::Inner)).at(rows.start * inner / 4);
    let work = Work { bytes: 9 * numbers, ..Work::default() };
    // Neither limit nor offset, and the numbers themselves are not kept.
    let sizes = vec![inner as u32, numbers as u32, function, 0, 0, 0];
    out.dispatch(("elementwise", "gated_rows"), [numbers.div_ceil(4 * THREADS), 1, 1], vec![x, y.into(), codes, steps], sizes, work);
}

pub(crate) fn pairwise(op: &ops::Pairwise, l: &mut Lowering<'_>) -> Lowered {
    let what = match op.f {
        Binary::Add => 0,
        Binary::Mul => 1,
    };
    each("binary", vec![op.a, op.b], op.out, vec![l.width(op.a) as u32, l.width(op.b) as u32, what], l)
}

pub(crate) fn scale(op: &ops::Scale, l: &mut Lowering<'_>) -> Lowered {
    each("scale", vec![op.x], op.out, vec![op.by.to_bits()], l)
}

impl Step for Each {
    fn record(&self, shape: &Shape, out: &mut Recorder) {
        let numbers = count(shape, self.rows) * self.width;
        launch(self.kernel, &self.operands, self.out, numbers, &self.more, out);
    }
}

fn launch(kernel: &'static str, operands: &[Value], to: Value, numbers: usize, more: &[u32], out: &mut Recorder) {
    let pointers: Vec<At> = operands.iter().chain([&to]).map(|v| (*v).into()).collect();
    let work = Work { bytes: 4 * numbers * pointers.len(), ..Work::default() };
    out.dispatch(("elementwise", kernel), [numbers.div_ceil(THREADS), 1, 1], pointers, [&[numbers as u32], more].concat(), work);
}

/// `factor * x`.
pub(super) fn scaled(x: Value, to: Value, numbers: usize, factor: f32, out: &mut Recorder) {
    launch("scale", &[x], to, numbers, &[factor.to_bits()], out);
}
