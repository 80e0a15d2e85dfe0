use super::{Check, Operator};
use crate::{Graph, Result, Value};
use serde::Serialize;

/// A function of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Binary {
    /// `a + b`.
    Add,
    /// `a * b`.
    Mul,
}

impl Binary {
    /// The value.
    pub fn apply(self, a: f32, b: f32) -> f32 {
        match self {
            Self::Add => a + b,
            Self::Mul => a * b,
        }
    }
}

/// `out[i] = f(a[i], b[i * b_width / a_width])`: each number of a narrower `b` serves a run of `a`.
#[derive(Clone, Debug, Serialize)]
pub struct Pairwise {
    /// The wider input.
    pub a: Value,
    /// The other; its width divides that of `a`.
    pub b: Value,
    /// The function.
    pub f: Binary,
    /// The output, as wide as `a`.
    pub out: Value,
}

impl Operator for Pairwise {
    fn name(&self) -> &'static str {
        match self.f {
            Binary::Add => "add",
            Binary::Mul => "mul",
        }
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        vec![self.a, self.b]
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        c.divides("broadcast", c.width(self.b), c.width(self.a))?;
        c.as_wide_as(self.a)
    }
}

impl Graph<'_> {
    /// `a + b`.
    pub fn add(&mut self, a: Value, b: Value) -> Value {
        self.op(self.width(a), Some(a), |out| Pairwise { a, b, f: Binary::Add, out })
    }

    /// `a * b`; a narrower `b` serves runs of `a`.
    pub fn mul(&mut self, a: Value, b: Value) -> Value {
        self.op(self.width(a), Some(a), |out| Pairwise { a, b, f: Binary::Mul, out })
    }
}
