//! Runs a plan the slow and obvious way: the oracle for every other device.
//!
//! [`Reference`] is a [`Device`](onebit_plan::Device) that decodes all weights to f32, computes one row after the other,
//! and sums in f64, so that its own rounding stays far below what devices are allowed. It has no threads, no
//! vector instructions, no fused ops and no packed weights; one function of `ops` is one op of the plan, written as its
//! documentation says it. Speed is no aim, memory is not saved: it is for tests and for looking into a model.
//!
//! [`check`] holds a device against expected values (fixtures computed by another implementation) in all the ways in which
//! an engine feeds a model: whole prompts, chunks, several sequences in a batch, snapshots and the way back.
//! A device's tests call [`check::fixture`] with the device, for each of the [`fixtures`]; a new op is first written here.
//! [`evidence`] writes down what they have shown.

pub mod check;
pub mod evidence;
mod executable;
mod fixtures;
mod ops;

pub use executable::{Interpreter, Reference};
