use super::{Check, Operator};
use crate::{Graph, Result, State, StateId, Value, WeightId};
use serde::Serialize;

/// A kind of n-gram in a hashed table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NgramHead {
    /// Tokens of the n-gram, the row's own among them.
    pub tokens: usize,
    /// Rows of the table that are the head's.
    pub size: u64,
    /// The first of them.
    pub first: u64,
}

/// Rows of a table for hashes of the last tokens, one after the other: `out[h] = weight[first_h + hash_h % size_h]`.
///
/// With `t_0` the row's token and `t_i` the one `i` before it, `hash_h` is the exclusive or of `t_i * multipliers[i]` over the tokens of
/// the n-gram. A boundary hides what is before it: from the first `t_i` on, `i > 0`, that is `boundary` or before the sequence's
/// start, all are `boundary`. Reference: transformers' `models/qwen4_exp`, after hash embeddings (Svenstrup et al. 2017,
/// arXiv:1709.03933).
#[derive(Clone, Debug, Serialize)]
pub struct NgramEmbed {
    /// The table, `[rows, numbers of a head]`. It may be far larger than memory; a token reads one row for each head.
    pub weight: WeightId,
    /// The heads.
    pub heads: Vec<NgramHead>,
    /// One for each token of the longest n-gram.
    pub multipliers: Vec<u64>,
    /// The token that ends a text.
    pub boundary: u32,
    /// The tokens before, a [`State::Fixed`] of `[multipliers - 1]`, the last one first, each plus one; 0 where there is none.
    pub state: StateId,
    /// The output.
    pub out: Value,
}

impl NgramEmbed {
    /// The table's row for head `head`, where `tokens` are `t_0, t_1, ...`, boundaries settled.
    pub fn row(&self, head: usize, tokens: &[u32]) -> usize {
        let NgramHead { tokens: n, size, first } = self.heads[head];
        let products = tokens[..n].iter().zip(&self.multipliers).map(|(t, m)| u64::from(*t).wrapping_mul(*m));
        (first + products.fold(0, |hash, product| hash ^ product) % size) as usize
    }

    /// The tokens `t_0, t_1, ...`, where `before` gives the `i`th before the row's own, if there is one.
    pub fn tokens(&self, own: u32, before: impl Fn(usize) -> Option<u32>) -> Vec<u32> {
        let mut tokens = vec![self.boundary; self.multipliers.len()];
        tokens[0] = own;
        for (i, token) in tokens.iter_mut().enumerate().skip(1) {
            match before(i).filter(|t| *t != self.boundary) {
                Some(t) => *token = t,
                None => break,
            }
        }
        tokens
    }
}

impl Operator for NgramEmbed {
    fn name(&self) -> &'static str {
        "ngram_embed"
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
    fn state(&self) -> Option<StateId> {
        Some(self.state)
    }
    fn note(&self) -> String {
        format!("[{} heads of up to {} tokens]", self.heads.len(), self.multipliers.len())
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        c.divides("heads", self.heads.len(), c.out())?;
        let rows = c.plan.weight(self.weight).shape.first().copied().unwrap_or(0);
        c.shape(self.weight, &[rows, c.out() / self.heads.len()])?;
        if self.multipliers.len() < 2 {
            return c.fail("an n-gram should have two tokens at least");
        }
        // Tokens are kept as f32.
        if c.plan.vocabulary >= 1 << 24 {
            return c.fail(format!("{} tokens are too many", c.plan.vocabulary));
        }
        for head in &self.heads {
            if head.tokens == 0 || head.tokens > self.multipliers.len() {
                return c.fail(format!("a head has {} tokens, of {}", head.tokens, self.multipliers.len()));
            }
            if head.size == 0 || head.first.saturating_add(head.size) > rows as u64 {
                return c.fail(format!("a head has rows {} + {}, of {rows}", head.first, head.size));
            }
        }
        c.fixed(self.state, &[self.multipliers.len() - 1])
    }
}

impl Graph<'_> {
    /// Rows of the table `name`, which has `shape`, for hashes of the last tokens, with a state of its own.
    pub fn ngram_embed(&mut self, name: &str, shape: [usize; 2], heads: Vec<NgramHead>, multipliers: Vec<u64>, boundary: u32) -> Value {
        let weight = self.weight(&format!("{name}.weight"), &shape);
        let state = self.new_state(State::Fixed { shape: vec![multipliers.len().saturating_sub(1)] });
        self.op(heads.len() * shape[1], None, |out| NgramEmbed { weight, heads, multipliers, boundary, state, out })
    }
}
