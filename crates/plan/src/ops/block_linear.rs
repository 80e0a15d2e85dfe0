use super::{Check, Operator};
use crate::{Graph, Result, Value, Weight, WeightId};
use serde::Serialize;

/// A block-diagonal product: each of the equal runs of `x` has a matrix of its own, `out_r = weight[r] x_r + bias[r]`.
#[derive(Clone, Debug, Serialize)]
pub struct BlockLinear {
    /// The input.
    pub x: Value,
    /// `[runs, numbers in a run of the output, numbers in a run of x]`.
    pub weight: WeightId,
    /// Whether the matrices are stored the other way, one row for each number of the input.
    pub transposed: bool,
    /// `[runs, numbers in a run of the output]`.
    pub bias: Option<WeightId>,
    /// The output.
    pub out: Value,
}

impl Operator for BlockLinear {
    fn name(&self) -> &'static str {
        "block_linear"
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
        let runs = c.plan.weight(self.weight).shape.first().copied().unwrap_or(0);
        c.divides("runs", runs, c.width(self.x))?;
        c.divides("runs", runs, c.out())?;
        c.shape(self.weight, &shape(self.transposed, runs, c.width(self.x) / runs, c.out() / runs))?;
        c.shape(self.bias, &[runs, c.out() / runs])
    }
}

/// The shape of `runs` matrices.
fn shape(transposed: bool, runs: usize, from: usize, to: usize) -> [usize; 3] {
    if transposed { [runs, from, to] } else { [runs, to, from] }
}

impl Graph<'_> {
    /// A block-diagonal product of `runs` square matrices that are stored transposed, with the complete names of weight and bias.
    pub fn block_linear(&mut self, x: Value, weight: &str, bias: &str, runs: usize) -> Value {
        let width = self.width(x);
        let run = width / runs.max(1);
        let weight = self.weight(weight, &shape(true, runs, run, run));
        let bias = Some(self.weight(bias, &[runs, run]));
        self.op(width, Some(x), |out| BlockLinear { x, weight, transposed: true, bias, out })
    }

    /// The matrices `name.weight`, one for each of `runs` runs of `x`, which make `out` numbers each.
    pub fn head_linear(&mut self, x: Value, name: &str, runs: usize, out: usize, transposed: bool) -> Value {
        let shape = shape(transposed, runs, self.width(x) / runs.max(1), out);
        let weight = self.weight(&format!("{name}.weight"), &shape);
        self.op(runs * out, Some(x), |out| BlockLinear { x, weight, transposed, bias: None, out })
    }

    /// The matrices of `weight`, `[runs, numbers in a run of the output, numbers in a run of x]`, which was made of others.
    pub fn head_linear_of(&mut self, x: Value, weight: Weight) -> Value {
        let width = weight.rows();
        let weight = self.made(weight);
        self.op(width, Some(x), |out| BlockLinear { x, weight, transposed: false, bias: None, out })
    }
}
