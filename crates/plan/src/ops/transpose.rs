use super::{Check, Operator};
use crate::{Graph, Result, Value};
use serde::Serialize;

/// Exchanges the dimensions of `x`, seen as `[rows, columns]` of runs: run `r * columns + c` becomes run `c * rows + r`.
#[derive(Clone, Debug, Serialize)]
pub struct Transpose {
    /// The input.
    pub x: Value,
    /// The slower dimension.
    pub rows: usize,
    /// The faster one; `rows * columns` divides the width.
    pub columns: usize,
    /// The output, as wide as `x`.
    pub out: Value,
}

impl Operator for Transpose {
    fn name(&self) -> &'static str {
        "transpose"
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        vec![self.x]
    }
    fn note(&self) -> String {
        format!("[{} x {}]", self.rows, self.columns)
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        c.divides("runs", self.rows.saturating_mul(self.columns), c.width(self.x))?;
        c.as_wide_as(self.x)
    }
}

impl Graph<'_> {
    /// Runs seen as `[rows, columns]` in the order `[columns, rows]`.
    pub fn transpose(&mut self, x: Value, rows: usize, columns: usize) -> Value {
        self.op(self.width(x), Some(x), |out| Transpose { x, rows, columns, out })
    }
}
