use super::{Check, Operator};
use crate::{Graph, Result, State, StateId, Value, WeightId};
use serde::Serialize;

/// Linear attention with decay, in blocks (Lightning Attention, Qin et al. 2024, arXiv:2401.04658), by tables of decays as the checkpoint
/// holds them. A matrix M of `key x value` numbers for each head holds the blocks that are complete.
///
/// Token `i` of a block gives `out = queries[i] M^T q + sum_(j <= i) inner[i][j] (q k_j) v_j`. After the block's last token
/// `M = exp(-rate block) M + sum_j keys[j] k_j v_j^T`. Without rounding of the tables this is a recurrence with the decay `exp(-rate)`.
#[derive(Clone, Debug, Serialize)]
pub struct Lightning {
    /// Queries, `heads * dim`.
    pub q: Value,
    /// Keys, as wide.
    pub k: Value,
    /// Values, as wide.
    pub v: Value,
    /// Decay for a step of one, as a positive exponent, `[heads]`.
    pub rate: WeightId,
    /// What is left of the blocks before at each token, `[heads, block]`.
    pub queries: WeightId,
    /// What is left of each token at the block's end, `[heads, block]`.
    pub keys: WeightId,
    /// What is left of each token at each, `[heads, block, block]`.
    pub inner: WeightId,
    /// For each head M, then the keys, then the values of the block so far: a [`State::Fixed`] of `[heads, dim + 2 block, dim]`.
    pub state: StateId,
    /// Heads.
    pub heads: usize,
    /// Numbers in a head.
    pub dim: usize,
    /// Tokens in a block.
    pub block: usize,
    /// The output, as wide as `q`.
    pub out: Value,
}

impl Operator for Lightning {
    fn name(&self) -> &'static str {
        "lightning"
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        vec![self.q, self.k, self.v]
    }
    fn weights(&self) -> Vec<WeightId> {
        vec![self.rate, self.queries, self.keys, self.inner]
    }
    fn state(&self) -> Option<StateId> {
        Some(self.state)
    }
    fn note(&self) -> String {
        format!("[{} heads, blocks of {}]", self.heads, self.block)
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        if self.block == 0 {
            return c.fail("its blocks have no tokens");
        }
        for (what, v) in [("q", self.q), ("k", self.k), ("v", self.v)] {
            c.expect(what, c.width(v), self.heads * self.dim)?;
        }
        c.shape(self.rate, &[self.heads])?;
        c.shape(self.queries, &[self.heads, self.block])?;
        c.shape(self.keys, &[self.heads, self.block])?;
        c.shape(self.inner, &[self.heads, self.block, self.block])?;
        c.as_wide_as(self.q)?;
        c.fixed(self.state, &[self.heads, self.dim + 2 * self.block, self.dim])
    }
}

impl Graph<'_> {
    /// Linear attention in blocks with a state of its own. `tables` are the complete names of rate, and of the decays of queries, of keys
    /// and within a block.
    pub fn lightning(&mut self, [q, k, v]: [Value; 3], tables: [&str; 4], heads: usize, block: usize) -> Value {
        let width = self.width(q);
        let dim = width / heads.max(1);
        let [rate, queries, keys, inner] = tables;
        let rate = self.weight(rate, &[heads]);
        let [queries, keys] = [queries, keys].map(|name| self.weight(name, &[heads, block]));
        let inner = self.weight(inner, &[heads, block, block]);
        let state = self.new_state(State::Fixed { shape: vec![heads, dim + 2 * block, dim] });
        self.op(width, Some(q), |out| Lightning { q, k, v, rate, queries, keys, inner, state, heads, dim, block, out })
    }
}
