//! Products.

use super::{Lowered, count, elementwise, norm};
use crate::compile::{
    At, Form, Lowering, Matrix, Recorder, Scratch, Shape, Side, Step, Symbol, Work,
    fuse::{self, Products},
    weight_bytes,
};
use onebit_plan::{Rows, Value, WeightId};
use std::ops::Range;

/// A bias is added.
const ADD_ROWS: u32 = 1;
/// Another value is added.
const ADD_COLUMNS: u32 = 2;
/// What a packet does besides its product: a gate of two products, rounding of blocks that are complete, the norm of what is complete.
const GLU: u32 = 4;
const ROUND: u32 = 8;
const NORM: u32 = 16;
/// Columns that a matrix-vector kernel takes at once.
const COLUMNS: usize = 8;
/// Rows of the matrix that a workgroup of one takes.
const ROWS: usize = 8;
/// Rows of gates that a workgroup takes.
const GATES: usize = 4;
/// Rows of a block of columns.
const BLOCK: usize = 32;
/// Rows and columns of a tile of the kernel with matrix instructions.
const TILE: usize = 64;
/// Numbers that a workgroup of `round_columns` takes.
const ROUNDED: usize = 1024;

struct Linear {
    x: Value,
    /// Where its columns are.
    side: Side,
    /// Whether they have yet to be rounded.
    rounds: bool,
    weight: Symbol,
    matrix: Matrix,
    /// Rows and columns of the matrix.
    shape: [usize; 2],
    weight_bytes: usize,
    bias: Option<Symbol>,
    residual: Option<Value>,
    then: Then,
    out: Value,
    rows: Rows,
}

/// What is done with the results.
enum Then {
    Nothing,
    /// A norm makes columns of the sum.
    Norm {
        weight: Symbol,
        eps: f32,
        out: Value,
    },
    /// A gate of both halves of the rows makes columns.
    Gate {
        function: u32,
        out: Value,
    },
}

pub(crate) fn lower(products: &Products<'_>, l: &mut Lowering<'_>) -> Lowered {
    let first = products.linears[0];
    let matrix = l.matrix(first.weight);
    let ids: Vec<WeightId> = products.linears.iter().map(|p| p.weight).collect();
    let weight_bytes = weight_bytes(ids.iter().map(|id| &l.weights[id.0 as usize]), matrix.form());
    let held = l.columns_of(first.x);
    let rounds = matches!(matrix, Matrix::Planes(_)) && held.is_none();
    if rounds {
        if l.without_numbers.contains(&first.x) {
            return Err("its columns were overwritten before it reads them".into());
        }
        l.make_columns(first.x, Side::Inner);
    }
    let side = held.unwrap_or(Side::Inner);
    let weight = l.stack(ids, matrix.form());
    let biases: Vec<WeightId> = products.linears.iter().filter_map(|p| p.bias).collect();
    let bias = (!biases.is_empty()).then(|| l.stack(biases, Form::Numbers));
    let (residual, out) = products.residual.map_or((None, first.out), |(other, sum)| (Some(other), sum));
    let (shape, rows) = ([l.stride(first.out), l.width(first.x)], l.plan.value(first.out).rows);
    let then = match products.then {
        fuse::Then::Nothing => Then::Nothing,
        fuse::Then::Norm(norm) => {
            let id = norm.weight.ok_or("a norm without a weight is not made with the sum")?;
            l.make_columns(norm.out, Side::Stream);
            l.scratch(Scratch::Counters, 4);
            l.without_numbers.push(norm.out);
            Then::Norm { weight: l.weight(id, Form::Numbers), eps: norm.eps, out: norm.out }
        }
        fuse::Then::Gate(gate) => {
            l.make_columns(gate.out, Side::Inner);
            l.scratch(Scratch::Counters, l.width(gate.out).div_ceil(BLOCK) * 4);
            l.without_numbers.push(gate.out);
            Then::Gate { function: gate.f as u32, out: gate.out }
        }
    };
    if matches!(then, Then::Norm { .. }) && side == Side::Stream {
        return Err("its columns would be overwritten while they are read".into());
    }
    Ok(Box::new(Linear { x: first.x, side, rounds, weight, matrix, shape, weight_bytes, bias, residual, then, out, rows }))
}

/// Rounds a value to columns.
pub(super) fn round(x: Value, width: usize, rows: usize, out: &mut Recorder) {
    round_rows(x, width, 0..rows, out);
}

/// Rounds some rows of a value to columns.
pub(super) fn round_rows(x: Value, width: usize, rows: Range<usize>, out: &mut Recorder) {
    let numbers = width * rows.len();
    let [codes, steps] = columns_at(Side::Inner, rows.start, width);
    let pointers = vec![Symbol::Value(x).at(4 * rows.start * width), codes, steps];
    let work = Work { bytes: 5 * numbers + numbers / 4, ..Work::default() };
    out.dispatch(("norm", "round_columns"), [numbers.div_ceil(ROUNDED), 1, 1], pointers, vec![numbers as u32], work);
}

/// Columns from `start` on, in a set whose columns are `width` long.
fn columns_at(side: Side, start: usize, width: usize) -> [At; 2] {
    [Symbol::Scratch(Scratch::Codes(side)).at(start * width), Symbol::Scratch(Scratch::Steps(side)).at(start * width / 4)]
}

impl Linear {
    fn work(&self, len: usize) -> Work {
        let [rows, width] = self.shape;
        Work { weights: self.weight_bytes, bytes: len * (4 * rows + 2 * width), products: rows * width * len }
    }

    /// What is added to the columns from `start` on, and how.
    fn added(&self, start: usize) -> (At, u32) {
        let rows = self.shape[0];
        match (&self.bias, self.residual) {
            (Some(bias), _) => (bias.at(0), ADD_ROWS),
            (None, Some(other)) => (Symbol::Value(other).at(4 * start * rows), ADD_COLUMNS),
            // Never read.
            (None, None) => (Symbol::Value(self.out).at(4 * start * rows), 0),
        }
    }

    /// The columns `start .. start + len` by matrix instructions, and what is done with them by packets of their own.
    fn wide(&self, object: &'static str, start: usize, len: usize, out: &mut Recorder) {
        let [rows, width] = self.shape;
        let [codes, steps] = columns_at(self.side, start, width);
        let (add, flags) = self.added(start);
        let pointers = vec![self.weight.at(0), codes, steps, add, Symbol::Value(self.out).at(4 * start * rows)];
        let numbers = vec![rows as u32, width as u32, len as u32, flags];
        out.dispatch((object, "matmul"), [rows.div_ceil(TILE), len.div_ceil(TILE), 1], pointers, numbers, self.work(len));
        match &self.then {
            Then::Nothing => {}
            Then::Norm { weight, eps, out: y } => norm::rms_columns(self.out, weight, rows, *eps, *y, start..start + len, out),
            Then::Gate { function, out: gated } => {
                elementwise::gated_rows(self.out, *gated, rows / 2, *function, start..start + len, out);
            }
        }
    }

    /// Up to [`COLUMNS`] columns.
    fn narrow(&self, object: &'static str, start: usize, len: usize, out: &mut Recorder) {
        let [rows, width] = self.shape;
        let [codes, steps] = columns_at(self.side, start, width);
        let (add, flags) = self.added(start);
        let y = Symbol::Value(self.out).at(4 * start * rows);
        let kernel = |name: &str| (object, format!("{name}_{}", len.next_power_of_two()));
        // Products of a mixture's experts are not made here: one matrix, no choices.
        let fused = |rows: usize, flags: u32, function: u32, eps: f32| {
            let sizes = [rows, width, len].map(|n| n as u32);
            [&sizes[..], &[flags, 1, 1, function, 0, 0, eps.to_bits()]].concat()
        };
        let work = self.work(len);
        let mut product = || {
            let numbers = vec![rows as u32, width as u32, len as u32, flags];
            let pointers = vec![self.weight.at(0), codes.clone(), steps.clone(), add.clone(), y.clone()];
            out.dispatch(kernel("matvec"), [rows.div_ceil(ROWS), 1, 1], pointers, numbers, work);
        };
        match &self.then {
            Then::Nothing => product(),
            // The columns of the gate would be written where those are read.
            Then::Gate { function, out: gated } if self.side == Side::Inner => {
                product();
                elementwise::gated_rows(self.out, *gated, rows / 2, *function, start..start + len, out);
            }
            Then::Norm { weight, eps, .. } => {
                let [to_codes, to_steps] = columns_at(Side::Stream, start, rows);
                let unused = [y.clone(), y.clone()];
                let pointers = [self.weight.at(0), codes, steps, add, y].into_iter().chain(unused);
                let pointers = pointers.chain([weight.at(0), to_codes, to_steps, Scratch::Counters.into()]).collect();
                out.dispatch(kernel("fused"), [rows.div_ceil(ROWS), 1, 1], pointers, fused(rows, flags | NORM, 0, *eps), work);
            }
            Then::Gate { function, out: gated } => {
                let inner = rows / 2;
                let y = Symbol::Value(*gated).at(4 * start * inner);
                let [to_codes, to_steps] = columns_at(Side::Inner, start, inner);
                let unused = [y.clone(), y.clone(), y.clone()];
                let pointers = [self.weight.at(0), codes, steps, y.clone(), y].into_iter().chain(unused);
                let pointers = pointers.chain([to_codes, to_steps, Scratch::Counters.into()]).collect();
                out.dispatch(kernel("fused"), [inner.div_ceil(GATES), 1, 1], pointers, fused(inner, GLU | ROUND, *function, 0.0), work);
            }
        }
    }

    /// Up to [`COLUMNS`] columns of plain numbers.
    fn plain(&self, name: &str, start: usize, len: usize, out: &mut Recorder) {
        let [rows, width] = self.shape;
        let (add, flags) = self.added(start);
        let [x, y] = [(self.x, width), (self.out, rows)].map(|(v, each)| Symbol::Value(v).at(4 * start * each));
        let numbers = vec![rows as u32, width as u32, len as u32, flags];
        let kernel = format!("matvec_{name}_{}", len.next_power_of_two());
        out.dispatch(("floats", kernel), [rows.div_ceil(4), 1, 1], vec![self.weight.at(0), x, add, y], numbers, self.work(len));
    }
}

impl Step for Linear {
    fn record(&self, shape: &Shape, out: &mut Recorder) {
        if self.rounds {
            round(self.x, self.shape[1], count(shape, self.rows), out);
        }
        let runs = match self.rows {
            Rows::Tokens => &shape.runs,
            Rows::Outputs => &shape.output_runs,
        };
        for run in runs {
            match self.matrix {
                Matrix::Planes(object) if run.wide => {
                    self.wide(object, run.start, run.len, out);
                    continue;
                }
                _ => {}
            }
            for at in (0..run.len).step_by(COLUMNS) {
                let (start, len) = (run.start + at, COLUMNS.min(run.len - at));
                match self.matrix {
                    Matrix::Planes(object) => self.narrow(object, start, len, out),
                    Matrix::Plain(name, _) => self.plain(name, start, len, out),
                }
            }
        }
    }
}
