//! `x + product` is made by the thread that made the product, while it is in its cache.

use crate::exec::node::{Group, Node, Part, uses};
use onebit_plan::{Binary, Op, Plan, Value, ops::Pairwise};

/// Takes a sum into the group that makes one of its summands, where nothing else reads that and the other is already there.
pub(super) fn fuse(plan: &Plan, mut nodes: Vec<Node>) -> Vec<Node> {
    let mut i = 0;
    while i < nodes.len() {
        if let Node::Op(Op::Pairwise(Pairwise { a, b, f: Binary::Add, out })) = nodes[i]
            && plan.value(a).width == plan.value(b).width
            && [(a, b), (b, a)].into_iter().any(|(product, other)| into(plan, &mut nodes, i, product, other, out))
        {
            nodes.remove(i);
            continue;
        }
        i += 1;
    }
    nodes
}

/// Makes `product` a sum with `other`, if it can be; `at` is where the sum is now.
fn into(plan: &Plan, nodes: &mut [Node], at: usize, product: Value, other: Value, out: Value) -> bool {
    if product == other || uses(nodes, plan.output, product) != 1 {
        return false;
    }
    let Some(maker) = nodes[..at].iter().position(|n| n.writes().contains(&product)) else { return false };
    if !nodes[..maker].iter().any(|n| n.writes().contains(&other)) {
        return false;
    }
    let Node::Group(Group { parts, .. }) = &mut nodes[maker] else { return false };
    for part in parts {
        if let Part::Plain { product: p, add: add @ None } = part
            && p.out == product
        {
            p.out = out;
            *add = Some(other);
            return true;
        }
    }
    false
}
