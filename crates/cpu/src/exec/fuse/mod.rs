//! Rewrites of the list of steps that save passes over memory and barriers, and change no bit of any result.

mod gated;
mod residual;
mod shared_input;

use super::node::Node;
use onebit_plan::Plan;

/// Which fusions are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fusions {
    /// [`shared_input::fuse`].
    pub(crate) shared_input: bool,
    /// [`gated::fuse`].
    pub(crate) gated: bool,
    /// [`residual::fuse`].
    pub(crate) residual: bool,
}

impl Default for Fusions {
    fn default() -> Self {
        Self { shared_input: true, gated: true, residual: true }
    }
}

impl Fusions {
    /// Applies them.
    pub(crate) fn apply(self, plan: &Plan, mut nodes: Vec<Node>) -> Vec<Node> {
        if self.shared_input {
            nodes = shared_input::fuse(nodes);
        }
        if self.gated {
            nodes = gated::fuse(plan, nodes);
        }
        if self.residual {
            nodes = residual::fuse(plan, nodes);
        }
        nodes
    }
}
