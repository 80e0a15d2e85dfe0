use super::{Check, Operator};
use crate::{Graph, Result, Value, WeightId};
use serde::Serialize;

/// `out = weight x + bias`, `weight` being `[out, x]`.
#[derive(Clone, Debug, Serialize)]
pub struct Linear {
    /// The input.
    pub x: Value,
    /// The matrix.
    pub weight: WeightId,
    /// `[out]`.
    pub bias: Option<WeightId>,
    /// The output.
    pub out: Value,
}

impl Operator for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        vec![self.x]
    }
    fn weights(&self) -> Vec<WeightId> {
        [Some(self.weight), self.bias].into_iter().flatten().collect()
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        c.shape(self.weight, &[c.out(), c.width(self.x)])?;
        c.shape(self.bias, &[c.out()])
    }
}

impl Graph<'_> {
    /// `name.weight x`, plus `name.bias` where the checkpoint has one; `out` wide. `x` is [rounded](crate::RoundRows) where the weight
    /// [asks](crate::Weight::rounds_input) for it.
    pub fn linear(&mut self, x: Value, name: &str, out: usize) -> Value {
        let weight = self.weight(&format!("{name}.weight"), &[out, self.width(x)]);
        let x = if self.rounds_input(weight) { self.round_rows(x) } else { x };
        let bias = self.optional_weight(&format!("{name}.bias"), &[out]);
        self.op(out, Some(x), |out| Linear { x, weight, bias, out })
    }

    /// `weight x` for the weight of this complete name, without a bias; `out` wide.
    pub fn linear_of(&mut self, x: Value, weight: &str, out: usize) -> Value {
        let weight = self.weight(weight, &[out, self.width(x)]);
        self.op(out, Some(x), |out| Linear { x, weight, bias: None, out })
    }

    /// The logits: `output` of `x`, or the embedding table `token_embd` where the checkpoint ties them; plus `output.bias`
    /// where there is one.
    pub fn head(&mut self, x: Value) -> Value {
        self.hidden(x);
        let vocabulary = self.vocabulary();
        let shape = [vocabulary, self.width(x)];
        let tied = !self.has("output.weight", &shape);
        let weight = self.weight(if tied { "token_embd.weight" } else { "output.weight" }, &shape);
        let bias = self.optional_weight("output.bias", &[vocabulary]);
        self.op(vocabulary, Some(x), |out| Linear { x, weight, bias, out })
    }
}
