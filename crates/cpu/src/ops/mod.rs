//! What the CPU does for each op of a plan.
//!
//! Ops that look at one token at a time are [`RowOp`]s, written without any care for threads: the executor gives each
//! row to one thread, and runs all row ops that follow each other on a row while it is in the cache. What crosses
//! tokens, or is too large for one thread, is a [`WorkOp`], which divides its own work among the threads.
//!
//! Every op computes each number in an order that depends on nothing but the number's place in its own sequence.

pub(crate) mod attention;
pub(crate) mod binary;
pub(crate) mod block_linear;
pub(crate) mod causal_conv;
pub(crate) mod chosen_linear;
pub(crate) mod clamp;
pub(crate) mod concat;
pub(crate) mod effort;
pub(crate) mod elementwise;
pub(crate) mod embed;
pub(crate) mod experts;
pub(crate) mod gated_delta;
pub(crate) mod given;
pub(crate) mod glu;
pub(crate) mod hadamard;
pub(crate) mod lightning;
pub(crate) mod linear;
pub(crate) mod linear_attention;
pub(crate) mod math;
pub(crate) mod ngram_embed;
pub(crate) mod norm;
mod pairs;
mod pieces;
mod position_scale;
pub(crate) mod rope;
pub(crate) mod round_rows;
pub(crate) mod route;
pub(crate) mod scan;
pub(crate) mod select;
pub(crate) mod selective_scan;
pub(crate) mod simd;
pub(crate) mod sinusoid;
pub(crate) mod slice;
pub(crate) mod sum;
pub(crate) mod transpose;
pub(crate) mod watch;
mod xielu;

use crate::{exec::step::StepView, pool::Worker};
use effort::Effort;

/// The row that a [`RowOp`] works on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// Number of the row, among tokens or among outputs.
    pub(crate) index: usize,
    /// The token's number in the batch.
    pub(crate) token: usize,
    /// The token's id.
    pub(crate) id: u32,
    /// The token's position in its sequence.
    pub(crate) position: usize,
    /// The token's span in the batch.
    pub(crate) span: usize,
}

/// An op that makes a row from rows of the same token.
pub(crate) trait RowOp: Send + Sync {
    /// Writes the whole of `out`.
    fn run(&self, view: &StepView<'_>, row: Row, inputs: &[&[f32]], out: &mut [f32]);
}

/// An op that all threads do together. It starts and ends with a barrier, made by the executor.
pub(crate) trait WorkOp: Send + Sync {
    /// Called by one thread, before the step.
    fn prepare(&self) {}
    /// Does this thread's part.
    fn run(&self, view: &StepView<'_>, worker: &Worker<'_>);
    /// What the step asks of it, for the profile. Called by a thread that has done its part, before the next barrier.
    fn effort(&self, view: &StepView<'_>) -> Effort {
        let _ = view;
        Effort::default()
    }
}
