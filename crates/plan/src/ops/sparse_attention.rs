use super::{AttentionSpec, Check, Mask, Operator};
use crate::{Error, Graph, Kind, Result, State, StateId, Value};
use serde::Serialize;

/// [`Attention`](super::Attention) over the positions that an [`Index`](super::Index) chose, with one choice for all heads.
///
/// Appends `k` and `v` to the state, then `out = sum_t softmax_t(scale * q . k_t) v_t` over the positions `t` of the row of `only`.
#[derive(Clone, Debug, Serialize)]
pub struct SparseAttention {
    /// Queries, `heads * key`.
    pub q: Value,
    /// Keys, `kv_heads * key`.
    pub k: Value,
    /// Values, `kv_heads * value`.
    pub v: Value,
    /// The positions, none of them beyond the row's own.
    pub only: Value,
    /// The cache, a [`State::Kv`].
    pub state: StateId,
    /// Query heads.
    pub heads: usize,
    /// Key/value heads; divides `heads`.
    pub kv_heads: usize,
    /// Numbers in a query or key of one head.
    pub key: usize,
    /// Numbers in a value of one head.
    pub value: usize,
    /// Factor on the dot products.
    pub scale: f32,
    /// The output, `heads * value`.
    pub out: Value,
}

impl SparseAttention {
    /// The positions of a row of `only`.
    pub fn positions(row: &[f32]) -> impl Iterator<Item = usize> + Clone {
        row.iter().take_while(|p| **p >= 0.0).map(|p| *p as usize)
    }
}

impl Operator for SparseAttention {
    fn name(&self) -> &'static str {
        "sparse_attention"
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        vec![self.q, self.k, self.v, self.only]
    }
    fn state(&self) -> Option<StateId> {
        Some(self.state)
    }
    fn takes(&self, input: Value) -> Kind {
        if input == self.only { Kind::Positions } else { Kind::Numbers }
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        c.divides("key/value heads", self.kv_heads, self.heads)?;
        c.expect("q", c.width(self.q), self.heads * self.key)?;
        c.expect("k", c.width(self.k), self.kv_heads * self.key)?;
        c.expect("v", c.width(self.v), self.kv_heads * self.value)?;
        c.expect("the output", c.out(), self.heads * self.value)?;
        match c.plan.state(self.state) {
            State::Kv { heads, key, value, window: None } if (*heads, *key, *value) == (self.kv_heads, self.key, self.value) => Ok(()),
            other => c.fail(format!("the state is {other:?}")),
        }
    }
}

impl Graph<'_> {
    /// Attention over the positions `only`, with a cache of its own. Of `spec`, shapes and scale count; it must ask for nothing else.
    pub fn sparse_attention(&mut self, q: Value, k: Value, v: Value, only: Value, spec: &AttentionSpec) -> Value {
        let &AttentionSpec { heads, kv_heads, key, value, scale, mask, softcap, sinks, .. } = spec;
        if mask != Mask::Causal || softcap.is_some() || sinks.is_some() || spec.groups {
            self.fail(Error::invalid("attention over chosen positions has no window, bound or sinks"));
        }
        let state = self.new_state(State::Kv { heads: kv_heads, key, value, window: None });
        self.op(heads * value, Some(q), |out| SparseAttention { q, k, v, only, state, heads, kv_heads, key, value, scale, out })
    }
}
