use super::{Check, Function, Operator};
use crate::{Graph, Result, State, StateId, Value, WeightId};
use serde::Serialize;

/// What a [`CausalConv`] multiplies its inputs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Taps {
    /// A weight `[channels, kernel]`.
    Weight(WeightId),
    /// The oldest by one, the others by zero: a delay.
    Oldest,
    /// Each by `1 / kernel`: their mean.
    Mean,
}

/// A depthwise causal convolution: `out[c] = f(bias[c] + sum_j taps[c][j] x_(t - (kernel - 1 - j) dilation)[c])`, zero before the
/// sequence's start.
#[derive(Clone, Debug, Serialize)]
pub struct CausalConv {
    /// The input.
    pub x: Value,
    /// The factors.
    pub taps: Taps,
    /// `[channels]`.
    pub bias: Option<WeightId>,
    /// The last inputs, a [`State::Fixed`] of `[(kernel - 1) * dilation, channels]`, oldest first.
    pub state: StateId,
    /// Inputs that reach an output.
    pub kernel: usize,
    /// Tokens from one of them to the next.
    pub dilation: usize,
    /// What is applied to the sum.
    pub f: Option<Function>,
    /// The output, as wide as `x`.
    pub out: Value,
}

impl CausalConv {
    /// Inputs from the oldest to the newest that counts.
    pub fn reach(&self) -> usize {
        (self.kernel.saturating_sub(1)).saturating_mul(self.dilation) + 1
    }

    /// The factors of all inputs within reach, `[channels][reach]`; `weight` are the values of the weight, where there is one.
    pub fn spread(&self, channels: usize, weight: Option<&[f32]>) -> Vec<f32> {
        let mut spread = vec![0.0; channels * self.reach()];
        for (c, taps) in spread.chunks_exact_mut(self.reach()).enumerate() {
            for j in 0..self.kernel {
                taps[j * self.dilation] = match (self.taps, weight) {
                    (Taps::Weight(_), Some(weight)) => weight[c * self.kernel + j],
                    (Taps::Mean, _) => 1.0 / self.kernel as f32,
                    _ => f32::from(j == 0),
                };
            }
        }
        spread
    }

    /// The weight, where there is one.
    pub fn weight(&self) -> Option<WeightId> {
        if let Taps::Weight(weight) = self.taps { Some(weight) } else { None }
    }
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
        [self.weight(), self.bias].into_iter().flatten().collect()
    }
    fn state(&self) -> Option<StateId> {
        Some(self.state)
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        if self.kernel < 2 || self.dilation == 0 {
            return c.fail(format!("a kernel of {} has no past", self.kernel));
        }
        let channels = c.width(self.x);
        c.shape(self.weight(), &[channels, self.kernel])?;
        c.shape(self.bias, &[channels])?;
        c.as_wide_as(self.x)?;
        c.fixed(self.state, &[self.reach() - 1, channels])
    }
}

impl Graph<'_> {
    /// A depthwise causal convolution with a state of its own.
    pub fn causal_conv(&mut self, x: Value, name: &str, kernel: usize, f: Option<Function>) -> Value {
        self.dilated_conv(x, name, (kernel, 1), f)
    }

    /// A depthwise causal convolution of inputs that are `dilation` tokens apart.
    pub fn dilated_conv(&mut self, x: Value, name: &str, (kernel, dilation): (usize, usize), f: Option<Function>) -> Value {
        let channels = self.width(x);
        let taps = Taps::Weight(self.weight(&format!("{name}.weight"), &[channels, kernel]));
        let bias = self.optional_weight(&format!("{name}.bias"), &[channels]);
        self.convolve(x, taps, bias, (kernel, dilation), f)
    }

    /// The input of the token before; zero at the sequence's start.
    pub fn delay(&mut self, x: Value) -> Value {
        self.convolve(x, Taps::Oldest, None, (2, 1), None)
    }

    /// The mean of the last `count` inputs, with zeros before the sequence's start.
    pub fn mean_of_last(&mut self, x: Value, count: usize) -> Value {
        if count == 1 { x } else { self.convolve(x, Taps::Mean, None, (count, 1), None) }
    }

    fn convolve(&mut self, x: Value, taps: Taps, bias: Option<WeightId>, (kernel, dilation): (usize, usize), f: Option<Function>) -> Value {
        let channels = self.width(x);
        let past = kernel.saturating_sub(1).saturating_mul(dilation);
        let state = self.new_state(State::Fixed { shape: vec![past, channels] });
        self.op(channels, Some(x), |out| CausalConv { x, taps, bias, state, kernel, dilation, f, out })
    }
}
