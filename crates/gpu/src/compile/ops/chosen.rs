//! A product for each run of a row, or for each choice of a token: one matrix of many.

use super::{Lowered, count, experts::shares, linear};
use crate::compile::{At, Form, Lowering, Matrix, Recorder, Run, Scratch, Shape, Side, Step, Symbol, Work, weight_bytes};
use onebit_plan::{Rows, Value, WeightId, ops};

/// For kernels of planes: a bias, one matrix of many, its share, a column of each choice's own, a choice for each matrix.
const ADD_ROWS: u32 = 1;
const EACH: u32 = 32;
const GIVEN: u32 = 128;
const APART: u32 = 256;
const EVERY: u32 = 512;
/// The same for those of plain numbers.
const PLAIN_APART: u32 = 4;
const PLAIN_GIVEN: u32 = 8;
const PLAIN_EVERY: u32 = 16;
/// Rows of a workgroup, and of a tile; and matrices that tiles can be made of.
const ROWS: usize = 8;
const PLAIN_ROWS: usize = 4;
const TILE: usize = 64;
const MOST: usize = 1024;

/// What the products are.
struct Products {
    x: Value,
    weight: WeightId,
    transposed: bool,
    bias: Option<WeightId>,
    /// Which matrices, and for each product its share; none where there is a product for each matrix.
    route: Option<Value>,
    weighted: bool,
    out: Value,
}

struct Chosen {
    x: Value,
    weight: Symbol,
    matrix: Matrix,
    bias: Option<Symbol>,
    /// The choices, and the bytes from them to their shares.
    route: Option<(Value, usize)>,
    weighted: bool,
    /// Whether each product has a run of x, not all of it.
    apart: bool,
    matrices: usize,
    /// Products of a token.
    choices: usize,
    /// Rows and columns of a matrix.
    shape: [usize; 2],
    /// Bytes of a matrix.
    bytes: usize,
    side: Side,
    rounds: bool,
    rows: Rows,
    out: Value,
}

pub(crate) fn block_linear(op: &ops::BlockLinear, l: &mut Lowering<'_>) -> Lowered {
    let &ops::BlockLinear { x, weight, transposed, bias, out } = op;
    lower(Products { x, weight, transposed, bias, route: None, weighted: false, out }, l)
}

pub(crate) fn chosen_linear(op: &ops::ChosenLinear, l: &mut Lowering<'_>) -> Lowered {
    let &ops::ChosenLinear { x, route, weight, weighted, out } = op;
    lower(Products { x, weight, transposed: false, bias: None, route: Some(route), weighted, out }, l)
}

fn lower(p: Products, l: &mut Lowering<'_>) -> Lowered {
    let dimensions = &l.plan.weight(p.weight).shape;
    let [matrices, rows, width] = [0, if p.transposed { 2 } else { 1 }, if p.transposed { 1 } else { 2 }].map(|i| dimensions[i]);
    let choices = p.route.map_or(matrices, |route| l.width(route));
    let rows_of = l.plan.value(p.out).rows;
    if p.route.is_some() && rows_of != Rows::Tokens {
        return Err("rows of outputs choose no matrices".into());
    }
    let matrix = match l.matrix(p.weight) {
        _ if p.transposed => Matrix::Plain("f32", Form::Turned),
        // Tiles are counted for so many matrices, and a column of a run begins with a block.
        Matrix::Planes(_) if matrices > MOST || !width.is_multiple_of(32) => Matrix::Plain("f32", Form::Numbers),
        matrix => matrix,
    };
    let held = l.columns_of(p.x);
    let rounds = matches!(matrix, Matrix::Planes(_)) && held.is_none();
    if rounds {
        if l.without_numbers.contains(&p.x) {
            return Err("its columns were overwritten before it reads them".into());
        }
        l.make_columns(p.x, Side::Inner);
    }
    if matches!(matrix, Matrix::Planes(_)) {
        let pairs = l.most_rows(rows_of) * choices;
        l.scratch(Scratch::Order, 4 * pairs);
        l.scratch(Scratch::Tiles, 4 * (1 + 3 * (pairs / TILE + matrices)));
    }
    Ok(Box::new(Chosen {
        x: p.x,
        weight: l.weight(p.weight, matrix.form()),
        matrix,
        bias: p.bias.map(|w| l.weight(w, Form::Numbers)),
        route: p.route.map(|route| (route, shares(l, route))),
        weighted: p.weighted,
        apart: l.width(p.x) != width,
        matrices,
        choices,
        shape: [rows, width],
        bytes: weight_bytes(std::iter::once(&l.weights[p.weight.0 as usize]), matrix.form()) / matrices.max(1),
        side: held.unwrap_or(Side::Inner),
        rounds,
        rows: rows_of,
        out: p.out,
    }))
}

impl Chosen {
    fn flags(&self, [biased, given, apart, every]: [u32; 4]) -> u32 {
        let flag = |set: bool, flag: u32| if set { flag } else { 0 };
        flag(self.bias.is_some(), biased) | flag(self.weighted, given) | flag(self.apart, apart) | flag(self.route.is_none(), every)
    }

    /// Numbers of x that a token has.
    fn x_width(&self) -> usize {
        if self.apart { self.choices * self.shape[1] } else { self.shape[1] }
    }

    /// Choices and shares of the tokens from `start` on; where there are none, what is never read.
    fn route(&self, start: usize, unread: &At) -> [At; 2] {
        let before = 4 * start * self.choices;
        let route = |(route, shares): (Value, usize)| [0, shares].map(|at| Symbol::Value(route).at(at + before));
        self.route.map_or_else(|| [unread.clone(), unread.clone()], route)
    }

    fn work(&self, tokens: usize) -> Work {
        let ([rows, width], pairs) = (self.shape, tokens * self.choices);
        Work { weights: self.bytes * pairs.min(self.matrices), bytes: 4 * pairs * (rows + width), products: pairs * rows * width }
    }

    fn plain(&self, name: &str, tokens: usize, out: &mut Recorder) {
        let [rows, width] = self.shape;
        let x = At::from(self.x);
        let [chosen, shares] = self.route(0, &x);
        let bias = self.bias.as_ref().map_or_else(|| x.clone(), |b| b.at(0));
        let flags = self.flags([ADD_ROWS, PLAIN_GIVEN, PLAIN_APART, PLAIN_EVERY]);
        let numbers = [rows, width, self.matrices, self.choices].map(|n| n as u32).into_iter().chain([flags]).collect();
        let grid = [rows.div_ceil(PLAIN_ROWS), tokens * self.choices, 1];
        let pointers = vec![self.weight.at(0), x, bias, self.out.into(), chosen, shares];
        out.dispatch(("floats", format!("experts_{name}")), grid, pointers, numbers, self.work(tokens));
    }

    fn planes(&self, object: &'static str, run: &Run, out: &mut Recorder) {
        let ([rows, width], pairs) = (self.shape, run.len * self.choices);
        let before = run.start * self.x_width();
        let codes = Symbol::Scratch(Scratch::Codes(self.side)).at(before);
        let steps = Symbol::Scratch(Scratch::Steps(self.side)).at(before / 4);
        let y = Symbol::Value(self.out).at(4 * run.start * self.choices * rows);
        let [chosen, shares] = self.route(run.start, &y);
        let bias = self.bias.as_ref().map_or_else(|| y.clone(), |b| b.at(0));
        let [rows_of, width_of, matrices, choices] = [rows, width, self.matrices, self.choices].map(|n| n as u32);
        if !run.wide {
            let flags = EACH | self.flags([ADD_ROWS, GIVEN, APART, EVERY]);
            let pointers = [self.weight.at(0), codes, steps, bias, y.clone(), chosen, shares].into_iter();
            let pointers = pointers.chain([y.clone(), y.clone(), y.clone(), y]).collect();
            let numbers = vec![rows_of, width_of, 1, flags, matrices, choices, 0, 0, 0, 0];
            out.dispatch((object, "fused_1"), [rows.div_ceil(ROWS), pairs, 1], pointers, numbers, self.work(run.len));
            return;
        }
        let (order, tiles) = (At::from(Scratch::Order), At::from(Scratch::Tiles));
        let count = vec![pairs as u32, matrices, u32::from(self.route.is_none())];
        let small = Work { bytes: 8 * pairs, ..Work::default() };
        out.dispatch(("moe", "group"), [1, 1, 1], vec![chosen, order.clone(), tiles.clone()], count, small);
        let flags = self.flags([ADD_ROWS, GIVEN, 0, 0]) | if self.apart { 0 } else { EACH };
        let grid = [rows.div_ceil(TILE), pairs / TILE + self.matrices, 1];
        let pointers = vec![self.weight.at(0), codes, steps, bias, y, order, tiles, shares];
        out.dispatch((object, "matmul_experts"), grid, pointers, vec![rows_of, width_of, matrices, choices, flags], self.work(run.len));
    }
}

impl Step for Chosen {
    fn record(&self, shape: &Shape, out: &mut Recorder) {
        if self.rounds {
            linear::round(self.x, self.x_width(), count(shape, self.rows), out);
        }
        let runs = match self.rows {
            Rows::Tokens => &shape.runs,
            Rows::Outputs => &shape.output_runs,
        };
        match self.matrix {
            Matrix::Planes(object) => runs.iter().for_each(|run| self.planes(object, run, out)),
            Matrix::Plain(name, _) => self.plain(name, count(shape, self.rows), out),
        }
    }
}
