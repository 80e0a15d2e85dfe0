use super::{Check, Operator};
use crate::{Graph, Result, Rows, Value};
use serde::Serialize;

/// Keeps the rows whose logits were asked for: [`Rows::Tokens`] to [`Rows::Outputs`].
#[derive(Clone, Debug, Serialize)]
pub struct Select {
    /// The input.
    pub x: Value,
    /// The output, as wide as `x`.
    pub out: Value,
}

impl Operator for Select {
    fn name(&self) -> &'static str {
        "select"
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        vec![self.x]
    }
    fn input_rows(&self, _: Rows) -> Rows {
        Rows::Tokens
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        if c.plan.value(self.out).rows != Rows::Outputs {
            return c.fail("the output should have the rows of outputs");
        }
        c.as_wide_as(self.x)
    }
}

impl Graph<'_> {
    /// Keeps the rows whose logits are asked for.
    pub fn select(&mut self, x: Value) -> Value {
        let out = self.new_value(self.width(x), Rows::Outputs, crate::Kind::Numbers);
        self.push(Select { x, out });
        out
    }
}
