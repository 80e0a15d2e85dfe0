//! Rows of a table for hashes of the last tokens.

use super::{WorkOp, embed::Table};
use crate::{
    exec::{rows::RowsOf, states::Slots, step::StepView},
    pool::Worker,
};
use std::sync::Arc;

pub(crate) struct NgramEmbed {
    pub(crate) op: onebit_plan::ops::NgramEmbed,
    pub(crate) table: Table,
    pub(crate) out: RowsOf,
    /// The tokens before, the last one first, each plus one.
    pub(crate) state: Arc<Slots>,
}

impl NgramEmbed {
    /// The `i`th token before token `t` of a span whose state is `past`.
    fn before(tokens: &[u32], past: &[f32], t: usize, i: usize) -> Option<u32> {
        match t.checked_sub(i) {
            Some(t) => Some(tokens[t]),
            None => (past[i - t - 1] as u32).checked_sub(1),
        }
    }
}

impl WorkOp for NgramEmbed {
    fn run(&self, view: &StepView<'_>, worker: &Worker<'_>) {
        let heads = self.op.heads.len();
        let (width, count) = (self.out.width() / heads, self.op.multipliers.len() - 1);
        let spans = || view.batch.spans.iter().zip(view.firsts).map(|(span, first)| (span, *first as usize));
        // SAFETY: all threads read the slots up to the barrier, behind which one writes them; spans have different slots.
        let state = |slot: u32| unsafe { self.state.part_mut(slot as usize, 0..count) };
        let none = vec![0.0; count];
        for (span, first) in spans() {
            let tokens = &view.batch.tokens[first..first + span.len];
            for t in worker.chunk(span.len, 1) {
                let past = if span.start == 0 { &none[..] } else { &*state(span.slot) };
                let ngram = self.op.tokens(tokens[t], |i| Self::before(tokens, past, t, i));
                // SAFETY: a row has one thread.
                let out = unsafe { self.out.row_mut(first + t) };
                out.chunks_exact_mut(width).enumerate().for_each(|(head, out)| self.table.row(self.op.row(head, &ngram), out));
            }
        }
        worker.barrier();
        if worker.index == 0 {
            for (span, first) in spans().filter(|(span, _)| span.len > 0) {
                let tokens = &view.batch.tokens[first..first + span.len];
                let past = state(span.slot);
                let old = if span.start == 0 { none.clone() } else { past.to_vec() };
                let last = |i: usize| Self::before(tokens, &old, span.len, i + 1);
                past.iter_mut().enumerate().for_each(|(i, p)| *p = last(i).map_or(0.0, |t| (t + 1) as f32));
            }
        }
    }
}
