//! Numbers brought to other places, and functions of them that need more than the number itself (`kernels/arrange.hip.cpp`).

use super::{Lowered, count};
use crate::compile::{At, Form, Input, Lowering, Recorder, Shape, Step, Work};
use onebit_plan::{Binary, RoundRows, Rows, Value, ops};

/// Threads of a workgroup.
const THREADS: usize = 256;

/// A kernel that makes `width` numbers for each row, one for each thread.
struct Each {
    kernel: &'static str,
    operands: Vec<At>,
    width: usize,
    rows: Rows,
    /// Numbers behind the count.
    more: Vec<u32>,
    out: Value,
}

impl Step for Each {
    fn record(&self, shape: &Shape, out: &mut Recorder) {
        let numbers = count(shape, self.rows) * self.width;
        let pointers = self.operands.iter().cloned().chain([self.out.into()]).collect();
        let work = Work { bytes: 8 * numbers, ..Work::default() };
        let numbers_of = [&[numbers as u32], &self.more[..]].concat();
        out.dispatch(("arrange", self.kernel), [numbers.div_ceil(THREADS), 1, 1], pointers, numbers_of, work);
    }
}

fn each(kernel: &'static str, operands: Vec<At>, out: Value, width: usize, more: Vec<u32>, l: &Lowering<'_>) -> Each {
    Each { kernel, operands, width, rows: l.plan.value(out).rows, more, out }
}

fn sizes<const N: usize>(numbers: [usize; N]) -> Vec<u32> {
    numbers.map(|n| n as u32).to_vec()
}

pub(crate) fn slice(op: &ops::Slice, l: &mut Lowering<'_>) -> Lowered {
    let more = sizes([op.len, l.width(op.x) / op.groups, op.start, op.len, 0]);
    Ok(Box::new(each("runs", vec![op.x.into()], op.out, op.groups * op.len, more, l)))
}

/// Both halves of each run.
struct Both([Each; 2]);

impl Step for Both {
    fn record(&self, shape: &Shape, out: &mut Recorder) {
        self.0.iter().for_each(|half| half.record(shape, out));
    }
}

pub(crate) fn concat(op: &ops::Concat, l: &mut Lowering<'_>) -> Lowered {
    let [a, b] = [op.a, op.b].map(|v| l.width(v) / op.groups);
    let half = |x: Value, length: usize, start: usize, l: &Lowering<'_>| {
        each("runs", vec![x.into()], op.out, op.groups * length, sizes([length, length, 0, a + b, start]), l)
    };
    Ok(Box::new(Both([half(op.a, a, 0, l), half(op.b, b, a, l)])))
}

pub(crate) fn transpose(op: &ops::Transpose, l: &mut Lowering<'_>) -> Lowered {
    let width = l.width(op.out);
    let more = sizes([width / (op.rows * op.columns), op.rows, op.columns]);
    Ok(Box::new(each("transposed", vec![op.x.into()], op.out, width, more, l)))
}

pub(crate) fn sum(op: &ops::Sum, l: &mut Lowering<'_>) -> Lowered {
    let width = l.width(op.out);
    Ok(Box::new(each("sums", vec![op.x.into()], op.out, width, sizes([width / op.groups, op.count]), l)))
}

pub(crate) fn clamp(op: &ops::Clamp, l: &mut Lowering<'_>) -> Lowered {
    let more = vec![op.low.to_bits(), op.high.to_bits()];
    Ok(Box::new(each("clamped", vec![op.x.into()], op.out, l.width(op.out), more, l)))
}

pub(crate) fn xielu(op: &ops::Xielu, l: &mut Lowering<'_>) -> Lowered {
    let more = [op.alpha_p, op.alpha_n, op.beta, op.eps].map(f32::to_bits).to_vec();
    Ok(Box::new(each("xielu", vec![op.x.into()], op.out, l.width(op.out), more, l)))
}

pub(crate) fn weighted(op: &ops::WeightedBinary, l: &mut Lowering<'_>) -> Lowered {
    let what = match op.f {
        Binary::Add => 0,
        Binary::Mul => 1,
    };
    let (width, length) = (l.width(op.out), l.weights[op.weight.0 as usize].values());
    let weight = l.weight(op.weight, Form::Numbers);
    Ok(Box::new(each("weighted", vec![op.x.into(), weight.into()], op.out, width, sizes([width, length, what]), l)))
}

pub(crate) fn position_scale(op: &ops::PositionScale, l: &mut Lowering<'_>) -> Lowered {
    if l.plan.value(op.out).rows != Rows::Tokens {
        return Err("rows of outputs are not scaled by position".into());
    }
    let (width, factors) = (l.width(op.out), l.input(Input::Factor(op.beta.to_bits(), op.every, op.shift)));
    Ok(Box::new(each("by_row", vec![op.x.into(), factors.into()], op.out, width, sizes([width]), l)))
}

struct Rounded {
    x: Value,
    width: usize,
    rows: Rows,
    out: Value,
}

pub(crate) fn round_rows(op: &RoundRows, l: &mut Lowering<'_>) -> Lowered {
    Ok(Box::new(Rounded { x: op.x, width: l.width(op.x), rows: l.plan.value(op.out).rows, out: op.out }))
}

impl Step for Rounded {
    fn record(&self, shape: &Shape, out: &mut Recorder) {
        let rows = count(shape, self.rows);
        let work = Work { bytes: 12 * rows * self.width, ..Work::default() };
        out.dispatch(("arrange", "rounded_rows"), [rows, 1, 1], vec![self.x.into(), self.out.into()], vec![self.width as u32], work);
    }
}
