use super::{Check, Operator};
use crate::{Error, Graph, Result, Value, WeightId};
use serde::Serialize;

/// `out = (x - mean) / sqrt(variance + eps) * weight + bias` over each run of `dim` numbers (Ba et al. 2016, arXiv:1607.06450).
#[derive(Clone, Debug, Serialize)]
pub struct LayerNorm {
    /// The input.
    pub x: Value,
    /// `[dim]`, or `[runs, dim]` where each run has its own.
    pub weight: Option<WeightId>,
    /// In the same way.
    pub bias: Option<WeightId>,
    /// Numbers that are normalised together; divides the width.
    pub dim: usize,
    /// Added to the variance.
    pub eps: f32,
    /// The output, as wide as `x`.
    pub out: Value,
}

impl Operator for LayerNorm {
    fn name(&self) -> &'static str {
        "layer_norm"
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
    fn check(&self, c: &Check<'_>) -> Result<()> {
        c.divides("norm", self.dim, c.width(self.x))?;
        let shape = [c.width(self.x) / self.dim, self.dim];
        for it in [self.weight, self.bias].into_iter().flatten() {
            let own = c.plan.weight(it).shape.len() > 1;
            c.shape(it, if own { &shape } else { &shape[1..] })?;
        }
        c.as_wide_as(self.x)
    }
}

impl Graph<'_> {
    /// LayerNorm of the whole row with the weight and, where there is one, the bias `name`.
    pub fn layer_norm(&mut self, x: Value, name: &str, eps: f32) -> Value {
        self.head_layer_norm(x, name, self.width(x), eps)
    }

    /// LayerNorm of each run of `dim` numbers with the weight and, where there is one, the bias `name`.
    pub fn head_layer_norm(&mut self, x: Value, name: &str, dim: usize, eps: f32) -> Value {
        let weight = Some(self.weight(&format!("{name}.weight"), &[dim]));
        let bias = self.optional_weight(&format!("{name}.bias"), &[dim]);
        self.op(self.width(x), Some(x), |out| LayerNorm { x, weight, bias, dim, eps, out })
    }

    /// LayerNorm of each of `runs` runs, which have weights of their own.
    pub fn group_layer_norm(&mut self, x: Value, name: &str, runs: usize, eps: f32) -> Value {
        let width = self.width(x);
        if runs == 0 || !width.is_multiple_of(runs) {
            self.fail(Error::invalid(format!("{runs} runs of `{name}` do not divide {width} numbers")));
            return x;
        }
        let dim = width / runs;
        let weight = Some(self.weight(&format!("{name}.weight"), &[runs, dim]));
        let bias = self.optional_weight(&format!("{name}.bias"), &[runs, dim]);
        self.op(width, Some(x), |out| LayerNorm { x, weight, bias, dim, eps, out })
    }

    /// LayerNorm of each run of `dim` numbers without weight and bias.
    pub fn plain_layer_norm(&mut self, x: Value, dim: usize, eps: f32) -> Value {
        self.op(self.width(x), Some(x), |out| LayerNorm { x, weight: None, bias: None, dim, eps, out })
    }
}
