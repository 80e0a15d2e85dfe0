//! What the values of weights tell of how a model computes, where neither names nor settings do.

use onebit_plan::{Edit, Model, Op, RopeStyle, Weight};

/// Layers whose weights are looked at.
const LAYERS: usize = 12;

/// Why the values contradict the plan, where they do.
pub(crate) fn contradiction(model: &Model) -> Option<String> {
    let (mut plain, mut centred) = (Signs::default(), Signs::default());
    for weight in norms(model) {
        match weight.edit {
            Edit::None => plain.see(&weight.to_f32(), 0.0),
            Edit::Add(a) => centred.see(&weight.to_f32(), a),
            Edit::NegExp | Edit::Exp | Edit::Softplus | Edit::UnitRow => {}
        }
    }
    if plain.negative * 5 > plain.all {
        return Some("the weights of its norms lie around zero, not around one".into());
    }
    if centred.all > 0 && centred.negative == 0 {
        return Some("the weights of its norms lie around one, not around zero".into());
    }
    let (found, stated) = (pairing(model)?, styles(model).next()?);
    (found != stated).then(|| format!("the sizes of query and key rows show that {} turn together", pairs(found)))
}

/// Which dimensions of a head turn together, in words.
pub(crate) fn pairs(style: RopeStyle) -> &'static str {
    match style {
        RopeStyle::Halves => "dimensions that are half a head apart",
        RopeStyle::Pairs => "adjacent dimensions",
    }
}

/// How many numbers there are, and how many are below a bound.
#[derive(Default)]
struct Signs {
    all: usize,
    negative: usize,
}

impl Signs {
    fn see(&mut self, values: &[f32], bound: f32) {
        self.all += values.len();
        self.negative += values.iter().filter(|x| **x < bound).count();
    }
}

/// The weights of norms.
fn norms(model: &Model) -> impl Iterator<Item = &Weight> {
    let id = |op: &Op| match op {
        Op::RmsNorm(norm) => norm.weight,
        Op::LayerNorm(norm) => norm.weight,
        _ => None,
    };
    model.plan.ops.iter().filter_map(id).map(|id| model.weight(id))
}

/// The pairings of all rotations.
fn styles(model: &Model) -> impl Iterator<Item = RopeStyle> {
    model.plan.ops.iter().filter_map(|op| if let Op::ApplyRope(op) = op { Some(op.rope.style) } else { None })
}

/// Which dimensions of a head turn together. Two that do have the same frequency, and training makes their rows of the query and key
/// matrices of like size, while sizes differ from frequency to frequency. `None` where that is not seen clearly: weights that were not
/// trained, norms behind the matrices.
pub(crate) fn pairing(model: &Model) -> Option<RopeStyle> {
    let (mut halves, mut adjacent, mut count) = (0.0, 0.0, 0.0);
    for op in &model.plan.ops {
        let Op::ApplyRope(turn) = op else { continue };
        let made = model.plan.ops.iter().find(|op| op.output() == turn.x);
        let Some(Op::Linear(linear)) = made else { continue };
        let weight = model.weight(linear.weight);
        if turn.rope.dims() != turn.head || turn.head < 16 || turn.head % 4 != 0 || count >= 2.0 * LAYERS as f64 {
            continue;
        }
        let sizes = row_sizes(weight, turn.head);
        let heads = || sizes.chunks_exact(turn.head);
        halves += likeness(heads().flat_map(|h| (0..turn.head / 2).map(|i| (h[i], h[i + turn.head / 2]))));
        adjacent += likeness(heads().flat_map(|h| h.chunks_exact(2).map(|pair| (pair[0], pair[1]))));
        count += 1.0;
    }
    // Neighbours have like frequencies in both orders; halves only where they turn together.
    match (halves / count, adjacent / count) {
        (halves, _) if halves > 0.25 => Some(RopeStyle::Halves),
        (halves, adjacent) if adjacent > 0.25 && halves < 0.1 => Some(RopeStyle::Pairs),
        _ => None,
    }
}

/// The logarithm of each row's size, less the mean of its head.
fn row_sizes(weight: &Weight, head: usize) -> Vec<f64> {
    let values = weight.to_f32();
    weight.release();
    let square = |row: &[f32]| row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>();
    let mut sizes: Vec<f64> = values.chunks_exact(weight.columns().max(1)).map(|row| square(row).max(1e-30).ln()).collect();
    for head in sizes.chunks_exact_mut(head) {
        let mean = head.iter().sum::<f64>() / head.len() as f64;
        head.iter_mut().for_each(|size| *size -= mean);
    }
    sizes
}

/// The correlation of numbers that lie around zero.
fn likeness(pairs: impl Iterator<Item = (f64, f64)>) -> f64 {
    let [xy, xx, yy] = pairs.fold([0.0; 3], |[xy, xx, yy], (x, y)| [xy + x * y, xx + x * x, yy + y * y]);
    if xx * yy > 0.0 { xy / (xx * yy).sqrt() } else { 0.0 }
}
