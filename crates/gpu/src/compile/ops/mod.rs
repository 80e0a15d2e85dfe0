//! What each op becomes: one file for each kind of kernels.

mod arrange;
mod attention;
mod chosen;
mod elementwise;
mod embed;
mod experts;
mod linear;
mod mixture;
mod norm;
mod recurrent;
mod rope;
mod sparse;

use super::{Lowering, Shape, Step, fuse::Node};
use onebit_plan::{Op, Rows};

/// A step, or the reason why there is no kernel.
pub(crate) type Lowered = Result<Box<dyn Step>, String>;

/// The step of a node.
pub(crate) fn lower(node: &Node<'_>, l: &mut Lowering<'_>) -> Lowered {
    match node {
        Node::Products(products) => linear::lower(products, l),
        Node::Attention { op, heads, columns } => attention::lower(op, heads.as_ref(), *columns, l),
        Node::Op(op) => plain(op, l),
    }
}

/// The step of an op by itself.
fn plain(op: &Op, l: &mut Lowering<'_>) -> Lowered {
    match op {
        Op::Embed(op) => embed::lower(op, l),
        Op::Select(op) => embed::select(op, l),
        Op::RmsNorm(op) => norm::rms(op, l),
        Op::LayerNorm(op) => norm::layer(op, l),
        Op::L2Norm(op) => norm::l2(op, l),
        Op::ApplyRope(op) => rope::lower(op, l),
        Op::Elementwise(op) => elementwise::function(op, l),
        Op::Glu(op) => elementwise::glu(op, l),
        Op::Pairwise(op) => elementwise::pairwise(op, l),
        Op::Scale(op) => elementwise::scale(op, l),
        Op::Slice(op) => arrange::slice(op, l),
        Op::Concat(op) => arrange::concat(op, l),
        Op::Transpose(op) => arrange::transpose(op, l),
        Op::Sum(op) => arrange::sum(op, l),
        Op::Clamp(op) => arrange::clamp(op, l),
        Op::Xielu(op) => arrange::xielu(op, l),
        Op::WeightedBinary(op) => arrange::weighted(op, l),
        Op::PositionScale(op) => arrange::position_scale(op, l),
        Op::RoundRows(op) => arrange::round_rows(op, l),
        Op::GatedDelta(op) => recurrent::gated_delta(op, l),
        Op::LinearAttention(op) => recurrent::linear_attention(op, l),
        Op::CausalConv(op) => recurrent::causal_conv(op, l),
        Op::SelectiveScan(op) => recurrent::selective_scan(op, l),
        Op::Route(op) => experts::route(op, l),
        Op::Experts(op) => experts::lower(op, l),
        Op::Given(op) => embed::given(op, l),
        Op::NgramEmbed(op) => embed::ngram(op, l),
        Op::BlockLinear(op) => chosen::block_linear(op, l),
        Op::ChosenLinear(op) => chosen::chosen_linear(op, l),
        Op::RgLru(op) => recurrent::rg_lru(op, l),
        Op::Wkv(op) => recurrent::wkv(op, l),
        Op::Lightning(op) => recurrent::lightning(op, l),
        Op::Sinusoid(op) => rope::sinusoid(op, l),
        Op::Index(op) => sparse::index(op, l),
        Op::SparseAttention(op) => attention::sparse(op, l),
        _ => Err("there is no kernel yet".into()),
    }
}

/// Rows that a batch has.
fn count(shape: &Shape, rows: Rows) -> usize {
    match rows {
        Rows::Tokens => shape.tokens,
        Rows::Outputs => shape.outputs,
    }
}
