use super::{Check, Operator};
use crate::{Graph, Result, State, StateId, Value};
use serde::Serialize;

/// Linear attention with a decay for each row of its recurrent matrix S of `key x value` numbers, one for each head: RWKV 6 (Peng et al.
/// 2024, arXiv:2404.05892) and 7 (Peng et al. 2025, arXiv:2503.14456), gated linear attention (Yang et al. 2023, arXiv:2312.06635).
///
/// For each token: `S' = exp(decay) S + b (S^T a)^T + k v^T`, of which `a` and `b` may be missing; `out = scale S'^T q`, or `scale S^T q`
/// where it is read `before` the token is added.
#[derive(Clone, Debug, Serialize)]
pub struct LinearAttention {
    /// Queries, `heads * key`.
    pub q: Value,
    /// Keys, `heads * key`.
    pub k: Value,
    /// Values, `heads * value`.
    pub v: Value,
    /// Logarithm of the decay of each row, `heads * key`; at most zero.
    pub decay: Value,
    /// What is looked up (`a`), and where what was found is added (`b`), `heads * key` each.
    pub swap: Option<[Value; 2]>,
    /// The matrices, a [`State::Fixed`] of `[heads, key, value]`.
    pub state: StateId,
    /// Heads.
    pub heads: usize,
    /// Numbers in a key of one head.
    pub key: usize,
    /// Numbers in a value of one head.
    pub value: usize,
    /// Whether the matrix is read before the token is added.
    pub before: bool,
    /// Factor on the output.
    pub scale: f32,
    /// The output, `heads * value`.
    pub out: Value,
}

impl Operator for LinearAttention {
    fn name(&self) -> &'static str {
        "linear_attention"
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        [self.q, self.k, self.v, self.decay].into_iter().chain(self.swap.into_iter().flatten()).collect()
    }
    fn state(&self) -> Option<StateId> {
        Some(self.state)
    }
    fn note(&self) -> String {
        format!("[{} heads, {} x {}]", self.heads, self.key, self.value)
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        let keys = self.heads * self.key;
        for (what, v) in [("q", self.q), ("k", self.k), ("decay", self.decay)] {
            c.expect(what, c.width(v), keys)?;
        }
        for v in self.swap.into_iter().flatten() {
            c.expect("what is swapped", c.width(v), keys)?;
        }
        c.expect("v", c.width(self.v), self.heads * self.value)?;
        c.as_wide_as(self.v)?;
        c.fixed(self.state, &[self.heads, self.key, self.value])
    }
}

/// The operands of a [`LinearAttention`] that it reads from each token.
#[derive(Clone, Copy, Debug)]
pub struct LinearOperands {
    /// Queries, keys and values.
    pub qkv: [Value; 3],
    /// Logarithm of the decay of each row.
    pub decay: Value,
    /// What is looked up, and where what was found is added.
    pub swap: Option<[Value; 2]>,
}

impl Graph<'_> {
    /// Linear attention of `heads` heads with a state of its own.
    pub fn linear_attention(&mut self, x: LinearOperands, heads: usize, before: bool, scale: f32) -> Value {
        let LinearOperands { qkv: [q, k, v], decay, swap } = x;
        let (key, value) = (self.width(q) / heads.max(1), self.width(v) / heads.max(1));
        let state = self.new_state(State::Fixed { shape: vec![heads, key, value] });
        self.op(heads * value, Some(v), |out| LinearAttention { q, k, v, decay, swap, state, heads, key, value, before, scale, out })
    }
}
