use super::{Check, Operator};
use crate::{Graph, Result, Value};
use serde::Serialize;

/// Takes numbers `start .. start + len` of each of `groups` equal runs of `x`.
#[derive(Clone, Debug, Serialize)]
pub struct Slice {
    /// The input.
    pub x: Value,
    /// Runs that `x` is seen as; divides its width.
    pub groups: usize,
    /// First number taken from each.
    pub start: usize,
    /// Numbers taken from each.
    pub len: usize,
    /// The output, `groups * len` wide.
    pub out: Value,
}

impl Operator for Slice {
    fn name(&self) -> &'static str {
        "slice"
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        vec![self.x]
    }
    fn note(&self) -> String {
        format!("[{} x {}..{}]", self.groups, self.start, self.start + self.len)
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        c.divides("groups", self.groups, c.width(self.x))?;
        let run = c.width(self.x) / self.groups;
        if self.start.saturating_add(self.len) > run {
            return c.fail(format!("{} + {} is beyond a run of {run}", self.start, self.len));
        }
        c.expect("the output", c.out(), self.groups * self.len)
    }
}

impl Graph<'_> {
    /// Numbers `start .. start + len` of each of `groups` runs.
    pub fn slice(&mut self, x: Value, groups: usize, start: usize, len: usize) -> Value {
        self.op(groups * len, Some(x), |out| Slice { x, groups, start, len, out })
    }
}
