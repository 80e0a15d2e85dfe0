use super::{Check, Operator};
use crate::{Graph, Result, Value};
use serde::Serialize;

/// `out = (1 + beta ln(1 + floor((position + shift) / every))) x`: sharper attention in longer contexts (Nakanishi 2025,
/// arXiv:2501.19399; as in Llama 4 and Ministral 3).
#[derive(Clone, Debug, Serialize)]
pub struct PositionScale {
    /// The input.
    pub x: Value,
    /// The growth.
    pub beta: f32,
    /// Tokens over which the factor stays the same, at least 1.
    pub every: usize,
    /// Added to the position.
    pub shift: usize,
    /// The output, as wide as `x`.
    pub out: Value,
}

impl Operator for PositionScale {
    fn name(&self) -> &'static str {
        "position_scale"
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        vec![self.x]
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        if self.every == 0 {
            return c.fail("no token is as long as the factor should stay");
        }
        c.as_wide_as(self.x)
    }
}

impl PositionScale {
    /// The factor at a position.
    pub fn factor(&self, position: usize) -> f32 {
        1.0 + self.beta * (((position + self.shift) / self.every) as f32).ln_1p()
    }
}

impl Graph<'_> {
    /// `x` times a factor that grows with the position.
    pub fn position_scale(&mut self, x: Value, beta: f32, every: usize, shift: usize) -> Value {
        self.op(self.width(x), Some(x), |out| PositionScale { x, beta, every, shift, out })
    }
}
