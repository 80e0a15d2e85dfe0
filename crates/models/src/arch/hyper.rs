//! Hyper-connections (Zhu et al. 2024, arXiv:2409.19606) as Qwen4 has them: several residual streams, of which each block reads a mix
//! and to each of which it adds its output. Reference: transformers' `models/qwen4_exp` (`GatedResidual`).

use crate::{Result, settings::Settings};
use onebit_plan::{Function, Graph, Value};

/// The streams.
#[derive(Clone, Copy, Debug)]
pub(super) struct Streams {
    /// How many.
    pub(super) count: usize,
    /// Numbers in each.
    pub(super) width: usize,
    /// Rank of what makes the mix.
    rank: usize,
    eps: f32,
}

impl Streams {
    pub(super) fn read(s: &Settings<'_>, width: usize, eps: f32) -> Result<Self> {
        Ok(Self {
            count: s.size_to("hc_count", "hyper_connection.count", 1 << 8)?,
            width,
            rank: s.size("hc_lowrank", "hyper_connection.low_rank")?,
            eps,
        })
    }

    /// Each stream normalised by itself, with weights of its own.
    pub(super) fn norm(&self, g: &mut Graph<'_>, x: Value, name: &str) -> Value {
        g.group_norm(x, name, self.count, self.eps)
    }

    /// All streams alike.
    pub(super) fn start(&self, g: &mut Graph<'_>, x: Value) -> Value {
        g.repeat(x, 1, self.count)
    }

    /// The normalised streams, and their mean after each number was multiplied by a gate between 0 and 1.
    pub(super) fn mix(&self, g: &mut Graph<'_>, x: Value, name: &str) -> (Value, Value) {
        let each = 1.0 / self.count as f32;
        let normed = self.norm(g, x, &format!("{name}_norm"));
        let gate = g.linear(normed, &format!("{name}_down"), self.rank);
        let gate = g.scale(gate, each);
        let gate = g.apply(gate, Function::Silu);
        let gate = g.linear(gate, &format!("{name}_up"), self.count * self.width);
        let gated = g.glu(gate, normed, Function::Sigmoid);
        let sum = g.sum(gated, 1, self.count);
        (normed, g.scale(sum, each))
    }

    /// The streams with the output of `block` for their mix added to each, times a factor between 0 and 2.
    pub(super) fn block(&self, g: &mut Graph<'_>, x: Value, name: &str, block: impl FnOnce(&mut Graph<'_>, Value) -> Value) -> Value {
        let (normed, mixed) = self.mix(g, x, name);
        let y = block(g, mixed);
        let factor = g.linear(normed, &format!("{name}_inject"), self.count);
        let factor = g.scale(factor, 1.0 / self.count as f32);
        let factor = g.apply(factor, Function::Sigmoid);
        let factor = g.scale(factor, 2.0);
        let y = g.repeat(y, 1, self.count);
        let y = g.mul(y, factor);
        g.add(x, y)
    }
}
