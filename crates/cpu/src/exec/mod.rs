//! From a plan to steps that run.
//!
//! `node` and `fuse` rewrite the plan's ops into fewer, larger ones; `rows` gives values their places in a few buffers;
//! `weights` and `states` hold what ops read and carry; `compile` makes stages of all that, and `executable` runs them.

pub(crate) mod compile;
pub(crate) mod executable;
pub(crate) mod fuse;
pub(crate) mod memory;
pub(crate) mod node;
pub(crate) mod profile;
pub(crate) mod rows;
pub(crate) mod shared;
pub(crate) mod states;
pub(crate) mod step;
pub(crate) mod weights;
