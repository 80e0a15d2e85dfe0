use super::{Check, Operator};
use crate::{Graph, Result, State, StateId, Value};
use serde::Serialize;

/// The recurrence of a real-gated linear recurrent unit (De et al. 2024, arXiv:2402.19427): for each number, with `a = exp(decay)`,
/// `out = h = a h + sqrt(1 - a^2) x`; `out = h = x` at the sequence's start.
#[derive(Clone, Debug, Serialize)]
pub struct RgLru {
    /// The gated input.
    pub x: Value,
    /// Logarithm of the decay, as wide as `x`; not positive.
    pub decay: Value,
    /// The last output, a [`State::Fixed`] of `[x]`.
    pub state: StateId,
    /// The output, as wide as `x`.
    pub out: Value,
}

impl Operator for RgLru {
    fn name(&self) -> &'static str {
        "rg_lru"
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        vec![self.x, self.decay]
    }
    fn state(&self) -> Option<StateId> {
        Some(self.state)
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        c.expect("the decay", c.width(self.decay), c.width(self.x))?;
        c.as_wide_as(self.x)?;
        c.fixed(self.state, &[c.width(self.x)])
    }
}

impl Graph<'_> {
    /// The recurrence of an RG-LRU with a state of its own.
    pub fn rg_lru(&mut self, x: Value, decay: Value) -> Value {
        let width = self.width(x);
        let state = self.new_state(State::Fixed { shape: vec![width] });
        self.op(width, Some(x), |out| RgLru { x, decay, state, out })
    }
}
