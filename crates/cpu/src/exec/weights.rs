//! Weights in the forms that ops want.

use super::node::Node;
use crate::{isa::Isa, matmul::Matrix, ops::experts::Expert, pool::Pool};
use onebit_plan::{ActivationKind, DeviceError, Model, Op, Progress, Weight, WeightId};
use std::{collections::HashMap, sync::Arc};

/// What an op wants a weight to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Want {
    /// f32.
    Vector,
    /// A table of which a few rows are looked up now and then: it may be larger than memory, and stays in its file.
    Rows,
    /// A table whose rows are looked up.
    Table,
    /// A matrix.
    Matrix,
    /// A matrix for each expert.
    Experts,
}

/// What each weight must be; where ops differ (a table that is the output matrix too), the later of [`Want`].
fn wants(model: &Model, nodes: &[Node]) -> Vec<Option<Want>> {
    let mut wants = vec![None; model.weights.len()];
    let mut want = |w: WeightId, what: Want| {
        let old = &mut wants[w.0 as usize];
        *old = (*old).max(Some(what));
    };
    for node in nodes {
        match node {
            Node::Op(Op::Embed(e)) => want(e.weight, Want::Table),
            Node::Op(Op::NgramEmbed(e)) => want(e.weight, Want::Rows),
            Node::Op(Op::Experts(e)) => {
                [e.gate, e.up, e.down].into_iter().for_each(|w| want(w, Want::Experts));
                e.biases.into_iter().flatten().for_each(|w| want(w, Want::Vector));
            }
            Node::Op(Op::BlockLinear(l)) => {
                want(l.weight, if l.transposed { Want::Vector } else { Want::Experts });
                l.bias.into_iter().for_each(|w| want(w, Want::Vector));
            }
            Node::Op(Op::ChosenLinear(l)) => want(l.weight, Want::Experts),
            Node::Op(op) => op.weights().into_iter().for_each(|w| want(w, Want::Vector)),
            Node::Group(g) => {
                for p in g.parts.iter().flat_map(|p| p.products()) {
                    want(p.weight, Want::Matrix);
                    p.bias.into_iter().for_each(|w| want(w, Want::Vector));
                }
            }
        }
    }
    wants
}

/// A weight that has been loaded.
enum Loaded {
    Vector(Arc<[f32]>),
    Matrix(Arc<Matrix>),
    /// Taken out by the one op that uses them.
    Matrices(Vec<Matrix>),
    /// Still in its file.
    File(Weight),
}

/// The weights of a plan.
pub(crate) struct Weights(HashMap<WeightId, Loaded>);

/// Bytes that the weights will take.
pub(crate) fn bytes(model: &Model, nodes: &[Node]) -> usize {
    let size = |(weight, want): (&Weight, Option<Want>)| match want {
        None | Some(Want::Rows) => 0,
        Some(Want::Vector) => weight.values().saturating_mul(4),
        Some(Want::Table) => weight.bytes(),
        Some(Want::Matrix) => packed_bytes(weight, weight.rows()),
        Some(Want::Experts) => {
            let (count, rows) = (weight.shape[0].max(1), weight.rows());
            count.saturating_mul(packed_bytes(weight, rows / count))
        }
    };
    model.weights.iter().zip(wants(model, nodes)).map(size).fold(0, usize::saturating_add)
}

/// About what a packed matrix of `rows` of the weight's rows takes.
fn packed_bytes(weight: &Weight, rows: usize) -> usize {
    rows.next_multiple_of(16).saturating_mul(Matrix::packed_row(weight))
}

impl Weights {
    /// Packs all weights, one after the other, letting the file's pages go behind.
    pub(crate) fn load(
        model: Model,
        nodes: &[Node],
        kind: ActivationKind,
        isa: Isa,
        pool: &Pool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self, DeviceError> {
        let total = model.plan.weight_bytes();
        let wants = wants(&model, nodes);
        let mut done = 0;
        let mut loaded = HashMap::new();
        progress(Progress { done, total });
        for (i, (weight, want)) in model.weights.into_iter().zip(wants).enumerate() {
            let bytes = weight.bytes();
            let pack = |rows| Matrix::pack(&weight, rows, &isa, kind, pool);
            let it = match want {
                None => None,
                Some(Want::Vector) => Some(Loaded::Vector(weight.to_f32().into())),
                Some(Want::Rows | Want::Table) => Some(Loaded::File(weight.clone())),
                Some(Want::Matrix) => Some(Loaded::Matrix(Arc::new(pack(0..weight.rows())?))),
                Some(Want::Experts) => {
                    let rows = weight.shape[1];
                    let mut matrices = vec![];
                    for e in 0..weight.shape[0] {
                        matrices.push(pack(e * rows..(e + 1) * rows)?);
                        progress(Progress { done: done + bytes / weight.shape[0] * e, total });
                    }
                    Some(Loaded::Matrices(matrices))
                }
            };
            if !matches!(want, Some(Want::Rows | Want::Table)) {
                weight.release();
            }
            if let Some(it) = it {
                loaded.insert(WeightId(i as u32), it);
            }
            done += bytes;
            progress(Progress { done, total });
        }
        Ok(Self(loaded))
    }
    fn wrong(id: WeightId) -> DeviceError {
        DeviceError::Unsupported(format!("weight {} is used in two ways that exclude each other", id.0))
    }
    /// A vector.
    pub(crate) fn vector(&self, id: WeightId) -> Result<Arc<[f32]>, DeviceError> {
        match self.0.get(&id) {
            Some(Loaded::Vector(v)) => Ok(v.clone()),
            Some(Loaded::Matrix(m)) => {
                let mut values = vec![0.0; m.rows() * m.columns()];
                (0..m.rows()).zip(values.chunks_exact_mut(m.columns())).for_each(|(r, row)| m.row_f32(r, row));
                Ok(values.into())
            }
            _ => Err(Self::wrong(id)),
        }
    }
    /// A vector, where there is one.
    pub(crate) fn some_vector(&self, id: Option<WeightId>) -> Result<Option<Arc<[f32]>>, DeviceError> {
        id.map(|id| self.vector(id)).transpose()
    }
    /// A matrix.
    pub(crate) fn matrix(&self, id: WeightId) -> Result<Arc<Matrix>, DeviceError> {
        match self.0.get(&id) {
            Some(Loaded::Matrix(m)) => Ok(m.clone()),
            _ => Err(Self::wrong(id)),
        }
    }
    /// A table of rows.
    pub(crate) fn table(&self, id: WeightId) -> Result<crate::ops::embed::Table, DeviceError> {
        use crate::ops::embed::Table;
        match self.0.get(&id) {
            Some(Loaded::Matrix(m)) => Ok(Table::Packed(m.clone())),
            Some(Loaded::File(w)) => Ok(Table::File(w.clone())),
            _ => Err(Self::wrong(id)),
        }
    }
    /// A stack of matrices; once.
    pub(crate) fn matrices(&mut self, id: WeightId) -> Result<Vec<Matrix>, DeviceError> {
        match self.0.remove(&id) {
            Some(Loaded::Matrices(m)) => Ok(m),
            _ => Err(Self::wrong(id)),
        }
    }
    /// The experts of an op; once.
    pub(crate) fn experts(&mut self, gate: WeightId, up: WeightId, down: WeightId) -> Result<Vec<Expert>, DeviceError> {
        let (gate, up, down) = (self.matrices(gate)?, self.matrices(up)?, self.matrices(down)?);
        Ok(gate.into_iter().zip(up).zip(down).map(|((gate, up), down)| Expert { gate, up, down }).collect())
    }
}
