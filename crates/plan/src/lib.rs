//! The plan: what a model computes, said once, for every device.
//!
//! An architecture (crate `onebit-models`) builds a [`Plan`] with a [`Graph`]: a list of [`Op`]s over [`Value`]s, in the
//! order in which they run. A device ([`Device`]) turns a [`Model`], which is a plan and its weights, into an
//! [`Executable`], and the engine feeds that with batches of tokens.
//!
//! Values are matrices of f32 with one row for each token of the batch; their width is known when the plan is built,
//! the number of rows only when it runs. A value never mixes rows: what crosses tokens of a sequence goes through
//! a [`State`] (keys and values, recurrent matrices, convolution windows), and nothing crosses sequences.

mod device;
mod error;
mod graph;
pub mod ops;
mod plan;
mod pooling;
mod rope;
mod rotation;
mod show;
mod weight;

pub use device::{
    ActivationKind, Batch, BatchForm, Cached, Device, DeviceError, Executable, InputSums, Inputs, KvType, Limits, Memory, Progress,
    Refused, Span,
};
pub use error::{Error, Result};
pub use graph::{Graph, Resolve, Sight, Together};
pub use ops::{
    Attention, AttentionSpec, Binary, Check, Experts, ExpertsSpec, Function, GatedDelta, Gating, Groups, Mask, Op, Operator, RoundRows,
    Route, Score, Weigh,
};
pub use plan::{Answering, Denoising, Kind, Model, Plan, Rows, State, StateId, Value, ValueInfo, WeightId, WeightInfo};
pub use pooling::{Dense, Form, Gathered, LayerNorm, Norm, Pool, Pooling};
pub use rope::{AXES, Longer, Rope, RopeStyle, Stretch};
pub use rotation::{Rotated, Rotation, Rotations, Signs, rotate};
pub use weight::{Edit, Part, Weight};
