use super::{Check, Operator};
use crate::{Graph, Result, Value};
use serde::Serialize;

/// `out = [sin(a f_0), sin(a f_1), ..., cos(a f_0), cos(a f_1), ...]` with `a = position + offset` (Vaswani et al. 2017,
/// arXiv:1706.03762; sines before cosines as in tensor2tensor). Angles are rounded to f32.
#[derive(Clone, Debug, Serialize)]
pub struct Sinusoid {
    /// `f`.
    pub frequencies: Vec<f32>,
    /// Added to the position.
    pub offset: usize,
    /// The output, twice as wide as there are frequencies.
    pub out: Value,
}

impl Operator for Sinusoid {
    fn name(&self) -> &'static str {
        "sinusoid"
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        vec![]
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        c.expect("the output", c.out(), 2 * self.frequencies.len())
    }
}

impl Graph<'_> {
    /// Sines and cosines of each token's position plus `offset`.
    pub fn sinusoid(&mut self, frequencies: Vec<f32>, offset: usize) -> Value {
        self.op(2 * frequencies.len(), None, |out| Sinusoid { frequencies, offset, out })
    }
}
