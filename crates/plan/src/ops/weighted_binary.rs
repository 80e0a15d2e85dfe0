use super::{Binary, Check, Operator};
use crate::{Graph, Result, Value, WeightId};
use serde::Serialize;

/// `out[i] = f(x[i], weight[i * weight_len / x_width])`: each number of a shorter weight serves a run of `x`.
#[derive(Clone, Debug, Serialize)]
pub struct WeightedBinary {
    /// The input.
    pub x: Value,
    /// A vector, or the rows of a matrix one after the other; its length divides the width of `x`.
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
        let length = c.plan.weight(self.weight).shape.iter().product();
        c.divides("broadcast", length, c.width(self.x))?;
        c.as_wide_as(self.x)
    }
}

impl Graph<'_> {
    /// A function of each number and the vector `name` (complete: `ssm_dt.bias`).
    pub fn with_weight(&mut self, x: Value, f: Binary, name: &str) -> Value {
        self.with_short_weight(x, f, name, self.width(x))
    }

    /// A function of each number and the rows of the matrix `name` (complete), one after the other.
    pub fn with_rows(&mut self, x: Value, f: Binary, name: &str, rows: usize) -> Value {
        let weight = self.weight(name, &[rows, self.width(x) / rows.max(1)]);
        self.op(self.width(x), Some(x), |out| WeightedBinary { x, weight, f, out })
    }

    /// A function of each number and the vector `name` (complete) of `length` numbers, each of which serves a run.
    pub fn with_short_weight(&mut self, x: Value, f: Binary, name: &str, length: usize) -> Value {
        let weight = self.weight(name, &[length]);
        self.op(self.width(x), Some(x), |out| WeightedBinary { x, weight, f, out })
    }
}
