use super::{Binary, Check, Operator};
use crate::{Graph, Result, Value, WeightId};
use serde::Serialize;

/// `out[i] = f(x[i], weight[i])`.
#[derive(Clone, Debug, Serialize)]
pub struct WeightedBinary {
    /// The input.
    pub x: Value,
    /// A vector as wide as `x`.
    pub weight: WeightId,
    /// The function.
    pub f: Binary,
    /// The output, as wide as `x`.
    pub out: Value,
}

impl Operator for WeightedBinary {
    fn name(&self) -> &'static str {
        match self.f {
            Binary::Add => "add_weight",
            Binary::Mul => "mul_weight",
        }
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        vec![self.x]
    }
    fn weights(&self) -> Vec<WeightId> {
        vec![self.weight]
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        c.shape(self.weight, &[c.width(self.x)])?;
        c.as_wide_as(self.x)
    }
}

impl Graph<'_> {
    /// A function of each number and the vector `name` (complete: `ssm_dt.bias`).
    pub fn with_weight(&mut self, x: Value, f: Binary, name: &str) -> Value {
        let width = self.width(x);
        let weight = self.weight(name, &[width]);
        self.op(width, Some(x), |out| WeightedBinary { x, weight, f, out })
    }
}
