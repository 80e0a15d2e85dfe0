//! Products of the same value become one group: the value is quantized once, and q, k and v, or gate and up, are one pass.

use crate::exec::node::{Group, Node};

/// Moves each product to the first group that reads the same value. Values are written once, so that it can run that early.
pub(super) fn fuse(nodes: Vec<Node>) -> Vec<Node> {
    let mut out: Vec<Node> = vec![];
    for node in nodes {
        if let Node::Group(Group { x, parts }) = &node {
            let found = out.iter_mut().find_map(|n| match n {
                Node::Group(g) if g.x == *x => Some(g),
                _ => None,
            });
            if let Some(group) = found {
                group.parts.extend(parts.iter().cloned());
                continue;
            }
        }
        out.push(node);
    }
    out
}
