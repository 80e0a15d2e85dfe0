//! Norms, with rounding to columns in the same pass where products read the result.

use super::{Lowered, count};
use crate::compile::{Form, Lowering, Recorder, Scratch, Shape, Side, Step, Symbol, Work};
use onebit_plan::{Rows, Value, WeightId, ops};
use std::ops::Range;

const WEIGHTED: u32 = 1;
const OWN: u32 = 2;
const ROUNDED: u32 = 4;
const CENTRED: u32 = 8;
const BIASED: u32 = 16;
const LENGTH: u32 = 32;

struct Norm {
    x: Value,
    weight: Option<Symbol>,
    bias: Option<Symbol>,
    /// Numbers of a run, and runs of a row.
    dim: usize,
    runs: usize,
    eps: f32,
    flags: u32,
    out: Value,
    rows: Rows,
}

/// What the norms have in common.
struct Spec {
    x: Value,
    weight: Option<Symbol>,
    own: bool,
    bias: Option<Symbol>,
    dim: usize,
    eps: f32,
    /// [`CENTRED`], [`LENGTH`] or neither.
    kind: u32,
    out: Value,
}

fn norm(s: Spec, l: &mut Lowering<'_>) -> Lowered {
    let rounded = s.dim.is_multiple_of(32) && l.wants_columns(s.out);
    if rounded {
        l.make_columns(s.out, Side::Stream);
    }
    let flag = |set: bool, flag: u32| if set { flag } else { 0 };
    let flags = flag(s.weight.is_some(), WEIGHTED) | flag(s.own, OWN) | flag(rounded, ROUNDED) | s.kind | flag(s.bias.is_some(), BIASED);
    let (runs, rows) = (l.width(s.out) / s.dim, l.plan.value(s.out).rows);
    Ok(Box::new(Norm { x: s.x, weight: s.weight, bias: s.bias, dim: s.dim, runs, eps: s.eps, flags, out: s.out, rows }))
}

fn own(l: &Lowering<'_>, weight: Option<WeightId>) -> bool {
    weight.is_some_and(|w| l.plan.weight(w).shape.len() > 1)
}

pub(crate) fn rms(op: &ops::RmsNorm, l: &mut Lowering<'_>) -> Lowered {
    let (own, weight) = (own(l, op.weight), op.weight.map(|w| l.weight(w, Form::Numbers)));
    norm(Spec { x: op.x, weight, own, bias: None, dim: op.dim, eps: op.eps, kind: 0, out: op.out }, l)
}

pub(crate) fn layer(op: &ops::LayerNorm, l: &mut Lowering<'_>) -> Lowered {
    let each = [own(l, op.weight), own(l, op.bias)];
    if op.weight.is_some() && op.bias.is_some() && each[0] != each[1] {
        return Err("runs have weights of their own, but share a bias, or the other way round".into());
    }
    let [weight, bias] = [op.weight, op.bias].map(|w| w.map(|w| l.weight(w, Form::Numbers)));
    norm(Spec { x: op.x, weight, own: each[0] || each[1], bias, dim: op.dim, eps: op.eps, kind: CENTRED, out: op.out }, l)
}

pub(crate) fn l2(op: &ops::L2Norm, l: &mut Lowering<'_>) -> Lowered {
    norm(Spec { x: op.x, weight: None, own: false, bias: None, dim: op.dim, eps: op.eps, kind: LENGTH, out: op.out }, l)
}

impl Norm {
    /// These rows.
    fn rows(&self, rows: Range<usize>, out: &mut Recorder) {
        let width = self.runs * self.dim;
        let [x, y] = [self.x, self.out].map(|v| Symbol::Value(v).at(4 * rows.start * width));
        // What is not there is never read.
        let [weight, bias] = [&self.weight, &self.bias].map(|w| w.as_ref().map_or_else(|| x.clone(), |w| w.at(0)));
        let (codes, steps) = match self.flags & ROUNDED {
            0 => (y.clone(), y.clone()),
            _ => {
                let codes = Symbol::Scratch(Scratch::Codes(Side::Stream)).at(rows.start * width);
                (codes, Symbol::Scratch(Scratch::Steps(Side::Stream)).at(rows.start * width / 4))
            }
        };
        let numbers = vec![self.dim as u32, self.runs as u32, self.eps.to_bits(), self.flags];
        let work = Work { bytes: 9 * rows.len() * width, ..Work::default() };
        out.dispatch(("norm", "norm"), [rows.len() * self.runs, 1, 1], vec![x, weight, bias, y, codes, steps], numbers, work);
    }
}

impl Step for Norm {
    fn record(&self, shape: &Shape, out: &mut Recorder) {
        self.rows(0..count(shape, self.rows), out);
    }
}

/// Rows of the RMS norm of a sum, with their columns.
pub(super) fn rms_columns(x: Value, weight: &Symbol, width: usize, eps: f32, y: Value, rows: Range<usize>, out: &mut Recorder) {
    let weight = Some(weight.clone());
    let norm = Norm { x, weight, bias: None, dim: width, runs: 1, eps, flags: WEIGHTED | ROUNDED, out: y, rows: Rows::Tokens };
    norm.rows(rows, out);
}
