//! Choosing experts.

use super::{Row, RowOp};
use crate::exec::step::StepView;
use onebit_plan::{Groups, Score};
use std::sync::Arc;

/// Writes (expert, weight) pairs: the expert's number as an f32 (exact below 2^24), highest score first.
pub(crate) struct Route {
    pub(crate) score: Score,
    pub(crate) normalize: bool,
    pub(crate) bias: Option<Arc<[f32]>>,
    pub(crate) groups: Option<Groups>,
    pub(crate) nothing: usize,
    pub(crate) scale: f32,
    pub(crate) factors: Option<Arc<[f32]>>,
}

/// The experts of a stored row, and their weights.
pub(crate) fn chosen(row: &[f32]) -> impl Iterator<Item = (usize, f32)> {
    row.as_chunks::<2>().0.iter().map(|[e, w]| (*e as usize, *w))
}

impl RowOp for Route {
    fn run(&self, _: &StepView<'_>, _: Row, inputs: &[&[f32]], out: &mut [f32]) {
        let logits = inputs[0];
        let out = out.as_chunks_mut::<2>().0;
        if let Score::SparseMixer { jitter } = self.score {
            return sparse_mixer(logits, jitter, self.scale, out);
        }
        // What softmax needs of all logits; the scores themselves are then made one by one.
        let (largest, sum) = match self.score {
            Score::Softmax => {
                let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                (largest, logits.iter().map(|l| (l - largest).exp()).sum())
            }
            Score::Sigmoid | Score::SparseMixer { .. } => (0.0, 1.0),
        };
        let score = |e: usize| match self.score {
            Score::Softmax => (logits[e] - largest).exp() / sum,
            Score::Sigmoid | Score::SparseMixer { .. } => 1.0 / (1.0 + (-logits[e]).exp()),
        };
        let rank = |e: usize| match (&self.bias, self.groups) {
            (Some(bias), _) => score(e) + bias[e],
            (None, Some(_)) => score(e),
            // Both scores grow with the logit, so that the logits give the order.
            (None, None) => logits[e],
        };
        match self.groups {
            None => best(out, (0..logits.len()).map(|e| (e, rank(e)))),
            Some(groups) => {
                let stays = chosen_groups(groups, logits.len(), rank);
                let run = logits.len() / groups.count;
                best(out, (0..logits.len()).filter(|e| stays >> (e / run) & 1 == 1).map(|e| (e, rank(e))));
            }
        }
        out.iter_mut().for_each(|[e, w]| *w = score(*e as usize));
        let sum: f32 = if self.normalize { out.iter().map(|[_, w]| w).sum::<f32>() + onebit_plan::Route::FLOOR } else { 1.0 };
        let experts = logits.len() - self.nothing;
        let factor = |e: usize| self.factors.as_ref().map_or(self.scale, |by| self.scale * by[e]);
        out.iter_mut().for_each(|[e, w]| *w = if (*e as usize) < experts { *w / sum * factor(*e as usize) } else { 0.0 });
    }
}

/// Chooses experts one after the other, each by its softmax among those near it that are left.
fn sparse_mixer(logits: &[f32], jitter: f32, scale: f32, out: &mut [[f32; 2]]) {
    for i in 0..out.len() {
        let (chosen, rest) = out.split_at_mut(i);
        let left = || (0..logits.len()).filter(|e| !chosen.iter().any(|[c, _]| *c == *e as f32));
        let best = left().reduce(|a, b| if logits[b] > logits[a] { b } else { a }).unwrap_or(0);
        let most = logits[best];
        let far = |l: f32| (most - l) / l.abs().max(most) > 2.0 * jitter;
        let sum: f32 = left().map(|e| logits[e]).filter(|l| !far(*l)).map(|l| (l - most).exp()).sum();
        rest[0] = [best as f32, scale / sum];
    }
}
/// The best of `all` (number, rank) pairs, best first, as many as `out` has room for; there are at least so many. Of equals the
/// first come first.
fn best(out: &mut [[f32; 2]], all: impl Iterator<Item = (usize, f32)>) {
    let mut len = 0;
    for (number, rank) in all {
        let mut at = len;
        while at > 0 && rank > out[at - 1][1] {
            at -= 1;
        }
        if at == out.len() {
            continue;
        }
        len = (len + 1).min(out.len());
        out[at..len].rotate_right(1);
        out[at] = [number as f32, rank];
    }
}

/// The groups that stay, a bit for each.
fn chosen_groups(groups: Groups, experts: usize, rank: impl Fn(usize) -> f32) -> u64 {
    let run = experts / groups.count;
    let worth = |group: usize| {
        let mut counted = [[0.0; 2]; Groups::BEST];
        best(&mut counted[..groups.best], (group * run..(group + 1) * run).map(|e| (e, rank(e))));
        counted[..groups.best].iter().map(|[_, rank]| rank).sum::<f32>()
    };
    let mut chosen = [[0.0; 2]; Groups::MOST];
    best(&mut chosen[..groups.chosen], (0..groups.count).map(|g| (g, worth(g))));
    chosen[..groups.chosen].iter().fold(0, |bits, [group, _]| bits | 1 << *group as u64)
}
