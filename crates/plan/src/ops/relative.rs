use super::Check;
use crate::{Result, Value};
use serde::Serialize;

/// What is added to the scaled score of head `h`, for a query at `i` and a key at `j`, by how far they are apart: with
/// `b = buckets[clamp(i - j, -reach, reach) + reach]`, `fixed[h][b] + of_query[i][h][b] + of_key[j][h][b]`.
///
/// `fixed` alone is the bias of T5 (Raffel et al. 2019, arXiv:1910.10683) and MPNet; what queries and keys make of positions is the
/// disentangled attention of DeBERTa (He et al. 2020, arXiv:2006.03654).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Relative {
    /// By distance, from `-reach` to `reach`: an odd number of buckets.
    pub buckets: Vec<u32>,
    /// How many buckets there are.
    pub count: usize,
    /// `[heads, count]`.
    pub fixed: Option<Vec<f32>>,
    /// `heads * count` numbers of the query's token.
    pub of_query: Option<Value>,
    /// `heads * count` numbers of the key's token. Rows of other tokens are read, so that all of the sequence must be in the step: it is
    /// for masks that look ahead.
    pub of_key: Option<Value>,
}

impl Relative {
    /// The largest distance that has a bucket of its own.
    pub fn reach(&self) -> usize {
        self.buckets.len() / 2
    }
    /// The bucket of a query at `i` and a key at `j`.
    pub fn bucket(&self, i: usize, j: usize) -> usize {
        let reach = self.reach() as i64;
        let distance = (i as i64 - j as i64).clamp(-reach, reach);
        self.buckets[(distance + reach) as usize] as usize
    }
    /// Fixed part.
    pub fn fixed(&self, head: usize, bucket: usize) -> f32 {
        self.fixed.as_ref().map_or(0.0, |all| all[head * self.count + bucket])
    }
    /// The values that it reads.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = Value> {
        self.of_query.into_iter().chain(self.of_key)
    }
    pub(crate) fn check(&self, c: &Check<'_>, heads: usize, looks_ahead: bool) -> Result<()> {
        if self.buckets.len().is_multiple_of(2) || self.buckets.iter().any(|b| *b as usize >= self.count) {
            return c.fail(format!("{} distances have buckets, which should be odd and below {}", self.buckets.len(), self.count));
        }
        if let Some(fixed) = self.fixed.as_ref().filter(|f| f.len() != heads * self.count) {
            return c.fail(format!("there are {} numbers for {} buckets of {heads} heads", fixed.len(), self.count));
        }
        for v in self.inputs() {
            c.expect("what positions add", c.width(v), heads * self.count)?;
        }
        if self.of_key.is_some() && !looks_ahead {
            return c.fail("rows of other tokens are read, but not all of a sequence is in a step");
        }
        Ok(())
    }
}
