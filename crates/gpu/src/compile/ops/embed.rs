//! Rows of tables, and of values.

use super::{Lowered, count, elementwise};
use crate::compile::{Input, Lowering, Matrix, Recorder, Shape, Step, Symbol, Work, weight_bytes};
use onebit_plan::{Rows, Value, ops};

struct Embed {
    object: &'static str,
    kernel: String,
    table: Symbol,
    row_bytes: usize,
    ids: Input,
    rows: usize,
    width: usize,
    scale: f32,
    out: Value,
}

pub(crate) fn lower(op: &ops::Embed, l: &mut Lowering<'_>) -> Lowered {
    let matrix = l.matrix(op.weight);
    let weight = &l.weights[op.weight.0 as usize];
    let (rows, row_bytes) = (weight.rows(), weight_bytes(std::iter::once(weight), matrix.form()) / weight.rows().max(1));
    let (object, kernel) = match matrix {
        Matrix::Planes(object) => (object, "embed".to_string()),
        Matrix::Plain(name, _) => ("floats", format!("embed_{name}")),
    };
    let table = l.weight(op.weight, matrix.form());
    let ids = l.input(Input::Row(op.by, rows));
    Ok(Box::new(Embed { object, kernel, table, row_bytes, ids, rows, width: l.width(op.out), scale: op.scale, out: op.out }))
}

impl Step for Embed {
    fn record(&self, shape: &Shape, out: &mut Recorder) {
        let pointers = vec![self.table.at(0), self.ids.into(), self.out.into()];
        let work = Work { bytes: shape.tokens * (self.row_bytes + 4 * self.width), ..Work::default() };
        let numbers = vec![self.rows as u32, self.width as u32];
        out.dispatch((self.object, self.kernel.clone()), [shape.tokens, 1, 1], pointers, numbers, work);
        if self.scale != 1.0 {
            elementwise::scaled(self.out, self.out, shape.tokens * self.width, self.scale, out);
        }
    }
}

struct Select {
    x: Value,
    tokens: Input,
    width: usize,
    out: Value,
}

pub(crate) fn select(op: &ops::Select, l: &mut Lowering<'_>) -> Lowered {
    let tokens = l.input(Input::Output);
    Ok(Box::new(Select { x: op.x, tokens, width: l.width(op.x), out: op.out }))
}

impl Step for Select {
    fn record(&self, shape: &Shape, out: &mut Recorder) {
        let pointers = vec![self.x.into(), self.tokens.into(), self.out.into()];
        let work = Work { bytes: 8 * shape.outputs * self.width, ..Work::default() };
        out.dispatch(("elementwise", "rows"), [shape.outputs, 1, 1], pointers, vec![self.width as u32], work);
    }
}

/// A value that stays what it is, as no token is given another row.
struct Same {
    x: Value,
    width: usize,
    rows: Rows,
    out: Value,
}

pub(crate) fn given(op: &ops::Given, l: &mut Lowering<'_>) -> Lowered {
    let x = op.x.ok_or("tokens are given no rows yet")?;
    Ok(Box::new(Same { x, width: l.width(x), rows: l.plan.value(op.out).rows, out: op.out }))
}

impl Step for Same {
    fn record(&self, shape: &Shape, out: &mut Recorder) {
        out.copy(self.x, self.out, 4 * count(shape, self.rows) * self.width);
    }
}
