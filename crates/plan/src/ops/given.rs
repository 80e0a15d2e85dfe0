use super::{Check, Operator};
use crate::{Graph, Result, Value};
use serde::Serialize;

/// What the batch gives a token besides its id ([`Inputs::rows`](crate::Inputs::rows)), numbers `start .. start + width` of it: an image's
/// pixels for a vision tower, what such a tower made of them for a text model.
#[derive(Clone, Debug, Serialize)]
pub struct Given {
    /// What tokens have that are given nothing. Without it, every token must be given a row.
    pub x: Option<Value>,
    /// The first of the numbers.
    pub start: usize,
    /// Whether the numbers are added to `x` instead of taking its place.
    pub add: bool,
    /// The output, as wide as `x` where there is one.
    pub out: Value,
}

impl Operator for Given {
    fn name(&self) -> &'static str {
        if self.add { "add_given" } else { "given" }
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        self.x.into_iter().collect()
    }
    fn note(&self) -> String {
        format!("[{}..]", self.start)
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        if c.plan.value(self.out).rows != crate::Rows::Tokens {
            return c.fail("only tokens are given rows");
        }
        match self.x {
            Some(x) => c.as_wide_as(x),
            None if self.add => c.fail("there is nothing to add to"),
            None => Ok(()),
        }
    }
}

impl Graph<'_> {
    /// `width` numbers, from `start` on, that each token is given.
    pub fn given(&mut self, start: usize, width: usize) -> Value {
        self.op(width, None, |out| Given { x: None, start, add: false, out })
    }

    /// The first numbers that a token is given, or `x` where it is given none.
    pub fn or_given(&mut self, x: Value) -> Value {
        self.op(self.width(x), Some(x), |out| Given { x: Some(x), start: 0, add: false, out })
    }

    /// `x`, plus the numbers from `start` on where the token is given such.
    pub fn add_given(&mut self, x: Value, start: usize) -> Value {
        self.op(self.width(x), Some(x), |out| Given { x: Some(x), start, add: true, out })
    }
}
