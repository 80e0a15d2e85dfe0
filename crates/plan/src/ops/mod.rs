//! The ops: everything that a device must be able to do, one file each.
//!
//! A file holds the op's struct, whose documentation says what one row of the output is, its [`Operator`], which says what the op
//! reads and refuses, and the method of [`Graph`](crate::Graph) by which architectures ask for it. `x[i]` is number `i` of the row;
//! "head" means a run of numbers.

mod attention;
mod block_linear;
mod causal_conv;
mod chosen_linear;
mod clamp;
mod concat;
mod elementwise;
mod embed;
mod experts;
mod gated_delta;
mod given;
mod glu;
mod hadamard;
mod index;
mod l2_norm;
mod layer_norm;
mod lightning;
mod linear;
mod linear_attention;
mod ngram_embed;
mod pairwise;
mod position_scale;
mod relative;
mod remember;
mod rg_lru;
mod rms_norm;
mod rope;
mod round_rows;
mod route;
mod scale;
mod select;
mod selective_scan;
mod sinusoid;
mod slice;
mod sparse_attention;
mod sum;
mod transpose;
mod weighted_binary;
mod wkv;
mod xielu;

pub use attention::{Attention, AttentionSpec, Mask};
pub use block_linear::BlockLinear;
pub use causal_conv::{CausalConv, Taps};
pub use chosen_linear::ChosenLinear;
pub use clamp::Clamp;
pub use concat::Concat;
pub use elementwise::{Elementwise, Function};
pub use embed::{Embed, Lookup};
pub use experts::{Experts, ExpertsSpec, Weigh};
pub use gated_delta::GatedDelta;
pub use given::Given;
pub use glu::{Gating, Glu};
pub use hadamard::Hadamard;
pub use index::Index;
pub use l2_norm::L2Norm;
pub use layer_norm::LayerNorm;
pub use lightning::Lightning;
pub use linear::Linear;
pub use linear_attention::{LinearAttention, LinearOperands};
pub use ngram_embed::{NgramEmbed, NgramHead};
pub use pairwise::{Binary, Pairwise};
pub use position_scale::PositionScale;
pub use relative::Relative;
pub use remember::Remember;
pub use rg_lru::RgLru;
pub use rms_norm::RmsNorm;
pub use rope::ApplyRope;
pub use round_rows::RoundRows;
pub use route::{Groups, Route, Score};
pub use scale::Scale;
pub use select::Select;
pub use selective_scan::{Scan, SelectiveScan};
pub use sinusoid::Sinusoid;
pub use slice::Slice;
pub use sparse_attention::SparseAttention;
pub use sum::Sum;
pub use transpose::Transpose;
pub use weighted_binary::WeightedBinary;
pub use wkv::Wkv;
pub use xielu::Xielu;

use crate::{Error, Kind, Plan, Result, Rows, State, StateId, Value, WeightId};
use serde::Serialize;

/// What each op tells of itself.
pub trait Operator {
    /// The name, as `show --plan` prints it.
    fn name(&self) -> &'static str;
    /// The value that the op makes.
    fn output(&self) -> Value;
    /// The values that the op reads.
    fn inputs(&self) -> Vec<Value>;
    /// The weights that the op reads.
    fn weights(&self) -> Vec<WeightId> {
        vec![]
    }
    /// The state that the op reads and writes.
    fn state(&self) -> Option<StateId> {
        None
    }
    /// What an input must hold.
    fn takes(&self, _input: Value) -> Kind {
        Kind::Numbers
    }
    /// What the output holds.
    fn makes(&self) -> Kind {
        Kind::Numbers
    }
    /// The rows of the inputs, where those of the output are `rows`.
    fn input_rows(&self, rows: Rows) -> Rows {
        rows
    }
    /// What `show --plan` says beside operands and weights.
    fn note(&self) -> String {
        String::new()
    }
    /// Refuses every combination of shapes and settings that a device would stumble over. That the inputs exist and hold what is
    /// [taken](Operator::takes) has been checked.
    fn check(&self, c: &Check<'_>) -> Result<()>;
}

/// Makes [`Op`] of the ops' structs.
macro_rules! ops {
    ($($op:ident)*) => {
        /// One step of a plan.
        #[derive(Clone, Debug, Serialize)]
        #[serde(tag = "op", rename_all = "snake_case")]
        #[allow(missing_docs)] // each says it itself
        pub enum Op {
            $($op($op),)*
        }

        impl Op {
            /// What the op tells of itself.
            pub fn operator(&self) -> &dyn Operator {
                match self {
                    $(Self::$op(op) => op,)*
                }
            }
        }

        $(
            impl From<$op> for Op {
                fn from(op: $op) -> Self {
                    Self::$op(op)
                }
            }
        )*
    };
}

ops! {
    Embed Sinusoid Linear BlockLinear ChosenLinear RmsNorm LayerNorm L2Norm ApplyRope Attention GatedDelta LinearAttention SelectiveScan RgLru Wkv Lightning CausalConv
    Elementwise Pairwise WeightedBinary Scale PositionScale Xielu Clamp Glu Slice Concat Transpose Hadamard RoundRows Route Experts Select
    NgramEmbed Index SparseAttention Sum Given Remember
}

impl Op {
    /// See [`Operator::name`].
    pub fn name(&self) -> &'static str {
        self.operator().name()
    }
    /// See [`Operator::output`].
    pub fn output(&self) -> Value {
        self.operator().output()
    }
    /// See [`Operator::inputs`].
    pub fn inputs(&self) -> Vec<Value> {
        self.operator().inputs()
    }
    /// See [`Operator::weights`].
    pub fn weights(&self) -> Vec<WeightId> {
        self.operator().weights()
    }
    /// See [`Operator::state`].
    pub fn state(&self) -> Option<StateId> {
        self.operator().state()
    }

    /// Whether it attends to the source.
    pub(crate) fn reads_source(&self) -> bool {
        matches!(self, Self::Attention(a) if a.mask == Mask::Source)
    }

    /// Checks the op against the plan's shapes; `known` tells which values exist before it.
    pub(crate) fn check(&self, plan: &Plan, known: &[bool]) -> Result<()> {
        let op = self.operator();
        let c = Check { plan, op };
        for v in op.inputs() {
            if known.get(v.0 as usize) != Some(&true) {
                return c.fail(format!("value {} does not exist yet", v.0));
            }
            if plan.value(v).kind != op.takes(v) {
                return c.fail(format!("value {} holds {:?}, but {:?} is needed", v.0, plan.value(v).kind, op.takes(v)));
            }
        }
        let out = plan.value(op.output());
        if known[op.output().0 as usize] {
            return c.fail("it is made already");
        }
        if out.kind != op.makes() {
            return c.fail(format!("the output holds {:?}, but {:?} is made", out.kind, op.makes()));
        }
        op.check(&c)?;
        let rows = op.input_rows(out.rows);
        if op.inputs().iter().any(|v| plan.value(*v).rows != rows) || op.state().is_some() && out.rows != Rows::Tokens {
            return c.fail("rows of all tokens and rows of outputs are mixed");
        }
        Ok(())
    }
}

/// What an op is checked against, and the ways to check.
pub struct Check<'a> {
    /// The plan.
    pub plan: &'a Plan,
    op: &'a dyn Operator,
}

impl Check<'_> {
    /// The error `what`, with the op's name.
    pub fn fail(&self, what: impl std::fmt::Display) -> Result<()> {
        Err(Error::invalid(format!("op `{}` making value {}: {what}", self.op.name(), self.op.output().0)))
    }
    /// Numbers in a row of `v`.
    pub fn width(&self, v: Value) -> usize {
        self.plan.value(v).width
    }
    /// Numbers in a row of the output.
    pub fn out(&self) -> usize {
        self.width(self.op.output())
    }
    /// `what` must be `wanted` wide.
    pub fn expect(&self, what: &str, found: usize, wanted: usize) -> Result<()> {
        if found == wanted { Ok(()) } else { self.fail(format!("{what} is {found} wide, but should be {wanted}")) }
    }
    /// The output must be as wide as `v`.
    pub fn as_wide_as(&self, v: Value) -> Result<()> {
        self.expect("the output", self.out(), self.width(v))
    }
    /// `a` must divide `b`.
    pub fn divides(&self, what: &str, a: usize, b: usize) -> Result<()> {
        if a > 0 && b.is_multiple_of(a) { Ok(()) } else { self.fail(format!("{what}: {a} does not divide {b}")) }
    }
    /// The weight, where there is one, must have the shape `wanted`.
    pub fn shape(&self, weight: impl Into<Option<WeightId>>, wanted: &[usize]) -> Result<()> {
        let Some(weight) = weight.into() else { return Ok(()) };
        let info = self.plan.weight(weight);
        if info.shape == wanted {
            return Ok(());
        }
        Err(Error::Shape { name: info.name.clone(), found: info.shape.clone(), expected: wanted.to_vec() })
    }
    /// The state must be a [`State::Fixed`] of the shape `wanted`.
    pub fn fixed(&self, state: StateId, wanted: &[usize]) -> Result<()> {
        match self.plan.state(state) {
            State::Fixed { shape } if shape == wanted => Ok(()),
            other => self.fail(format!("the state is {other:?}, but should hold {wanted:?}")),
        }
    }
}
