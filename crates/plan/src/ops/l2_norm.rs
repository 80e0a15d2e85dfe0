use super::{Check, Operator};
use crate::{Graph, Result, Value};
use serde::Serialize;

/// `out = x / sqrt(sum(x^2) + eps)` over each run of `dim` numbers.
#[derive(Clone, Debug, Serialize)]
pub struct L2Norm {
    /// The input.
    pub x: Value,
    /// Numbers that are normalised together; divides the width.
    pub dim: usize,
    /// Added to the sum.
    pub eps: f32,
    /// The output, as wide as `x`.
    pub out: Value,
}

impl Operator for L2Norm {
    fn name(&self) -> &'static str {
        "l2_norm"
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        vec![self.x]
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        c.divides("norm", self.dim, c.width(self.x))?;
        c.as_wide_as(self.x)
    }
}

impl Graph<'_> {
    /// L2 norm of each run of `dim` numbers.
    pub fn l2_norm(&mut self, x: Value, dim: usize, eps: f32) -> Value {
        self.op(self.width(x), Some(x), |out| L2Norm { x, dim, eps, out })
    }
}
