//! Whole models of the fixtures through the emulator, in every way in which an engine feeds a model: the prompt whole, in chunks of 1, 3 and
//! 16, two sequences in a batch, after a rollback and a fork, and greedily. Held against the CPU in the same precision and against
//! the logits that another implementation computed.
//!
//! `GPU_FIXTURES=all` runs all fixtures there are and writes what came of each to docs/gpu.md's table (`tests/docs.rs`).

#![allow(clippy::print_stdout)]

mod evidence;

use evidence::{Outcome, holds};

/// A family of each kind that the kernels serve, small enough to be quick: those whose fixtures lie in the repository.
macro_rules! quick {
    ($($name:ident)*) => { $(#[test] fn $name() -> Outcome { holds(stringify!($name)) })* };
}
quick! { llama internlm internlm2 maincoder baichuan codeshell jais orion minicpm plamo xverse }
