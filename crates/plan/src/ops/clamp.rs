use super::{Check, Operator};
use crate::{Graph, Result, Value};
use serde::Serialize;

/// `out[i] = min(max(x[i], -limit), limit)`.
#[derive(Clone, Debug, Serialize)]
pub struct Clamp {
    /// The input.
    pub x: Value,
    /// The bound, positive.
    pub limit: f32,
    /// The output, as wide as `x`.
    pub out: Value,
}

impl Operator for Clamp {
    fn name(&self) -> &'static str {
        "clamp"
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        vec![self.x]
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        if self.limit.is_nan() || self.limit <= 0.0 {
            return c.fail(format!("the limit is {}, but should be positive", self.limit));
        }
        c.as_wide_as(self.x)
    }
}

impl Graph<'_> {
    /// Each number limited to `-limit ..= limit`.
    pub fn clamp(&mut self, x: Value, limit: f32) -> Value {
        self.op(self.width(x), Some(x), |out| Clamp { x, limit, out })
    }
}
