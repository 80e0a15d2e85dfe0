use super::{Check, Operator};
use crate::{Graph, Result, Value};
use serde::Serialize;

/// `out[i] = min(max(x[i], low), high)`.
#[derive(Clone, Debug, Serialize)]
pub struct Clamp {
    /// The input.
    pub x: Value,
    /// The lower bound, which may be infinite.
    pub low: f32,
    /// The upper bound, which may be infinite; not below the lower one.
    pub high: f32,
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
    fn note(&self) -> String {
        format!("[{} ..= {}]", self.low, self.high)
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        if self.low.is_nan() || self.high.is_nan() || self.low > self.high {
            return c.fail(format!("the bounds are {} and {}, between which there is nothing", self.low, self.high));
        }
        c.as_wide_as(self.x)
    }
}

impl Graph<'_> {
    /// Each number limited to `-limit ..= limit`.
    pub fn clamp(&mut self, x: Value, limit: f32) -> Value {
        self.clamp_between(x, -limit, limit)
    }

    /// Each number limited to `low ..= high`.
    pub fn clamp_between(&mut self, x: Value, low: f32, high: f32) -> Value {
        self.op(self.width(x), Some(x), |out| Clamp { x, low, high, out })
    }
}
