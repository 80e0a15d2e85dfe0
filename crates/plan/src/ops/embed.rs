use super::{Check, Operator};
use crate::{Graph, Result, Value, WeightId};
use serde::Serialize;

/// `out = scale * weight[token]`: the row of a table `[vocabulary, width]` for the token.
#[derive(Clone, Debug, Serialize)]
pub struct Embed {
    /// The table.
    pub weight: WeightId,
    /// A factor (Gemma); 1 for most.
    pub scale: f32,
    /// The output.
    pub out: Value,
}

impl Operator for Embed {
    fn name(&self) -> &'static str {
        "embed"
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        vec![]
    }
    fn weights(&self) -> Vec<WeightId> {
        vec![self.weight]
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        c.shape(self.weight, &[c.plan.vocabulary, c.out()])
    }
}

impl Graph<'_> {
    /// The tokens' rows of the table `name`, which is `width` wide.
    pub fn embed(&mut self, name: &str, width: usize, scale: f32) -> Value {
        let weight = self.weight(&format!("{name}.weight"), &[self.vocabulary(), width]);
        self.op(width, None, |out| Embed { weight, scale, out })
    }
}
