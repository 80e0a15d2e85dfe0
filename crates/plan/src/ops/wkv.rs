use super::{Check, Operator};
use crate::{Graph, Result, State, StateId, Value, WeightId};
use serde::Serialize;

/// RWKV's attention without queries (Peng et al. 2023, arXiv:2305.13048, equation 16): for each number an average of the values so far,
/// with weights `exp(k)` that decay by `exp(decay)` from token to token; the token's own has `exp(first + k)`.
#[derive(Clone, Debug, Serialize)]
pub struct Wkv {
    /// Logarithms of the weights.
    pub k: Value,
    /// Values, as wide as `k`.
    pub v: Value,
    /// Logarithm of the decay, `[k]`, negative.
    pub decay: WeightId,
    /// What the token's own weight has beside its key, `[k]`.
    pub first: WeightId,
    /// For each number the weighted sum of values, the sum of weights, and the logarithm of what both are to be multiplied with: a
    /// [`State::Fixed`] of `[3, k]`. Where the sum of weights is zero there is no past.
    pub state: StateId,
    /// The output, as wide as `k`.
    pub out: Value,
}

impl Operator for Wkv {
    fn name(&self) -> &'static str {
        "wkv"
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        vec![self.k, self.v]
    }
    fn weights(&self) -> Vec<WeightId> {
        vec![self.decay, self.first]
    }
    fn state(&self) -> Option<StateId> {
        Some(self.state)
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        let width = c.width(self.k);
        c.expect("v", c.width(self.v), width)?;
        c.shape(self.decay, &[width])?;
        c.shape(self.first, &[width])?;
        c.as_wide_as(self.k)?;
        c.fixed(self.state, &[3, width])
    }
}

impl Graph<'_> {
    /// RWKV's attention with a state of its own; `decay` and `first` are complete names.
    pub fn wkv(&mut self, k: Value, v: Value, decay: &str, first: &str) -> Value {
        let width = self.width(k);
        let (decay, first) = (self.weight(decay, &[width]), self.weight(first, &[width]));
        let state = self.new_state(State::Fixed { shape: vec![3, width] });
        self.op(width, Some(k), |out| Wkv { k, v, decay, first, state, out })
    }
}
