use super::{Check, Operator};
use crate::{Graph, Result, Value};
use serde::Serialize;

/// `a` and `b` seen as `groups` equal runs each; each run of `a` is followed by that of `b`.
#[derive(Clone, Debug, Serialize)]
pub struct Concat {
    /// What comes first.
    pub a: Value,
    /// What follows.
    pub b: Value,
    /// Runs; divides both widths.
    pub groups: usize,
    /// The output, as wide as both.
    pub out: Value,
}

impl Operator for Concat {
    fn name(&self) -> &'static str {
        "concat"
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        vec![self.a, self.b]
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        c.divides("groups", self.groups, c.width(self.a))?;
        c.divides("groups", self.groups, c.width(self.b))?;
        c.expect("the output", c.out(), c.width(self.a) + c.width(self.b))
    }
}

impl Graph<'_> {
    /// Each of `groups` runs of `a`, followed by that of `b`.
    pub fn concat(&mut self, a: Value, b: Value, groups: usize) -> Value {
        self.op(self.width(a) + self.width(b), Some(a), |out| Concat { a, b, groups, out })
    }

    /// Each of `groups` runs of `x`, `count` times.
    pub fn repeat(&mut self, x: Value, groups: usize, count: usize) -> Value {
        (1..count).fold(x, |all, _| self.concat(all, x, groups))
    }
}
