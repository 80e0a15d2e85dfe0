use super::{Check, Operator};
use crate::{Error, Graph, Result, Value, WeightId};
use serde::Serialize;

/// `out = x / sqrt(mean(x^2) + eps) * weight` over each run of `dim` numbers (Zhang & Sennrich 2019, arXiv:1910.07467).
#[derive(Clone, Debug, Serialize)]
pub struct RmsNorm {
    /// The input.
    pub x: Value,
    /// `[dim]`, or `[runs, dim]` where each run has its own.
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
        let own = self.weight.is_some_and(|w| c.plan.weight(w).shape.len() > 1);
        let shape = [c.width(self.x) / self.dim, self.dim];
        c.shape(self.weight, if own { &shape } else { &shape[1..] })?;
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

    /// RMSNorm of each of `groups` runs, which have weights of their own.
    pub fn group_norm(&mut self, x: Value, name: &str, groups: usize, eps: f32) -> Value {
        let width = self.width(x);
        if groups == 0 || !width.is_multiple_of(groups) {
            self.fail(Error::invalid(format!("{groups} groups of `{name}` do not divide {width} numbers")));
            return x;
        }
        let dim = width / groups;
        let weight = Some(self.weight(&format!("{name}.weight"), &[groups, dim]));
        self.op(width, Some(x), |out| RmsNorm { x, weight, dim, eps, out })
    }

    /// RMSNorm of each run of `dim` numbers, without a weight.
    pub fn plain_norm(&mut self, x: Value, dim: usize, eps: f32) -> Value {
        self.op(self.width(x), Some(x), |out| RmsNorm { x, weight: None, dim, eps, out })
    }
}
