//! Single ops by the reference device: a plan of one op, whose operands are the rows that tokens are given.

use onebit_formats::{Rows, Tensor};
use onebit_plan::{ActivationKind, Batch, Device as _, Edit, Graph, Inputs, KvType, Limits, Resolve, Span, Value, Weight};
use onebit_reference::Reference;
use std::sync::Arc;

/// A tensor of f32 in memory.
#[derive(Debug)]
struct Numbers {
    columns: usize,
    values: Vec<f32>,
}

impl Rows for Numbers {
    fn row(&self, row: usize, out: &mut [u8]) {
        let from = &self.values[row * self.columns..(row + 1) * self.columns];
        out.chunks_exact_mut(4).zip(from).for_each(|(to, v)| to.copy_from_slice(&v.to_le_bytes()));
    }
    fn stored(&self) -> &[Tensor] {
        &[]
    }
    fn scheme(&self) -> &str {
        "in memory"
    }
}

/// Weights by their names in the plan.
pub(crate) struct Weights<'a>(pub(crate) &'a [(&'a str, &'a [f32])]);

impl Resolve for Weights<'_> {
    fn resolve(&self, name: &str, shape: &[usize]) -> onebit_plan::Result<Option<Weight>> {
        let Some((_, values)) = self.0.iter().find(|(n, _)| *n == name) else { return Ok(None) };
        let columns = *shape.last().unwrap();
        let rows = Arc::new(Numbers { columns, values: values.to_vec() });
        let tensor = Tensor::made(name.into(), onebit_quants::F32, shape.to_vec(), rows);
        Ok(Some(Weight::whole(name, &tensor, shape.to_vec(), Edit::None)?))
    }
}

/// What an op makes of `rows`, one for each token of a sequence, all in one step; `out` numbers each.
pub(crate) fn op(rows: &[Vec<f32>], out: usize, weights: &[(&str, &[f32])], build: impl Fn(&mut Graph<'_>) -> Value) -> Vec<f32> {
    tokens(&vec![0; rows.len()], rows, out, weights, build)
}

/// The same with ids.
pub(crate) fn tokens(
    ids: &[u32],
    rows: &[Vec<f32>],
    out: usize,
    weights: &[(&str, &[f32])],
    build: impl Fn(&mut Graph<'_>) -> Value,
) -> Vec<f32> {
    let weights = Weights(weights);
    let mut g = Graph::new("made", out, 1 << 20, &weights);
    let x = build(&mut g);
    let x = g.select(x);
    let model = g.finish(x).unwrap();
    let count = ids.len();
    let limits =
        Limits { batch: count, outputs: count, page: count, pages: 1, slots: 1, kv: KvType::F16, activations: ActivationKind::F32 };
    let given: Vec<u32> = (0..rows.len() as u32).collect();
    let flat = rows.concat();
    let inputs = Inputs { rows: &flat, given: &given, ..Inputs::default() };
    let span = Span { len: count, start: 0, pages: &[0], slot: 0, outputs: count };
    let mut exe = Reference.load(model, &limits, &mut |_| {}).unwrap();
    exe.step(&Batch { tokens: ids, spans: &[span], inputs }).unwrap().to_vec()
}
