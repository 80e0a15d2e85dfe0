use super::{Check, Operator};
use crate::{Result, Rotation, Value};
use serde::Serialize;

/// `out = R x`, or the inverse (see [`Rotation`]): what a rotated matrix is multiplied with, or a row of a rotated table.
///
/// Architectures do not ask for it: [`rotate`](crate::rotate()) puts it into plans whose weights are rotated.
#[derive(Clone, Debug, Serialize)]
pub struct Hadamard {
    /// The input.
    pub x: Value,
    /// `R`.
    pub rotation: Rotation,
    /// Whether it is turned back.
    pub inverse: bool,
    /// The output, as wide as `x`.
    pub out: Value,
}

impl Operator for Hadamard {
    fn name(&self) -> &'static str {
        "hadamard"
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        vec![self.x]
    }
    fn note(&self) -> String {
        format!("{}blocks of {}", if self.inverse { "back, " } else { "" }, self.rotation.block)
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        self.rotation.fault(c.width(self.x)).map_or(Ok(()), |fault| c.fail(fault))?;
        c.as_wide_as(self.x)
    }
}
