//! Mixtures of experts whose matrices are planes: two packets for a few tokens, tiles of choices of the same expert for many.

use super::{Lowered, experts::shares, linear};
use crate::compile::{At, Form, Lowering, Recorder, Scratch, Shape, Side, Step, Symbol, Work, weight_bytes};
use onebit_plan::{Value, Weigh, ops};

const ADD_ROWS: u32 = 1;
const GLU: u32 = 4;
const ROUND: u32 = 8;
const EACH: u32 = 32;
const ALL: u32 = 64;
const GIVEN: u32 = 128;
/// In `combine`: the choices' shares are applied.
const SHARED_OUT: u32 = 2;
/// Rows of a workgroup: of gates, of a product, of a tile, of a sum.
const GATES: usize = 4;
const ROWS: usize = 8;
const TILE: usize = 64;
const SUMS: usize = 128;
/// Numbers of a workgroup of `gated_rows`.
const GATED: usize = 1024;

struct Mixture {
    x: Value,
    side: Side,
    rounds: bool,
    route: Value,
    shares: usize,
    choices: usize,
    experts: usize,
    /// The code objects of both matrices.
    objects: [&'static str; 2],
    both: Symbol,
    down: Symbol,
    biases: Option<[Symbol; 2]>,
    /// Shares of one, for experts whose shares are applied to what they are given.
    ones: Option<Symbol>,
    width: usize,
    inner: usize,
    gating: [u32; 3],
    /// Bytes of an expert's gate and what it gates, and of what comes out.
    bytes: [usize; 2],
    out: Value,
}

pub(crate) fn lower(op: &ops::Experts, objects: [&'static str; 2], l: &mut Lowering<'_>) -> Lowered {
    let (choices, width) = (l.width(op.route), l.width(op.x));
    let [experts, inner] = [0, 1].map(|i| l.plan.weight(op.up).shape[i]);
    if op.identities > 0 || !inner.is_multiple_of(32) || l.width(op.out) != width {
        return Err("experts without matrices, or whose width is not a multiple of 32".into());
    }
    let held = l.columns_of(op.x);
    if held.is_none() {
        if l.without_numbers.contains(&op.x) {
            return Err("its columns were overwritten before it reads them".into());
        }
        l.make_columns(op.x, Side::Inner);
    }
    let pairs = l.limits.batch * choices;
    let weights = |ids: &[onebit_plan::WeightId]| weight_bytes(ids.iter().map(|id| &l.weights[id.0 as usize]), Form::Planes) / experts;
    let bytes = [weights(&[op.gate, op.up]), weights(&[op.down])];
    for (scratch, bytes) in [
        (Scratch::Codes(Side::Choices), pairs * inner),
        (Scratch::Steps(Side::Choices), pairs * inner / 4),
        (Scratch::Gates, 4 * pairs * 2 * inner),
        (Scratch::Downs, 4 * pairs * width),
        (Scratch::Order, 4 * pairs),
        (Scratch::Tiles, 4 * (1 + 3 * (pairs / TILE + experts))),
        (Scratch::Counters, 4 * pairs * inner / 32),
    ] {
        l.scratch(scratch, bytes);
    }
    let gating = [op.gating.f as u32, op.gating.limit.unwrap_or(0.0).to_bits(), op.gating.offset.to_bits()];
    let biases = op.biases.map(|[gate, up, down]| [l.stack(vec![gate, up], Form::EachNumbers), l.weight(down, Form::Numbers)]);
    let ones = (op.weigh == Weigh::Input).then(|| l.constant(std::iter::repeat_n(1.0, pairs)));
    Ok(Box::new(Mixture {
        x: op.x,
        side: held.unwrap_or(Side::Inner),
        rounds: held.is_none(),
        route: op.route,
        shares: shares(l, op.route),
        choices,
        experts,
        objects,
        both: l.stack(vec![op.gate, op.up], Form::EachPlanes),
        down: l.weight(op.down, Form::Planes),
        biases,
        ones,
        width,
        inner,
        gating,
        bytes,
        out: op.out,
    }))
}

/// The choices of some tokens.
struct Part {
    start: usize,
    tokens: usize,
    chosen: At,
    shares: At,
}

impl Mixture {
    fn part(&self, start: usize, tokens: usize) -> Part {
        let (route, before) = (Symbol::Value(self.route), 4 * start * self.choices);
        Part { start, tokens, chosen: route.at(before), shares: route.at(self.shares + before) }
    }

    /// What both forms have in common of the first product's work, and of the second's.
    fn work(&self, p: &Part, which: usize) -> Work {
        let pairs = p.tokens * self.choices;
        // Each expert that is asked is read once.
        let weights = self.bytes[which] * pairs.min(self.experts);
        Work { weights, bytes: 4 * pairs * (self.inner + self.width), products: (2 - which) * pairs * self.inner * self.width }
    }

    fn codes(&self, p: &Part) -> [At; 2] {
        let side = |side: Side, numbers: usize| {
            [Symbol::Scratch(Scratch::Codes(side)).at(numbers), Symbol::Scratch(Scratch::Steps(side)).at(numbers / 4)]
        };
        side(self.side, p.start * self.width)
    }

    fn choice_codes(&self, p: &Part) -> [At; 2] {
        let numbers = p.start * self.choices * self.inner;
        [Symbol::Scratch(Scratch::Codes(Side::Choices)).at(numbers), Symbol::Scratch(Scratch::Steps(Side::Choices)).at(numbers / 4)]
    }

    /// A packet for the gates of all choices, and one for what comes out of them.
    fn narrow(&self, p: &Part, out: &mut Recorder) {
        let [codes, steps] = self.codes(p);
        let [to_codes, to_steps] = self.choice_codes(p);
        let gates = At::from(Scratch::Gates);
        let y = Symbol::Value(self.out).at(4 * p.start * self.width);
        let [both_bias, down_bias] = self.biases.as_ref().map_or_else(|| [gates.clone(), gates.clone()], |b| [b[0].at(0), b[1].at(0)]);
        let biased = if self.biases.is_some() { ADD_ROWS } else { 0 };
        let given = if self.ones.is_some() { GIVEN } else { 0 };
        let numbers = |rows: usize, width: usize, flags: u32| {
            let sizes = [rows as u32, width as u32, 1, flags, self.experts as u32, self.choices as u32];
            [&sizes[..], &self.gating, &[0]].concat()
        };
        let end = |chosen: At, shares: At| [chosen, shares, gates.clone(), to_codes.clone(), to_steps.clone(), Scratch::Counters.into()];
        let first = [self.both.at(0), codes, steps, both_bias, gates.clone()];
        let pointers = first.into_iter().chain(end(p.chosen.clone(), p.shares.clone())).collect();
        let (groups, pairs) = (self.inner.div_ceil(GATES), p.tokens * self.choices);
        let flags = GLU | ROUND | EACH | given | biased;
        out.dispatch((self.objects[0], "fused_1"), [groups, pairs, 1], pointers, numbers(self.inner, self.width, flags), self.work(p, 0));
        let second = [self.down.at(0), to_codes.clone(), to_steps.clone(), down_bias, y];
        let shares = self.ones.as_ref().map_or_else(|| p.shares.clone(), |ones| ones.at(0));
        let pointers = second.into_iter().chain(end(p.chosen.clone(), shares)).collect();
        let groups = self.width.div_ceil(ROWS);
        let numbers = numbers(self.width, self.inner, ALL | biased);
        out.dispatch((self.objects[1], "fused_1"), [groups, p.tokens, 1], pointers, numbers, self.work(p, 1));
    }

    /// Choices in the order of their experts, in tiles.
    fn wide(&self, p: &Part, out: &mut Recorder) {
        let pairs = p.tokens * self.choices;
        let small = |numbers: usize| Work { bytes: 8 * numbers, ..Work::default() };
        let (order, tiles) = (At::from(Scratch::Order), At::from(Scratch::Tiles));
        let count = vec![pairs as u32, self.experts as u32, 0];
        out.dispatch(("moe", "group"), [1, 1, 1], vec![p.chosen.clone(), order.clone(), tiles.clone()], count, small(pairs));
        let [codes, steps] = self.codes(p);
        let [to_codes, to_steps] = self.choice_codes(p);
        let (gates, downs) = (At::from(Scratch::Gates), At::from(Scratch::Downs));
        let bias = |which: usize| self.biases.as_ref().map_or_else(|| gates.clone(), |b| b[which].at(0));
        let biased = if self.biases.is_some() { ADD_ROWS } else { 0 };
        let given = if self.ones.is_some() { GIVEN } else { 0 };
        let most = pairs / TILE + self.experts;
        let numbers = |rows: usize, width: usize, flags: u32| {
            [rows, width, self.experts, self.choices].map(|n| n as u32).into_iter().chain([flags]).collect::<Vec<u32>>()
        };
        let grid = |rows: usize| [rows.div_ceil(TILE), most, 1];
        let rows = 2 * self.inner;
        let pointers = vec![self.both.at(0), codes, steps, bias(0), gates.clone(), order.clone(), tiles.clone(), p.shares.clone()];
        out.dispatch(
            (self.objects[0], "matmul_experts"),
            grid(rows),
            pointers,
            numbers(rows, self.width, EACH | given | biased),
            self.work(p, 0),
        );
        let gated = [&[self.inner as u32, (pairs * self.inner) as u32][..], &self.gating, &[0]].concat();
        let pointers = vec![gates.clone(), gates.clone(), to_codes.clone(), to_steps.clone()];
        let grid_of_gates = [(pairs * self.inner).div_ceil(GATED), 1, 1];
        out.dispatch(("elementwise", "gated_rows"), grid_of_gates, pointers, gated, small(pairs * self.inner));
        let pointers = vec![self.down.at(0), to_codes, to_steps, bias(1), downs.clone(), order, tiles, p.shares.clone()];
        out.dispatch(
            (self.objects[1], "matmul_experts"),
            grid(self.width),
            pointers,
            numbers(self.width, self.inner, biased),
            self.work(p, 1),
        );
        let y = Symbol::Value(self.out).at(4 * p.start * self.width);
        let flags = if self.ones.is_some() { 0 } else { SHARED_OUT };
        let sizes = vec![self.width as u32, self.choices as u32, self.experts as u32, flags];
        let pointers = vec![downs.clone(), p.chosen.clone(), p.shares.clone(), downs.clone(), downs, y];
        out.dispatch(("moe", "combine"), [p.tokens, self.width.div_ceil(SUMS), 1], pointers, sizes, small(pairs * self.width));
    }
}

impl Step for Mixture {
    fn record(&self, shape: &Shape, out: &mut Recorder) {
        if self.rounds {
            linear::round(self.x, self.width, shape.tokens, out);
        }
        for run in &shape.runs {
            let part = self.part(run.start, run.len);
            if run.wide { self.wide(&part, out) } else { self.narrow(&part, out) }
        }
    }
}
