use super::{Check, Operator};
use crate::{Graph, Result, Value};
use serde::Serialize;

/// Adds up one dimension of `x`, seen as `[groups, count, n]`: `out[g][i] = sum_c x[g][c][i]`.
#[derive(Clone, Debug, Serialize)]
pub struct Sum {
    /// The input.
    pub x: Value,
    /// Runs that are summed each for itself; divides the width.
    pub groups: usize,
    /// Numbers that make one of the output; divides a run.
    pub count: usize,
    /// The output, narrower than `x` by `count`.
    pub out: Value,
}

impl Operator for Sum {
    fn name(&self) -> &'static str {
        "sum"
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        vec![self.x]
    }
    fn note(&self) -> String {
        format!("[{} x {}]", self.groups, self.count)
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        c.divides("sums", self.groups.saturating_mul(self.count), c.width(self.x))?;
        c.expect("the output", c.out(), c.width(self.x) / self.count)
    }
}

impl Graph<'_> {
    /// Adds up the `count` equal parts of each of `groups` runs.
    pub fn sum(&mut self, x: Value, groups: usize, count: usize) -> Value {
        let width = self.width(x) / count.max(1);
        self.op(width, Some(x), |out| Sum { x, groups, count, out })
    }
}
