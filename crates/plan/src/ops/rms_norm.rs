use super::{Check, Operator};
use crate::{Graph, Result, Value, WeightId};
use serde::Serialize;

/// `out = x / sqrt(mean(x^2) + eps) * weight` over each run of `dim` numbers (Zhang & Sennrich 2019, arXiv:1910.07467).
#[derive(Clone, Debug, Serialize)]
pub struct RmsNorm {
    /// The input.
    pub x: Value,
    /// `[dim]`.
    pub weight: Option<WeightId>,
    /// Numbers that are normalised together; divides the width.
    pub dim: usize,
    /// Added to the mean square.
    pub eps: f32,
    /// The output, as wide as `x`.
    pub out: Value,
}

impl Operator for RmsNorm {
    fn name(&self) -> &'static str {
        "rms_norm"
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        vec![self.x]
    }
    fn weights(&self) -> Vec<WeightId> {
        self.weight.into_iter().collect()
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        c.divides("norm", self.dim, c.width(self.x))?;
        c.shape(self.weight, &[self.dim])?;
        c.as_wide_as(self.x)
    }
}

impl Graph<'_> {
    /// RMSNorm of the whole row with the weight `name`.
    pub fn rms_norm(&mut self, x: Value, name: &str, eps: f32) -> Value {
        self.head_norm(x, name, self.width(x), eps)
    }

    /// RMSNorm of each run of `dim` numbers with the weight `name`.
    pub fn head_norm(&mut self, x: Value, name: &str, dim: usize, eps: f32) -> Value {
        let weight = Some(self.weight(&format!("{name}.weight"), &[dim]));
        self.op(self.width(x), Some(x), |out| RmsNorm { x, weight, dim, eps, out })
    }
}
