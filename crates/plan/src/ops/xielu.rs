use super::{Check, Operator};
use crate::{Graph, Result, Value};
use serde::Serialize;

/// xIELU (Huang & Schlag 2024, arXiv:2411.13010): `alpha_p x^2 + beta x` above zero, and
/// `alpha_n (e^min(x, eps) - 1 - x) + beta x` elsewhere.
#[derive(Clone, Debug, Serialize)]
pub struct Xielu {
    /// The input.
    pub x: Value,
    /// Curvature above zero.
    pub alpha_p: f32,
    /// Growth below zero.
    pub alpha_n: f32,
    /// Slope at zero.
    pub beta: f32,
    /// The largest exponent, a small negative number.
    pub eps: f32,
    /// The output, as wide as `x`.
    pub out: Value,
}

impl Operator for Xielu {
    fn name(&self) -> &'static str {
        "xielu"
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        vec![self.x]
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        c.as_wide_as(self.x)
    }
}

impl Xielu {
    /// The value at `x`, in f32 arithmetic.
    pub fn apply(&self, x: f32) -> f32 {
        match x > 0.0 {
            true => self.alpha_p * x * x + self.beta * x,
            false => (x.min(self.eps).exp_m1() - x) * self.alpha_n + self.beta * x,
        }
    }
}

impl Graph<'_> {
    /// xIELU of each number; `op.x` and `op.out` are filled in.
    pub fn xielu(&mut self, x: Value, op: Xielu) -> Value {
        self.op(self.width(x), Some(x), |out| Xielu { x, out, ..op })
    }
}
