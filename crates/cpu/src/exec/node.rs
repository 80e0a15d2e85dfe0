//! A plan as the executor takes it: ops, with products gathered into groups that one pass over the threads makes.
//!
//! [`nodes`] makes one group for each product; each fusion (module [`super::fuse`]) then rewrites the list. Every form
//! computes the same bits.

use onebit_plan::{Function, Op, Plan, Value, WeightId};

/// `out = weight x + bias`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Product {
    pub(crate) weight: WeightId,
    pub(crate) bias: Option<WeightId>,
    pub(crate) out: Value,
}

/// One result of a group.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    /// A product, plus a value where `add` is there.
    Plain { product: Product, add: Option<Value> },
    /// `f(gate) * up`.
    Gated { gate: Product, up: Product, f: Function, out: Value },
}

/// Products of one value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Group {
    pub(crate) x: Value,
    pub(crate) parts: Vec<Part>,
}

/// A step of the list.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// Any op but a product.
    Op(Op),
    /// Products.
    Group(Group),
}

impl Part {
    /// The products in it.
    pub(crate) fn products(&self) -> Vec<&Product> {
        match self {
            Self::Plain { product, .. } => vec![product],
            Self::Gated { gate, up, .. } => vec![gate, up],
        }
    }
}

impl Node {
    /// The values that are read.
    pub(crate) fn reads(&self) -> Vec<Value> {
        match self {
            Self::Op(op) => op.inputs(),
            Self::Group(g) => {
                let added = g.parts.iter().filter_map(|p| if let Part::Plain { add, .. } = p { *add } else { None });
                std::iter::once(g.x).chain(added).collect()
            }
        }
    }
    /// The values that are written, those that only the step itself uses among them.
    pub(crate) fn writes(&self) -> Vec<Value> {
        match self {
            Self::Op(op) => vec![op.output()],
            Self::Group(g) => g
                .parts
                .iter()
                .flat_map(|p| {
                    let gated = if let Part::Gated { out, .. } = p { Some(*out) } else { None };
                    p.products().into_iter().map(|p| p.out).chain(gated).collect::<Vec<_>>()
                })
                .collect(),
        }
    }
}

/// The plan's ops, each product a group of its own.
pub(crate) fn nodes(plan: &Plan) -> Vec<Node> {
    let node = |op: &Op| match op {
        Op::Linear(l) => {
            let product = Product { weight: l.weight, bias: l.bias, out: l.out };
            Node::Group(Group { x: l.x, parts: vec![Part::Plain { product, add: None }] })
        }
        op => Node::Op(op.clone()),
    };
    plan.ops.iter().map(node).collect()
}

/// How often a value is read.
pub(crate) fn uses(nodes: &[Node], output: Value, v: Value) -> usize {
    nodes.iter().flat_map(Node::reads).filter(|r| *r == v).count() + usize::from(v == output)
}
