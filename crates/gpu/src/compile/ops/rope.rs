//! Positions: rotary, and as rows of sines.

use super::{Lowered, count};
use crate::compile::{Input, Lowering, Recorder, Shape, Step, Symbol, Work};
use onebit_plan::{RopeStyle, Rows, Value, ops};

struct Rope {
    x: Value,
    positions: Input,
    frequencies: Symbol,
    width: usize,
    head: usize,
    pairs: usize,
    neighbours: bool,
    scale: f32,
    out: Value,
    rows: Rows,
}

pub(crate) fn lower(op: &ops::ApplyRope, l: &mut Lowering<'_>) -> Lowered {
    let rows = l.plan.value(op.out).rows;
    if rows != Rows::Tokens {
        return Err("rows of outputs are not turned".into());
    }
    // Where positions have several axes, those of a text are the same on all of them.
    let positions = l.input(Input::Position(op.shift));
    let frequencies = l.constant(op.rope.frequencies.iter().copied());
    let (width, pairs) = (l.width(op.x), op.rope.frequencies.len());
    let neighbours = op.rope.style == RopeStyle::Pairs;
    Ok(Box::new(Rope { x: op.x, positions, frequencies, width, head: op.head, pairs, neighbours, scale: op.rope.scale, out: op.out, rows }))
}

impl Step for Rope {
    fn record(&self, shape: &Shape, out: &mut Recorder) {
        let rows = count(shape, self.rows);
        let pointers = vec![self.x.into(), self.positions.into(), self.frequencies.at(0), self.out.into()];
        let numbers = [self.width, self.head, self.pairs, usize::from(self.neighbours)].map(|n| n as u32);
        let numbers = [&numbers[..], &[self.scale.to_bits()]].concat();
        let work = Work { bytes: 8 * rows * self.width, ..Work::default() };
        out.dispatch(("rope", "rope"), [rows, 1, 1], pointers, numbers, work);
    }
}

struct Sinusoid {
    positions: Input,
    frequencies: Symbol,
    pairs: usize,
    offset: usize,
    out: Value,
}

pub(crate) fn sinusoid(op: &ops::Sinusoid, l: &mut Lowering<'_>) -> Lowered {
    if l.plan.value(op.out).rows != Rows::Tokens {
        return Err("rows of outputs have no positions".into());
    }
    let (positions, pairs) = (l.input(Input::Position(0)), op.frequencies.len());
    let frequencies = l.constant(op.frequencies.iter().copied());
    Ok(Box::new(Sinusoid { positions, frequencies, pairs, offset: op.offset, out: op.out }))
}

impl Step for Sinusoid {
    fn record(&self, shape: &Shape, out: &mut Recorder) {
        let pointers = vec![self.positions.into(), self.frequencies.at(0), self.out.into()];
        let work = Work { bytes: 8 * shape.tokens * self.pairs, ..Work::default() };
        out.dispatch(("rope", "sinusoid"), [shape.tokens, 1, 1], pointers, vec![self.pairs as u32, self.offset as u32], work);
    }
}
