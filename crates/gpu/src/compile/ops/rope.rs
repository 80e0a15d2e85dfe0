//! Rotary positions.

use super::{Lowered, count};
use crate::compile::{Input, Lowering, Recorder, Shape, Step, Symbol, Work};
use onebit_plan::{RopeStyle, Rows, Value, ops::ApplyRope};

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

pub(crate) fn lower(op: &ApplyRope, l: &mut Lowering<'_>) -> Lowered {
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
