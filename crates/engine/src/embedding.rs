//! Texts that become vectors: what their hidden states are gathered to, step by step.

use crate::EngineError;
use onebit_plan::{Gathered, Pool, Pooling};
use std::sync::Arc;

/// The vectors of one text, which are being made.
#[derive(Debug)]
pub(crate) struct Embedding {
    pooling: Arc<Pooling>,
    gathered: Gathered,
}

impl Embedding {
    pub(crate) fn new(pooling: Arc<Pooling>) -> Self {
        Self { pooling, gathered: Gathered::default() }
    }

    /// Which states are needed.
    pub(crate) fn pool(&self) -> Pool {
        self.pooling.pool
    }

    /// Takes those of a step whose first token is at `start`, the last of them at `end - 1`: rows of `width` numbers.
    pub(crate) fn add(&mut self, start: usize, end: usize, rows: &[f32], width: usize) -> Result<(), EngineError> {
        if start == 0 {
            // Where it had lost its place, all of it is computed again.
            self.gathered = Gathered::default();
        }
        let first = end - rows.len() / width;
        if let Some(i) = rows.iter().position(|x| !x.is_finite()) {
            return Err(EngineError::States { position: first + i / width, value: rows[i].to_string() });
        }
        self.gathered.add(self.pool(), rows, width);
        Ok(())
    }

    /// The vectors, when all have come.
    pub(crate) fn finish(&self) -> Vec<Vec<f32>> {
        self.pooling.finish(&self.gathered)
    }
}
