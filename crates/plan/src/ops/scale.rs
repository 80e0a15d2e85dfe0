use super::{Check, Operator};
use crate::{Graph, Result, Value};
use serde::Serialize;

/// `out = by * x`.
#[derive(Clone, Debug, Serialize)]
pub struct Scale {
    /// The input.
    pub x: Value,
    /// The factor.
    pub by: f32,
    /// The output, as wide as `x`.
    pub out: Value,
}

impl Operator for Scale {
    fn name(&self) -> &'static str {
        "scale"
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        vec![self.x]
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        c.as_wide_as(self.x)
    }
}

impl Graph<'_> {
    /// `by * x`; nothing where `by` is 1.
    pub fn scale(&mut self, x: Value, by: f32) -> Value {
        if by == 1.0 { x } else { self.op(self.width(x), Some(x), |out| Scale { x, by, out }) }
    }
}
