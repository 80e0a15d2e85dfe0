use super::{Check, Operator};
use crate::{Graph, Result, Value};
use serde::Serialize;

/// Each row rounded to 8 bits: `out[i] = round(x[i] s) / s` with `s = 127 / max(|x[0]|, |x[1]|, ..., 1e-5)`, halves to even.
///
/// The inputs of BitNet's linear layers (Ma et al. 2024, arXiv:2402.17764; `ActQuant` of transformers), which are trained with it.
#[derive(Clone, Debug, Serialize)]
pub struct RoundRows {
    /// The input.
    pub x: Value,
    /// The output, as wide as `x`.
    pub out: Value,
}

impl RoundRows {
    /// The row `x`, rounded. Devices must compute the same bits, because a number that lies between two steps jumps.
    pub fn apply(x: &[f32], out: &mut [f32]) {
        let largest = x.iter().fold(1e-5f32, |m, v| m.max(v.abs()));
        let scale = 127.0 / largest;
        for (v, x) in out.iter_mut().zip(x) {
            *v = (x * scale).round_ties_even().clamp(-128.0, 127.0) / scale;
        }
    }
}

impl Operator for RoundRows {
    fn name(&self) -> &'static str {
        "round_rows"
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
    /// `x` with each row rounded to 8 bits. [`Graph::linear`] does it by itself where a weight asks for it.
    pub fn round_rows(&mut self, x: Value) -> Value {
        if let Some(of) = self.rounded(x) {
            return of;
        }
        let out = self.op(self.width(x), Some(x), |out| RoundRows { x, out });
        self.remember_rounded(x, out);
        out
    }
}
