//! Recurrences in which each number has a state of its own: RG-LRU and RWKV's attention. Threads divide the numbers.

use super::WorkOp;
use crate::{
    exec::{rows::RowsOf, states::Slots, step::StepView},
    pool::Worker,
};
use std::{ops::Range, sync::Arc};

/// Numbers that a thread takes at a time: rows begin on cache lines, and no two threads write to one.
const STEP: usize = 16;

/// What becomes of one number of a token.
pub(crate) trait Recurrence: Send + Sync {
    /// Numbers of state for each number.
    const STATES: usize;
    /// The output for the inputs `x`, number `i` of the row; `past` is its state, `None` at the sequence's start.
    fn next(&self, i: usize, x: [f32; 2], past: Option<[f32; 3]>) -> (f32, [f32; 3]);
}

/// `h = a h + sqrt(1 - a^2) x`, with `a = exp(decay)`.
pub(crate) struct RgLru;

impl Recurrence for RgLru {
    const STATES: usize = 1;
    fn next(&self, _: usize, [x, decay]: [f32; 2], past: Option<[f32; 3]>) -> (f32, [f32; 3]) {
        let h = past.map_or(x, |[h, ..]| decay.exp() * h + (-(2.0 * decay).exp_m1()).max(0.0).sqrt() * x);
        (h, [h, 0.0, 0.0])
    }
}

/// An average of values, with weights that decay.
pub(crate) struct Wkv {
    pub(crate) decay: Arc<[f32]>,
    pub(crate) first: Arc<[f32]>,
}

impl Recurrence for Wkv {
    const STATES: usize = 3;
    fn next(&self, i: usize, [k, v]: [f32; 2], past: Option<[f32; 3]>) -> (f32, [f32; 3]) {
        let [sum, weight, log] = past.unwrap_or([0.0, 0.0, f32::NEG_INFINITY]);
        // Weights are kept relative to the largest, as their exponentials may overflow.
        let with = |past: f32, own: f32| {
            let largest = past.max(own);
            let (p, o) = ((past - largest).exp(), (own - largest).exp());
            [p * sum + o * v, p * weight + o, largest]
        };
        let [numerator, denominator, _] = with(log, self.first[i] + k);
        (numerator / denominator, with(log + self.decay[i], k))
    }
}

pub(crate) struct Scan<R> {
    pub(crate) inputs: [RowsOf; 2],
    pub(crate) out: RowsOf,
    /// `[R::STATES][width]`.
    pub(crate) state: Arc<Slots>,
    pub(crate) recurrence: R,
}

impl<R: Recurrence> Scan<R> {
    /// A part of the state.
    ///
    /// # Safety
    /// No other reference to it lives while this one does.
    #[allow(clippy::mut_from_ref)] // threads have parts of their own
    unsafe fn state(&self, slot: usize, n: usize, part: &Range<usize>) -> &mut [f32] {
        let start = n * self.out.width();
        // SAFETY: passed on.
        unsafe { self.state.part_mut(slot, start + part.start..start + part.end) }
    }
}

impl<R: Recurrence> WorkOp for Scan<R> {
    fn run(&self, view: &StepView<'_>, worker: &Worker<'_>) {
        let mine = worker.chunk(self.out.width(), STEP);
        for (span, first) in view.batch.spans.iter().zip(view.firsts) {
            for t in 0..span.len {
                let row = *first as usize + t;
                // SAFETY: inputs were written before the barrier in front of this op; of output and slot, these numbers are this
                // thread's, and spans have different slots.
                let ([a, b], out) =
                    unsafe { (self.inputs.each_ref().map(|x| &x.row(row)[mine.clone()]), self.out.part_mut(row, mine.clone())) };
                let mut states: [&mut [f32]; 3] = std::array::from_fn(|n| match n < R::STATES {
                    // SAFETY: as above; each `n` is a part of its own.
                    true => unsafe { self.state(span.slot as usize, n, &mine) },
                    false => &mut [][..],
                });
                for (i, out) in out.iter_mut().enumerate() {
                    let past = states.each_ref().map(|s| s.get(i).copied().unwrap_or(0.0));
                    let past = (span.start + t > 0).then_some(past);
                    let (y, new) = self.recurrence.next(mine.start + i, [a[i], b[i]], past);
                    *out = y;
                    states.iter_mut().zip(new).for_each(|(s, new)| s.get_mut(i).into_iter().for_each(|s| *s = new));
                }
            }
        }
    }
}
