//! `f(gate) * up` of two products of one group is made by the thread that made them, while they are in its cache.

use crate::exec::node::{Group, Node, Part, Product, uses};
use onebit_plan::{Op, Plan, Value, ops::Glu};

/// Takes the op `glu` into the group that makes both its operands, where nothing else reads them.
pub(super) fn fuse(plan: &Plan, mut nodes: Vec<Node>) -> Vec<Node> {
    let mut i = 0;
    while i < nodes.len() {
        if let Node::Op(Op::Glu(Glu { gate, up, f, out })) = nodes[i] {
            let alone = |v: Value| uses(&nodes, plan.output, v) == 1;
            if gate != up && alone(gate) && alone(up) && into(&mut nodes[..i], gate, up, |gate, up| Part::Gated { gate, up, f, out }) {
                nodes.remove(i);
                continue;
            }
        }
        i += 1;
    }
    nodes
}

/// Replaces the two products by what `make` makes of them, if one group has both.
fn into(nodes: &mut [Node], gate: Value, up: Value, make: impl FnOnce(Product, Product) -> Part) -> bool {
    let plain = |parts: &[Part], v: Value| parts.iter().position(|p| matches!(p, Part::Plain { product, add: None } if product.out == v));
    for node in nodes {
        let Node::Group(Group { parts, .. }) = node else { continue };
        if let (Some(g), Some(u)) = (plain(parts, gate), plain(parts, up)) {
            let [gate, up] = [g, u].map(|i| parts[i].products()[0].clone());
            parts[g] = make(gate, up);
            parts.remove(u);
            return true;
        }
    }
    false
}
