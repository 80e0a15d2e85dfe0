use super::{Check, Operator};
use crate::{Graph, Result, State, StateId, Value};
use serde::Serialize;

/// Gated DeltaNet (Yang et al. 2024, arXiv:2412.06464): a recurrent matrix S of `key x value` numbers for each value head.
///
/// For each token: `S = exp(decay) S`, with one decay for the head, or one for each row of S (Kimi Delta Attention, Kimi Team 2025,
/// arXiv:2510.26692); `u = beta (v - S^T k)`; `S = S + k u^T`; `out = scale S^T q`.
/// Queries and keys come normalised. Value head `h` uses key head `h / (v_heads / k_heads)`, or `h % k_heads` where
/// `tiled` (how ggml stores the heads).
#[derive(Clone, Debug, Serialize)]
pub struct GatedDelta {
    /// Queries, `k_heads * key`.
    pub q: Value,
    /// Keys, `k_heads * key`.
    pub k: Value,
    /// Values, `v_heads * value`.
    pub v: Value,
    /// Logarithm of the decay, `v_heads` or `v_heads * key`; at most zero.
    pub decay: Value,
    /// Write strength, `v_heads`.
    pub beta: Value,
    /// The matrices, a [`State::Fixed`] of `[v_heads, key, value]`.
    pub state: StateId,
    /// Query and key heads; divides `v_heads`.
    pub k_heads: usize,
    /// Value heads.
    pub v_heads: usize,
    /// Numbers in a key of one head.
    pub key: usize,
    /// Numbers in a value of one head.
    pub value: usize,
    /// How key heads are shared.
    pub tiled: bool,
    /// Factor on the output.
    pub scale: f32,
    /// The output, `v_heads * value`.
    pub out: Value,
}

impl Operator for GatedDelta {
    fn name(&self) -> &'static str {
        "gated_delta"
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        vec![self.q, self.k, self.v, self.decay, self.beta]
    }
    fn state(&self) -> Option<StateId> {
        Some(self.state)
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        c.divides("key heads", self.k_heads, self.v_heads)?;
        c.expect("q", c.width(self.q), self.k_heads * self.key)?;
        c.expect("k", c.width(self.k), self.k_heads * self.key)?;
        c.expect("v", c.width(self.v), self.v_heads * self.value)?;
        if c.width(self.decay) != self.v_heads {
            c.expect("decay", c.width(self.decay), self.v_heads * self.key)?;
        }
        c.expect("beta", c.width(self.beta), self.v_heads)?;
        c.expect("the output", c.out(), self.v_heads * self.value)?;
        c.fixed(self.state, &[self.v_heads, self.key, self.value])
    }
}

impl Graph<'_> {
    /// Gated DeltaNet with a state of its own; `heads` are (key heads, value heads), `dims` (key, value) numbers in a head.
    #[allow(clippy::too_many_arguments)] // its five operands and their layout are what it is
    pub fn gated_delta(
        &mut self,
        (q, k, v): (Value, Value, Value),
        decay: Value,
        beta: Value,
        (k_heads, v_heads): (usize, usize),
        (key, value): (usize, usize),
        tiled: bool,
    ) -> Value {
        let state = self.new_state(State::Fixed { shape: vec![v_heads, key, value] });
        let scale = 1.0 / (key as f32).sqrt();
        self.op(v_heads * value, Some(v), |out| GatedDelta { q, k, v, decay, beta, state, k_heads, v_heads, key, value, tiled, scale, out })
    }
}
