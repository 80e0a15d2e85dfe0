//! The ops of a plan as the device takes them: what several ops do goes into one packet where there is a kernel for it.
//!
//! - A product and the sum behind it are one.
//! - Norm and rotation of queries and keys, and their way into the cache, are one with attention's first packet.
//! - Products of the same value, whose results only such packets read, are one product: their matrices lie one below the other, and so
//!   their results beside each other.
//! - A gate that only products read is rounded to columns where it is made, and so is the result of attention.
//! - A sum that goes on through a norm to products is rounded to columns where it is made, without the norm's factor, by which those
//!   products multiply their results; and a gate is made by the product of its operands.

use super::Matrix;
use onebit_plan::{
    Attention, Binary, Op, Plan, Value, WeightId,
    ops::{ApplyRope, Glu, Linear, RmsNorm},
};
use std::collections::HashMap;

/// How much is fused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Nothing: a packet for each op.
    Nothing,
    /// What stands between products.
    Between,
    /// Also what products can do themselves.
    All,
}

/// Products of the same value by matrices of the same kind.
pub(crate) struct Products<'a> {
    /// Each makes its own value; the values lie beside each other.
    pub(crate) linears: Vec<&'a Linear>,
    /// Where there is one product: what its result is added to, and the sum.
    pub(crate) residual: Option<(Value, Value)>,
    /// What the same packet does behind the products.
    pub(crate) then: Then<'a>,
}

/// What a packet does behind its products.
#[derive(Clone, Copy)]
pub(crate) enum Then<'a> {
    /// Nothing.
    Nothing,
    /// Rounds the sum to columns of this norm, but for its factor.
    Norm(&'a RmsNorm),
    /// Rounds the gate of its two products to columns.
    Gate(&'a Glu),
}

/// Queries and keys on their way to attention, as the products make them.
pub(crate) struct Heads<'a> {
    pub(crate) q: Value,
    pub(crate) k: Value,
    pub(crate) v: Value,
    /// Of queries and keys.
    pub(crate) norms: Option<[&'a RmsNorm; 2]>,
    pub(crate) rope: &'a ApplyRope,
}

/// What becomes one step.
pub(crate) enum Node<'a> {
    Op(&'a Op),
    Products(Products<'a>),
    Attention {
        op: &'a Attention,
        heads: Option<Heads<'a>>,
        /// Whether the result is rounded to columns, and nothing else is kept of it.
        columns: bool,
    },
}

impl Node<'_> {
    /// The name of its op.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Op(op) => op.name(),
            Self::Products(_) => "linear",
            Self::Attention { .. } => "attention",
        }
    }

    /// The values that it reads.
    pub(crate) fn reads(&self) -> Vec<Value> {
        match self {
            Self::Op(op) => op.inputs(),
            Self::Products(p) => vec![p.linears[0].x].into_iter().chain(p.residual.map(|(other, _)| other)).collect(),
            Self::Attention { heads: Some(h), .. } => vec![h.q, h.k, h.v],
            Self::Attention { op, .. } => std::iter::once(op.q).chain(op.kv.into_iter().flatten()).collect(),
        }
    }

    /// The values that it writes, those beside each other together.
    pub(crate) fn writes(&self) -> Vec<Vec<Value>> {
        match self {
            Self::Op(op) => vec![vec![op.output()]],
            Self::Products(Products { residual: Some((_, sum)), then: Then::Norm(norm), .. }) => vec![vec![*sum], vec![norm.out]],
            Self::Products(Products { residual: Some((_, sum)), .. }) => vec![vec![*sum]],
            Self::Products(Products { linears, then: Then::Gate(g), .. }) => vec![linears.iter().map(|l| l.out).collect(), vec![g.out]],
            Self::Products(p) => vec![p.linears.iter().map(|l| l.out).collect()],
            Self::Attention { op, heads: Some(_), .. } => vec![vec![op.q], vec![op.out]],
            Self::Attention { op, .. } => vec![vec![op.out]],
        }
    }
}

/// Who makes and who reads each value.
struct Uses<'a> {
    plan: &'a Plan,
    makers: HashMap<Value, usize>,
    readers: HashMap<Value, Vec<usize>>,
}

impl<'a> Uses<'a> {
    fn new(plan: &'a Plan) -> Self {
        let makers = plan.ops.iter().enumerate().map(|(i, op)| (op.output(), i)).collect();
        let mut readers: HashMap<Value, Vec<usize>> = HashMap::new();
        for (i, op) in plan.ops.iter().enumerate() {
            op.inputs().into_iter().for_each(|v| readers.entry(v).or_default().push(i));
        }
        Self { plan, makers, readers }
    }

    fn maker(&self, v: Value) -> Option<(usize, &'a Op)> {
        self.makers.get(&v).map(|i| (*i, &self.plan.ops[*i]))
    }

    /// Those who read a value that nobody else wants.
    fn readers(&self, v: Value) -> &[usize] {
        let wanted = v == self.plan.output || self.plan.hidden == Some(v);
        if wanted { &[] } else { self.readers.get(&v).map_or(&[], Vec::as_slice) }
    }

    /// The one op that reads a value, once.
    fn only_reader(&self, v: Value) -> Option<usize> {
        if let [reader] = self.readers(v) { Some(*reader) } else { None }
    }

    /// The sum of `v`, which nothing else reads, with a value that is there before op `i`.
    fn sum(&self, i: usize, v: Value) -> Option<(usize, Value, Value)> {
        let at = self.only_reader(v)?;
        let Op::Pairwise(p) = &self.plan.ops[at] else { return None };
        let other = if p.a == v { p.b } else { p.a };
        let same = self.plan.value(p.a).width == self.plan.value(p.b).width;
        (p.f == Binary::Add && same && self.makers.get(&other).is_some_and(|made| *made < i)).then_some((at, other, p.out))
    }

    /// The product that makes the other operand of the gate that alone reads `l`, of the same value and without biases; and that gate.
    fn gate(&self, l: &Linear) -> Option<(usize, &'a Linear, &'a Glu)> {
        let Op::Glu(g) = &self.plan.ops[self.only_reader(l.out)?] else { return None };
        let other = if g.gate == l.out { g.up } else { g.gate };
        match self.maker(other)? {
            (at, Op::Linear(up)) if up.x == l.x && up.out != l.out && l.bias.or(up.bias).is_none() => {
                self.only_reader(other).map(|_| (at, up, g))
            }
            _ => None,
        }
    }

    /// The norm that makes columns of a sum, which op `first` makes, where all who read them do so before another norm makes columns.
    fn norm(&self, first: usize, sum: Value, columns: &impl Fn(Value, usize) -> bool) -> Option<(usize, &'a RmsNorm)> {
        let width = self.plan.value(sum).width;
        let whole = |op: &'a Op| match op {
            Op::RmsNorm(n) if n.dim == width && n.weight.is_some_and(|w| self.plan.weight(w).shape.len() == 1) => Some(n),
            _ => None,
        };
        let (at, norm) = self.readers(sum).iter().find_map(|r| Some((*r, whole(&self.plan.ops[*r])?)))?;
        let last = *self.readers(norm.out).last()?;
        let others = |op: &Op| matches!(op, Op::RmsNorm(_) | Op::LayerNorm(_) | Op::L2Norm(_));
        let disturbs = |i: usize| {
            let op = &self.plan.ops[i];
            i != at && others(op) && self.readers(op.output()).iter().any(|r| matches!(self.plan.ops[*r], Op::Linear(_)))
        };
        (columns(norm.out, width) && !(first..last).any(disturbs)).then_some((at, norm))
    }

    /// The heads of attention op `i`, where they come out of rotations; and the ops that are done thereby.
    fn heads(&self, i: usize, a: &Attention) -> Option<(Heads<'a>, Vec<usize>)> {
        let [k, v] = a.kv?;
        let turned = |v: Value| match self.maker(v)? {
            (at, Op::ApplyRope(rope)) if self.only_reader(v) == Some(i) => Some((at, rope)),
            _ => None,
        };
        let ((q_at, q), (k_at, k)) = (turned(a.q)?, turned(k)?);
        if q.rope != k.rope || (q.shift, q.head, k.shift, k.head) != (0, a.key, 0, a.key) || v == a.q {
            return None;
        }
        let normed = |rope: &ApplyRope, at: usize| match self.maker(rope.x)? {
            (norm, Op::RmsNorm(n)) if self.only_reader(rope.x) == Some(at) && n.dim == a.key => {
                n.weight.is_some_and(|w| self.plan.weight(w).shape.len() == 1).then_some((norm, n))
            }
            _ => None,
        };
        let mut done = vec![q_at, k_at];
        let mut heads = Heads { q: q.x, k: k.x, v, norms: None, rope: q };
        if let (Some((q_norm, of_q)), Some((k_norm, of_k))) = (normed(q, q_at), normed(k, k_at))
            && of_q.eps == of_k.eps
        {
            done.extend([q_norm, k_norm]);
            heads = Heads { q: of_q.x, k: of_k.x, norms: Some([of_q, of_k]), ..heads };
        }
        Some((heads, done))
    }
}

/// The plan's ops, each with its layer. `matrix` tells how a weight is multiplied with.
pub(crate) fn nodes(plan: &Plan, matrix: impl Fn(WeightId) -> Matrix, level: Level) -> Vec<(Node<'_>, Option<usize>)> {
    let (uses, fuse) = (Uses::new(plan), level > Level::Nothing);
    let planes = |op: &Op| matches!(op, Op::Linear(l) if matches!(matrix(l.weight), Matrix::Planes(_)));
    let only_columns = |v: Value, run: usize| {
        let readers = uses.readers(v);
        fuse && run.is_multiple_of(32) && !readers.is_empty() && readers.iter().all(|r| planes(&plan.ops[*r]))
    };
    let mut done = vec![false; plan.ops.len()];
    // Steps that take rows of any stride, and by which of them values are read.
    let mut attention = HashMap::new();
    let mut strided: HashMap<Value, usize> = HashMap::new();
    for (i, op) in plan.ops.iter().enumerate().filter(|_| fuse) {
        if let Op::Attention(a) = op {
            let Some((heads, ops)) = uses.heads(i, a) else { continue };
            // Products write them directly.
            let direct = |v: Value| uses.only_reader(v).is_some_and(|r| r == i || ops.contains(&r));
            strided.extend([heads.q, heads.k, heads.v].into_iter().filter(|v| direct(*v)).map(|v| (v, i)));
            ops.iter().for_each(|at| done[*at] = true);
            attention.insert(i, heads);
        }
    }
    let mut nodes = vec![];
    for (i, op) in plan.ops.iter().enumerate() {
        if done[i] {
            continue;
        }
        let node = match op {
            Op::Linear(l) => {
                let mut products = Products { linears: vec![l], residual: None, then: Then::Nothing };
                // A bias takes the place of what is added.
                if let Some((at, other, sum)) = uses.sum(i, l.out).filter(|_| fuse && l.bias.is_none()) {
                    (products.residual, done[at]) = (Some((other, sum)), true);
                    if planes(op)
                        && level == Level::All
                        && let Some((at, norm)) = uses.norm(i, sum, &only_columns)
                    {
                        (products.then, done[at]) = (Then::Norm(norm), true);
                    }
                } else if let Some(reader) = strided.get(&l.out) {
                    for (at, next) in plan.ops.iter().enumerate().skip(i + 1) {
                        let Op::Linear(n) = next else { continue };
                        let beside = strided.get(&n.out) == Some(reader) && n.x == l.x && n.bias.is_some() == l.bias.is_some();
                        if beside && !done[at] && matrix(n.weight) == matrix(l.weight) {
                            products.linears.push(n);
                            done[at] = true;
                        }
                    }
                }
                if let Some((at, up, glu)) = uses.gate(l).filter(|(at, up, g)| {
                    fuse && !done[*at]
                        && planes(op)
                        && matrix(up.weight) == matrix(l.weight)
                        && only_columns(g.out, plan.value(g.out).width)
                }) {
                    products = Products { linears: vec![l, up], residual: None, then: Then::Gate(glu) };
                    if glu.gate != l.out {
                        products.linears.swap(0, 1);
                    }
                    done[at] = true;
                    done[uses.makers[&glu.out]] = true;
                }
                Node::Products(products)
            }
            Op::Attention(a) => Node::Attention { op: a, heads: attention.remove(&i), columns: only_columns(a.out, a.value) },
            op => Node::Op(op),
        };
        nodes.push((node, plan.op_layers[i]));
    }
    nodes
}
