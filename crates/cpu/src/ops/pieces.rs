//! Recurrent states that are cut into pieces which do not depend on each other: a piece stays in the first-level cache while all tokens
//! of its sequence pass.

use crate::{
    exec::{states::Slots, step::StepView},
    pool::Worker,
};
use std::ops::Range;

/// Runs `work` for this thread's part of the pieces of all sequences, of which each state has `count`, of `numbers` numbers, with the
/// piece's number, its tokens in the batch and its state, which is zero where the sequence begins.
pub(super) fn each_piece(
    view: &StepView<'_>,
    worker: &Worker<'_>,
    state: &Slots,
    (count, numbers): (usize, usize),
    mut work: impl FnMut(usize, Range<usize>, &mut [f32]),
) {
    for item in worker.chunk(count * view.batch.spans.len(), 1) {
        let (span, piece) = (item / count, item % count);
        let first = view.firsts[span] as usize;
        let span = &view.batch.spans[span];
        // SAFETY: each piece of a slot has one thread, and spans have different slots.
        let state = unsafe { state.part_mut(span.slot as usize, piece * numbers..(piece + 1) * numbers) };
        if span.start == 0 {
            state.fill(0.0);
        }
        work(piece, first..first + span.len, state);
    }
}
