use super::{Check, Operator};
use crate::{Graph, Result, Value, WeightId};
use serde::Serialize;

/// `out = (x - mean) / sqrt(variance + eps) * weight + bias` over the row (Ba et al. 2016, arXiv:1607.06450).
#[derive(Clone, Debug, Serialize)]
pub struct LayerNorm {
    /// The input.
    pub x: Value,
    /// `[x]`.
    pub weight: Option<WeightId>,
    /// `[x]`.
    pub bias: Option<WeightId>,
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
        c.shape(self.weight, &[c.width(self.x)])?;
        c.shape(self.bias, &[c.width(self.x)])?;
        c.as_wide_as(self.x)
    }
}

impl Graph<'_> {
    /// LayerNorm with the weight and, where there is one, the bias `name`.
    pub fn layer_norm(&mut self, x: Value, name: &str, eps: f32) -> Value {
        let width = self.width(x);
        let weight = Some(self.weight(&format!("{name}.weight"), &[width]));
        let bias = self.optional_weight(&format!("{name}.bias"), &[width]);
        self.op(width, Some(x), |out| LayerNorm { x, weight, bias, eps, out })
    }

    /// LayerNorm without weight and bias.
    pub fn plain_layer_norm(&mut self, x: Value, eps: f32) -> Value {
        self.op(self.width(x), Some(x), |out| LayerNorm { x, weight: None, bias: None, eps, out })
    }
}
