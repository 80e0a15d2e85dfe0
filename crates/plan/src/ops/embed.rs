use super::{Check, Operator};
use crate::{Graph, Result, Value, WeightId};
use serde::Serialize;

/// What chooses the row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Lookup {
    /// The token, in a table `[vocabulary, width]`.
    Token,
    /// The token, in a table that may lack the last tokens of the vocabulary, which read its first row (Gemma 3n).
    TokenOrFirst,
    /// The token's position plus `offset`, in a table of at least so many rows as the context has tokens (Gehring et al. 2017,
    /// arXiv:1705.03122). Positions beyond the table read its last row.
    Position {
        /// Added to the position.
        offset: usize,
    },
    /// Always the same row: what models that tell kinds of tokens apart add to those of the first kind (BERT).
    Row(usize),
}

impl Lookup {
    /// The row of a table of `rows`.
    pub fn row(self, token: u32, position: usize, rows: usize) -> usize {
        match self {
            Self::Token => token as usize,
            Self::TokenOrFirst => Some(token as usize).filter(|row| *row < rows).unwrap_or(0),
            Self::Position { offset } => position.saturating_add(offset).min(rows.saturating_sub(1)),
            Self::Row(row) => row,
        }
    }
}

/// `out = scale * weight[row]`: a row of a table.
#[derive(Clone, Debug, Serialize)]
pub struct Embed {
    /// The table.
    pub weight: WeightId,
    /// Which row.
    pub by: Lookup,
    /// A factor (Gemma); 1 for most.
    pub scale: f32,
    /// The output.
    pub out: Value,
}

impl Operator for Embed {
    fn name(&self) -> &'static str {
        match self.by {
            Lookup::Token | Lookup::TokenOrFirst => "embed",
            Lookup::Position { .. } => "embed_position",
            Lookup::Row(_) => "embed_row",
        }
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
        match self.by {
            Lookup::Token => c.shape(self.weight, &[c.plan.vocabulary, c.out()]),
            Lookup::TokenOrFirst => {
                let rows = c.plan.weight(self.weight).shape.first().copied().unwrap_or(0);
                c.shape(self.weight, &[rows.clamp(1, c.plan.vocabulary), c.out()])
            }
            Lookup::Position { offset } => {
                let rows = c.plan.context.saturating_add(offset);
                match c.plan.weight(self.weight).shape[..] {
                    [found, _] if found >= rows => c.shape(self.weight, &[found, c.out()]),
                    _ => c.shape(self.weight, &[rows, c.out()]),
                }
            }
            Lookup::Row(row) => match c.plan.weight(self.weight).shape[..] {
                [found, _] if found > row => c.shape(self.weight, &[found, c.out()]),
                _ => c.fail(format!("the table has no row {row}")),
            },
        }
    }
}

impl Graph<'_> {
    /// The tokens' rows of the table `name`, which is `width` wide; those of images where they stand in for tokens.
    pub fn embed(&mut self, name: &str, width: usize, scale: f32) -> Value {
        let weight = self.weight(&format!("{name}.weight"), &[self.vocabulary(), width]);
        let x = self.op(width, None, |out| Embed { weight, by: Lookup::Token, scale, out });
        if self.sight().is_some() { self.or_given(x) } else { x }
    }

    /// The tokens' rows of the table `name`, which is `width` wide and holds `rows` of the vocabulary; others read the first.
    pub fn embed_first(&mut self, name: &str, rows: usize, width: usize, scale: f32) -> Value {
        let weight = self.weight(&format!("{name}.weight"), &[rows, width]);
        self.op(width, None, |out| Embed { weight, by: Lookup::TokenOrFirst, scale, out })
    }

    /// For all tokens the first row of the table `name`, which has `rows` of `width` numbers.
    pub fn embed_row(&mut self, name: &str, rows: usize, width: usize) -> Value {
        let weight = self.weight(&format!("{name}.weight"), &[rows, width]);
        self.op(width, None, |out| Embed { weight, by: Lookup::Row(0), scale: 1.0, out })
    }

    /// The row of the table `name`, which is `width` wide, for each token's position plus `offset`.
    pub fn embed_position(&mut self, name: &str, width: usize, offset: usize) -> Value {
        let weight = self.weight(&format!("{name}.weight"), &[self.context() + offset, width]);
        self.op(width, None, |out| Embed { weight, by: Lookup::Position { offset }, scale: 1.0, out })
    }
}
