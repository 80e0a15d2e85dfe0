//! Mixtures of experts.

use super::{Lowered, mixture};
use crate::compile::{At, Form, Lowering, Matrix, Recorder, Scratch, Shape, Step, Symbol, Work, weight_bytes};
use onebit_plan::{Rows, Score, Value, Weigh, ops};

/// Most experts that the router's kernel takes, and most groups of them.
const MOST: [usize; 2] = [1024, 64];

struct Route {
    logits: Value,
    bias: Option<Symbol>,
    factors: Option<Symbol>,
    experts: usize,
    numbers: Vec<u32>,
    /// Bytes from a route's experts to their shares.
    shares: usize,
    out: Value,
}

/// Bytes from the experts of a route, which lie first, to their shares.
pub(super) fn shares(l: &Lowering<'_>, route: Value) -> usize {
    4 * l.limits.batch * l.width(route)
}

pub(crate) fn route(op: &ops::Route, l: &mut Lowering<'_>) -> Lowered {
    let experts = l.width(op.logits);
    let groups = op.groups.map_or([0; 3], |g| [g.count, g.chosen, g.best]);
    if experts > MOST[0] || groups[0] > MOST[1] || l.plan.value(op.out).rows != Rows::Tokens {
        return Err(format!("{experts} experts in {} groups: the kernel takes up to {MOST:?}", groups[0]));
    }
    let (score, jitter) = match op.score {
        Score::Softmax => (0, 0.0),
        Score::Sigmoid => (1, 0.0),
        Score::SparseMixer { jitter } => (2, jitter),
    };
    let flags = usize::from(op.normalize) | usize::from(op.bias.is_some()) << 1 | usize::from(op.factors.is_some()) << 2;
    let [bias, factors] = [op.bias, op.factors].map(|w| w.map(|w| l.weight(w, Form::Numbers)));
    let sizes = [experts, op.top_k, score, flags, groups[0], groups[1], groups[2], op.nothing].map(|n| n as u32);
    let numbers = [&sizes[..], &[op.scale.to_bits(), jitter.to_bits()]].concat();
    Ok(Box::new(Route { logits: op.logits, bias, factors, experts, numbers, shares: shares(l, op.out), out: op.out }))
}

impl Step for Route {
    fn record(&self, shape: &Shape, out: &mut Recorder) {
        let logits = At::from(self.logits);
        // What is not there is never read.
        let [bias, factors] = [&self.bias, &self.factors].map(|w| w.as_ref().map_or_else(|| logits.clone(), |w| w.at(0)));
        let route = Symbol::Value(self.out);
        let pointers = vec![logits, bias, factors, route.at(0), route.at(self.shares)];
        let work = Work { bytes: 4 * shape.tokens * self.experts, ..Work::default() };
        out.dispatch(("moe", "route"), [shape.tokens, 1, 1], pointers, self.numbers.clone(), work);
    }
}

/// Experts whose matrices are plain numbers: a product for each choice.
struct Plain {
    x: Value,
    route: Value,
    shares: usize,
    choices: usize,
    experts: usize,
    identities: usize,
    name: &'static str,
    /// Gate, up, down.
    weights: [Symbol; 3],
    biases: Option<[Symbol; 3]>,
    width: usize,
    inner: usize,
    gating: [u32; 3],
    weigh: Weigh,
    /// Bytes of an expert's matrices.
    bytes: usize,
    out: Value,
}

const ADD_ROWS: usize = 1;
const OWN: usize = 4;
const GIVEN: usize = 8;

pub(crate) fn lower(op: &ops::Experts, l: &mut Lowering<'_>) -> Lowered {
    if op.rotation.is_some() {
        return Err("experts whose products are rotated have no kernel yet".into());
    }
    let kinds = [op.gate, op.up, op.down].map(|w| l.matrix(w));
    if let [Matrix::Planes(gate), Matrix::Planes(up), Matrix::Planes(down)] = kinds
        && gate == up
    {
        return mixture::lower(op, [up, down], l);
    }
    let [Matrix::Plain(name, form), ..] = kinds else {
        return Err("experts whose matrices are stored in different ways".into());
    };
    if kinds.iter().any(|kind| *kind != kinds[0]) || op.weigh == Weigh::Input && op.identities > 0 {
        return Err("experts whose matrices are stored in different ways, or that are weighted before identities".into());
    }
    let (choices, width) = (l.width(op.route), l.width(op.x));
    let [experts, inner] = [0, 1].map(|i| l.plan.weight(op.up).shape[i]);
    if l.width(op.out) != width {
        return Err("experts that give another width".into());
    }
    let bytes = [op.gate, op.up, op.down].iter().map(|w| weight_bytes(std::iter::once(&l.weights[w.0 as usize]), form)).sum::<usize>();
    let pairs = l.limits.batch * choices;
    for (scratch, numbers) in [(Scratch::Gates, inner), (Scratch::Ups, inner), (Scratch::Downs, width)] {
        l.scratch(scratch, 4 * pairs * numbers);
    }
    let gating = [op.gating.f as u32, op.gating.limit.unwrap_or(0.0).to_bits(), op.gating.offset.to_bits()];
    Ok(Box::new(Plain {
        x: op.x,
        route: op.route,
        shares: shares(l, op.route),
        choices,
        experts,
        identities: op.identities,
        name,
        weights: [op.gate, op.up, op.down].map(|w| l.weight(w, form)),
        biases: op.biases.map(|biases| biases.map(|w| l.weight(w, Form::Numbers))),
        width,
        inner,
        gating,
        weigh: op.weigh,
        bytes: bytes / experts.max(1),
        out: op.out,
    }))
}

impl Plain {
    /// A product for each choice, with matrices of gate, up or down.
    fn product(&self, which: usize, [rows, width]: [usize; 2], x: At, y: Scratch, flags: usize, tokens: usize, out: &mut Recorder) {
        let route = Symbol::Value(self.route);
        let bias = self.biases.as_ref().map_or_else(|| x.clone(), |b| b[which].at(0));
        let flags = flags | if self.biases.is_some() { ADD_ROWS } else { 0 };
        let pointers = vec![self.weights[which].at(0), x, bias, y.into(), route.at(0), route.at(self.shares)];
        let numbers = [rows, width, self.experts, self.choices, flags].map(|n| n as u32).to_vec();
        let choices = tokens * self.choices;
        // Each expert that is asked is read, once if tokens ask the same.
        let read = self.bytes / 3 * choices.min(self.experts);
        let work = Work { weights: read, bytes: 4 * choices * (rows + width), products: choices * rows * width };
        out.dispatch(("floats", format!("experts_{}", self.name)), [rows.div_ceil(4), choices, 1], pointers, numbers, work);
    }
}

impl Step for Plain {
    fn record(&self, shape: &Shape, out: &mut Recorder) {
        let (tokens, choices) = (shape.tokens, shape.tokens * self.choices);
        let given = if self.weigh == Weigh::Input { GIVEN } else { 0 };
        self.product(0, [self.inner, self.width], self.x.into(), Scratch::Gates, given, tokens, out);
        self.product(1, [self.inner, self.width], self.x.into(), Scratch::Ups, given, tokens, out);
        let numbers = choices * self.inner;
        let pointers = vec![Scratch::Gates.into(), Scratch::Ups.into(), Scratch::Gates.into()];
        let work = Work { bytes: 12 * numbers, ..Work::default() };
        out.dispatch(
            ("arrange", "gated_apart"),
            [numbers.div_ceil(256), 1, 1],
            pointers,
            [&[numbers as u32], &self.gating[..]].concat(),
            work,
        );
        self.product(2, [self.width, self.inner], Scratch::Gates.into(), Scratch::Downs, OWN, tokens, out);
        let route = Symbol::Value(self.route);
        let pointers = vec![Scratch::Downs.into(), route.at(0), route.at(self.shares), self.x.into(), self.x.into(), self.out.into()];
        let flags = usize::from(self.weigh == Weigh::Output) << 1 | usize::from(self.identities > 0) << 2;
        let numbers = [self.width, self.choices, self.experts, flags].map(|n| n as u32).to_vec();
        let work = Work { bytes: 4 * (choices + tokens) * self.width, ..Work::default() };
        out.dispatch(("moe", "combine"), [tokens, self.width.div_ceil(128), 1], pointers, numbers, work);
    }
}
