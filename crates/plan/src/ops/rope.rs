use super::{Check, Operator};
use crate::{AXES, Graph, Result, Rope, Value};
use serde::Serialize;

/// Turns each head of `x` by the token's position plus `shift`.
#[derive(Clone, Debug, Serialize)]
pub struct ApplyRope {
    /// The input.
    pub x: Value,
    /// Numbers in a head; divides the width.
    pub head: usize,
    /// The rotation.
    pub rope: Rope,
    /// Added to the position; 0 for most.
    pub shift: i32,
    /// The output, as wide as `x`.
    pub out: Value,
}

impl Operator for ApplyRope {
    fn name(&self) -> &'static str {
        "rope"
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        vec![self.x]
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        c.divides("head", self.head, c.width(self.x))?;
        if self.rope.dims() > self.head {
            return c.fail(format!("the rotary dimension {} is larger than the head, {}", self.rope.dims(), self.head));
        }
        let axes = &self.rope.axes;
        if !axes.is_empty() && axes.len() != self.rope.frequencies.len() || axes.iter().any(|axis| usize::from(*axis) >= AXES) {
            return c.fail(format!("the axes should be below {AXES}, one for each of {} pairs", self.rope.frequencies.len()));
        }
        c.as_wide_as(self.x)
    }
}

impl Graph<'_> {
    /// Turns heads of `head` numbers by position.
    pub fn rope(&mut self, x: Value, head: usize, rope: &Rope) -> Value {
        self.shifted_rope(x, head, rope, 0)
    }

    /// Turns heads of `head` numbers by position plus `shift`.
    pub fn shifted_rope(&mut self, x: Value, head: usize, rope: &Rope, shift: i32) -> Value {
        self.op(self.width(x), Some(x), |out| ApplyRope { x, head, rope: rope.clone(), shift, out })
    }
}
