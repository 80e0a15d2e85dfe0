//! Rows of tables, and of values.

use super::{Lowered, count, elementwise};
use crate::compile::{At, Input, Lowering, Matrix, Recorder, Scratch, Shape, Step, Symbol, Work, weight_bytes};
use onebit_plan::{Rows, StateId, Value, WeightId, ops};

struct Embed {
    table: Table,
    ids: Input,
    width: usize,
    scale: f32,
    out: Value,
}

/// A table, and how its rows are read.
struct Table {
    object: &'static str,
    kernel: String,
    table: Symbol,
    row_bytes: usize,
    rows: usize,
    width: usize,
}

impl Table {
    fn new(weight: WeightId, l: &mut Lowering<'_>) -> Self {
        let matrix = l.matrix(weight);
        let table = &l.weights[weight.0 as usize];
        let (rows, width) = (table.rows(), table.columns());
        let row_bytes = weight_bytes(std::iter::once(table), matrix.form()) / rows.max(1);
        let (object, kernel) = match matrix {
            Matrix::Planes(object) => (object, "embed".to_string()),
            Matrix::Plain(name, _) => ("floats", format!("embed_{name}")),
        };
        Self { object, kernel, table: l.weight(weight, matrix.form()), row_bytes, rows, width }
    }

    /// Reads `count` rows whose numbers are at `ids`.
    fn read(&self, ids: impl Into<At>, to: Value, count: usize, out: &mut Recorder) {
        let pointers = vec![self.table.at(0), ids.into(), to.into()];
        let work = Work { bytes: count * (self.row_bytes + 4 * self.width), ..Work::default() };
        let numbers = vec![self.rows as u32, self.width as u32];
        out.dispatch((self.object, self.kernel.clone()), [count, 1, 1], pointers, numbers, work);
    }
}

pub(crate) fn lower(op: &ops::Embed, l: &mut Lowering<'_>) -> Lowered {
    let table = Table::new(op.weight, l);
    let ids = l.input(Input::Row(op.by, table.rows));
    Ok(Box::new(Embed { table, ids, width: l.width(op.out), scale: op.scale, out: op.out }))
}

impl Step for Embed {
    fn record(&self, shape: &Shape, out: &mut Recorder) {
        self.table.read(self.ids, self.out, shape.tokens, out);
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

/// Tokens of an n-gram at most.
const MOST_TOKENS: usize = 8;

struct Ngram {
    table: Table,
    tokens: Input,
    multipliers: Symbol,
    heads: Symbol,
    state: StateId,
    /// Tokens of the longest n-gram, heads, the token that ends a text.
    numbers: [u32; 3],
    out: Value,
}

/// The bits of a number of 64 bits, the lower half first.
fn halves(n: u64) -> [u32; 2] {
    [n as u32, (n >> 32) as u32]
}

pub(crate) fn ngram(op: &ops::NgramEmbed, l: &mut Lowering<'_>) -> Lowered {
    let most = op.multipliers.len();
    if most > MOST_TOKENS {
        return Err(format!("n-grams of {most} tokens: the kernel takes up to {MOST_TOKENS}"));
    }
    let table = Table::new(op.weight, l);
    if u32::try_from(table.rows).is_err() {
        return Err(format!("a table of {} rows: they are counted in 32 bits", table.rows));
    }
    l.scratch(Scratch::Rows, 4 * l.limits.batch * op.heads.len());
    l.input(Input::Sequence);
    Ok(Box::new(Ngram {
        table,
        tokens: l.input(Input::Row(ops::Lookup::Token, l.plan.vocabulary)),
        multipliers: l.words(op.multipliers.iter().flat_map(|m| halves(*m)).collect()),
        heads: l.words(op.heads.iter().flat_map(|h| [h.tokens as u64, h.size, h.first]).flat_map(halves).collect()),
        state: op.state,
        numbers: [most, op.heads.len(), op.boundary as usize].map(|n| n as u32),
        out: op.out,
    }))
}

impl Step for Ngram {
    fn record(&self, shape: &Shape, out: &mut Recorder) {
        let rows = At::from(Scratch::Rows);
        let tables = [self.multipliers.at(0), self.heads.at(0), Symbol::Fixed(self.state).into(), rows.clone()];
        let pointers = [self.tokens, Input::Sequence].map(At::from).into_iter().chain(tables).collect();
        let count = shape.tokens * self.numbers[1] as usize;
        let work = Work { bytes: 4 * (shape.tokens + count), ..Work::default() };
        out.dispatch(("ngram", "ngram_rows"), [shape.spans, 1, 1], pointers, self.numbers.to_vec(), work);
        self.table.read(rows, self.out, count, out);
    }
}
