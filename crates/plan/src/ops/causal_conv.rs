use super::{Check, Function, Operator};
use crate::{Graph, Result, State, StateId, Value, WeightId};
use serde::Serialize;

/// A depthwise causal convolution: `out[c] = f(bias[c] + sum_j weight[c][j] x_(t - kernel + 1 + j)[c])`, zero before the sequence's
/// start. Without a weight it is a delay: `out = f(bias + x_(t - kernel + 1))`.
#[derive(Clone, Debug, Serialize)]
pub struct CausalConv {
    /// The input.
    pub x: Value,
    /// `[channels, kernel]`.
    pub weight: Option<WeightId>,
    /// `[channels]`.
    pub bias: Option<WeightId>,
    /// The last `kernel - 1` inputs, a [`State::Fixed`] of `[kernel - 1, channels]`, oldest first.
    pub state: StateId,
    /// Inputs that reach an output.
    pub kernel: usize,
    /// What is applied to the sum.
    pub f: Option<Function>,
    /// The output, as wide as `x`.
    pub out: Value,
}

impl Operator for CausalConv {
    fn name(&self) -> &'static str {
        "causal_conv"
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        vec![self.x]
    }
    fn weights(&self) -> Vec<WeightId> {
        [self.weight, self.bias].into_iter().flatten().collect()
    }
    fn state(&self) -> Option<StateId> {
        Some(self.state)
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        if self.kernel < 2 {
            return c.fail(format!("a kernel of {} has no past", self.kernel));
        }
        let channels = c.width(self.x);
        c.shape(self.weight, &[channels, self.kernel])?;
        c.shape(self.bias, &[channels])?;
        c.as_wide_as(self.x)?;
        c.fixed(self.state, &[self.kernel - 1, channels])
    }
}

impl Graph<'_> {
    /// A depthwise causal convolution with a state of its own.
    pub fn causal_conv(&mut self, x: Value, name: &str, kernel: usize, f: Option<Function>) -> Value {
        let channels = self.width(x);
        let weight = Some(self.weight(&format!("{name}.weight"), &[channels, kernel]));
        let bias = self.optional_weight(&format!("{name}.bias"), &[channels]);
        let state = self.new_state(State::Fixed { shape: vec![kernel.saturating_sub(1), channels] });
        self.op(channels, Some(x), |out| CausalConv { x, weight, bias, state, kernel, f, out })
    }
    /// The input of the token before; zero at the sequence's start.
    pub fn delay(&mut self, x: Value) -> Value {
        let channels = self.width(x);
        let state = self.new_state(State::Fixed { shape: vec![1, channels] });
        self.op(channels, Some(x), |out| CausalConv { x, weight: None, bias: None, state, kernel: 2, f: None, out })
    }
}
