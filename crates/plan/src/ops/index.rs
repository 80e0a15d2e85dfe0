use super::{Check, Operator};
use crate::{Graph, Kind, Result, State, StateId, Value};
use serde::Serialize;

/// Chooses which tokens of the sequence a token attends to: the lightning indexer of DeepSeek-V3.2 (DeepSeek-AI 2025,
/// arXiv:2512.02556), over blocks of tokens as in Qwen4's QSA (transformers' `models/qwen4_exp`).
///
/// Appends `k` to the state. The sequence is cut into blocks of `block` tokens. A block that is complete, up to the row's own token, has
/// the score `sum_h weights[h] max(q_h . k_t, 0)`, `t` being its last token. Chosen are the tokens of the `top` blocks with the
/// highest scores, ties to the earlier one, and the tokens after the last complete block; in ascending order, then -1 up to
/// the width.
#[derive(Clone, Debug, Serialize)]
pub struct Index {
    /// Queries, `heads * head`.
    pub q: Value,
    /// The key, `head`.
    pub k: Value,
    /// Factors of the heads, `heads`; none where all are one.
    pub weights: Option<Value>,
    /// The keys: a [`State::Kv`] of one head, in which they are the values.
    pub state: StateId,
    /// Query heads.
    pub heads: usize,
    /// Tokens of a block.
    pub block: usize,
    /// Blocks that are chosen at most.
    pub top: usize,
    /// The choice, a value of [`Kind::Positions`], `top * block + block - 1` wide.
    pub out: Value,
}

impl Index {
    /// Tokens chosen at most.
    pub fn most(block: usize, top: usize) -> usize {
        top.saturating_mul(block).saturating_add(block.saturating_sub(1))
    }

    /// What is chosen at `position` where complete blocks have these scores; -1 is written behind it. `order` is room for as many numbers
    /// as there are scores.
    pub fn choose(&self, scores: &[f32], position: usize, order: &mut Vec<u32>, out: &mut [f32]) {
        order.clear();
        order.extend(0..scores.len() as u32);
        if self.top < scores.len() {
            let better = |a: &u32, b: &u32| scores[*b as usize].total_cmp(&scores[*a as usize]).then(a.cmp(b));
            order.select_nth_unstable_by(self.top, better);
            order.truncate(self.top);
            order.sort_unstable();
        }
        let blocks = order.iter().flat_map(|b| (0..self.block).map(|i| *b as usize * self.block + i));
        let rest = scores.len() * self.block..position + 1;
        let mut chosen = blocks.chain(rest);
        out.iter_mut().for_each(|o| *o = chosen.next().map_or(-1.0, |t| t as f32));
    }
}

impl Operator for Index {
    fn name(&self) -> &'static str {
        "index"
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        [self.q, self.k].into_iter().chain(self.weights).collect()
    }
    fn state(&self) -> Option<StateId> {
        Some(self.state)
    }
    fn makes(&self) -> Kind {
        Kind::Positions
    }
    fn note(&self) -> String {
        format!("[{} heads, {} blocks of {}]", self.heads, self.top, self.block)
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        let head = c.width(self.k);
        c.expect("q", c.width(self.q), self.heads.saturating_mul(head))?;
        if let Some(weights) = self.weights {
            c.expect("the weights", c.width(weights), self.heads)?;
        }
        if self.heads == 0 || self.block == 0 || self.top == 0 {
            return c.fail("heads, blocks and their tokens should be one at least");
        }
        c.expect("the choice", c.out(), Self::most(self.block, self.top))?;
        // Positions are kept as f32.
        if c.plan.context > 1 << 24 {
            return c.fail(format!("a context of {} is too long", c.plan.context));
        }
        match c.plan.state(self.state) {
            State::Kv { heads: 1, key: 0, value, window: None } if *value == head => Ok(()),
            other => c.fail(format!("the state is {other:?}")),
        }
    }
}

impl Graph<'_> {
    /// The tokens that a token attends to: `top` blocks of `block`, and those after the last complete block.
    pub fn index(&mut self, q: Value, k: Value, weights: Option<Value>, block: usize, top: usize) -> Value {
        let head = self.width(k);
        let heads = self.width(q) / head.max(1);
        let state = self.new_state(State::Kv { heads: 1, key: 0, value: head, window: None });
        self.op_of(Kind::Positions, Index::most(block, top), Some(q), |out| Index { q, k, weights, state, heads, block, top, out })
    }
}
