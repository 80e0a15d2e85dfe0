use super::{Check, Operator};
use crate::{Graph, Result, State, StateId, Value, WeightId};
use serde::Serialize;

/// A selective state space: Mamba (Gu & Dao 2023, arXiv:2312.00752), whose heads are single numbers, and Mamba 2 (Dao & Gu 2024,
/// arXiv:2405.21060). A recurrent matrix S of `size x head` numbers for each head.
///
/// For each token, with the head's step `t`: `S = exp(t rate) S + b (t x)^T`; `out = S^T c + skip x`. The rate is one number for the
/// head, or one for each row of S. Head `h` uses the `b` and `c` of group `h / (heads / groups)`.
#[derive(Clone, Debug, Serialize)]
pub struct SelectiveScan {
    /// The input, `heads * head`.
    pub x: Value,
    /// How far each head steps, `heads`; not negative.
    pub step: Value,
    /// Where the input goes in the state, `groups * size`.
    pub b: Value,
    /// What is read from the state, `groups * size`.
    pub c: Value,
    /// Logarithm of the decay for a step of one, negative: `[heads]` or `[heads, size]`.
    pub rate: WeightId,
    /// How much of the input passes beside the state, `[heads]`.
    pub skip: Option<WeightId>,
    /// The matrices, a [`State::Fixed`] of `[heads, size, head]`.
    pub state: StateId,
    /// Heads.
    pub heads: usize,
    /// Groups of heads; divides `heads`.
    pub groups: usize,
    /// Numbers of the input in a head.
    pub head: usize,
    /// Rows of a matrix.
    pub size: usize,
    /// The output, as wide as `x`.
    pub out: Value,
}

impl Operator for SelectiveScan {
    fn name(&self) -> &'static str {
        "selective_scan"
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        vec![self.x, self.step, self.b, self.c]
    }
    fn weights(&self) -> Vec<WeightId> {
        [Some(self.rate), self.skip].into_iter().flatten().collect()
    }
    fn state(&self) -> Option<StateId> {
        Some(self.state)
    }
    fn note(&self) -> String {
        format!("[{} heads, {} groups, {} x {}]", self.heads, self.groups, self.size, self.head)
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        c.divides("groups", self.groups, self.heads)?;
        c.expect("x", c.width(self.x), self.heads * self.head)?;
        c.expect("the step", c.width(self.step), self.heads)?;
        c.expect("b", c.width(self.b), self.groups * self.size)?;
        c.expect("c", c.width(self.c), self.groups * self.size)?;
        let for_rows = c.plan.weight(self.rate).shape.len() > 1;
        let shape = [self.heads, self.size];
        c.shape(self.rate, if for_rows { &shape } else { &shape[..1] })?;
        c.shape(self.skip, &[self.heads])?;
        c.as_wide_as(self.x)?;
        c.fixed(self.state, &[self.heads, self.size, self.head])
    }
}

/// The shape of a [`SelectiveScan`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// Heads.
    pub heads: usize,
    /// Groups of heads that share `b` and `c`.
    pub groups: usize,
    /// Numbers of the input in a head.
    pub head: usize,
    /// Rows of a head's matrix.
    pub size: usize,
    /// Whether each row of the matrix has a rate of its own.
    pub row_rates: bool,
}

impl Graph<'_> {
    /// A selective state space with a state of its own; `rate` and `skip` are complete names (`ssm_a`, `ssm_d`).
    pub fn selective_scan(&mut self, x: Value, step: Value, (b, c): (Value, Value), rate: &str, skip: &str, scan: Scan) -> Value {
        let Scan { heads, groups, head, size, row_rates } = scan;
        let shape = [heads, size];
        let rate = self.weight(rate, if row_rates { &shape } else { &shape[..1] });
        let skip = Some(self.weight(skip, &[heads]));
        let state = self.new_state(State::Fixed { shape: vec![heads, size, head] });
        self.op(heads * head, Some(x), |out| SelectiveScan { x, step, b, c, rate, skip, state, heads, groups, head, size, out })
    }
}
