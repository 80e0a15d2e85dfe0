//! Depthwise causal convolution.

use super::{
    WorkOp, math,
    simd::{Kernel, LANES, Simd, dispatch},
};
use crate::{
    exec::{rows::RowsOf, states::Slots, step::StepView},
    isa::Isa,
    pool::Worker,
};
use onebit_plan::Function;
use std::sync::Arc;

/// Channels that a thread takes at a time.
const STEP: usize = 4 * LANES;

pub(crate) struct CausalConv {
    pub(crate) x: RowsOf,
    pub(crate) out: RowsOf,
    /// `[kernel][channels]`: the plan's weight, transposed.
    pub(crate) taps: Vec<f32>,
    pub(crate) bias: Option<Arc<[f32]>>,
    /// Inputs within reach of an output.
    pub(crate) kernel: usize,
    pub(crate) f: Option<Function>,
    /// `[kernel - 1][channels]`, oldest first.
    pub(crate) state: Arc<Slots>,
    pub(crate) isa: Isa,
}

/// `[channels, kernel]` to `[kernel, channels]`.
pub(crate) fn transposed(weight: &[f32], kernel: usize) -> Vec<f32> {
    (0..kernel).flat_map(|j| weight.iter().skip(j).step_by(kernel)).copied().collect()
}

impl WorkOp for CausalConv {
    fn run(&self, view: &StepView<'_>, worker: &Worker<'_>) {
        let channels = self.x.width();
        for (span, first) in view.batch.spans.iter().zip(view.firsts) {
            for start in worker.chunk(channels, STEP).step_by(LANES) {
                let end = (start + LANES).min(channels);
                let first = *first as usize;
                dispatch(
                    self.isa,
                    Channels {
                        op: self,
                        slot: span.slot as usize,
                        fresh: span.start == 0,
                        tokens: first..first + span.len,
                        channels: start..end,
                    },
                );
            }
            if let Some(f) = self.f {
                let mine = worker.chunk(channels, STEP);
                for t in *first as usize..*first as usize + span.len {
                    // SAFETY: these channels of the row are this thread's.
                    let row = unsafe { self.out.part_mut(t, mine.clone()) };
                    for run in row.chunks_mut(STEP) {
                        let mut x = [0.0; STEP];
                        x[..run.len()].copy_from_slice(run);
                        math::apply(self.isa, f, &x[..run.len()], run);
                    }
                }
            }
        }
    }
}

/// Up to sixteen channels of one span.
struct Channels<'a> {
    op: &'a CausalConv,
    slot: usize,
    /// The sequence starts here: its past is zero.
    fresh: bool,
    tokens: std::ops::Range<usize>,
    channels: std::ops::Range<usize>,
}

impl Kernel for Channels<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self { op, tokens, channels, .. } = self;
        let all = op.x.width();
        let past = op.kernel - 1;
        // SAFETY: of every slot, a thread touches its own channels only; spans have different slots.
        let state = |j: usize| unsafe { op.state.part_mut(self.slot, j * all + channels.start..j * all + channels.end) };
        if self.fresh {
            (0..past).for_each(|j| state(j).fill(0.0));
        }
        // Input `i` of the past and the span together.
        let input = |i: usize| {
            if i < past {
                s.load_some(state(i), 0.0)
            } else {
                // SAFETY: `x` was written before the barrier in front of this op.
                s.load_some(&unsafe { op.x.row(tokens.start + i - past) }[channels.clone()], 0.0)
            }
        };
        let tap = |j: usize| s.load_some(&op.taps[j * all + channels.start..j * all + channels.end], 0.0);
        let bias = op.bias.as_ref().map_or(s.splat(0.0), |b| s.load_some(&b[channels.clone()], 0.0));
        for t in 0..tokens.len() {
            let mut sum = bias;
            for j in 0..op.kernel {
                sum = s.mul_add(tap(j), input(t + j), sum);
            }
            // SAFETY: these channels of the row are this thread's.
            s.store_some(sum, unsafe { op.out.part_mut(tokens.start + t, channels.clone()) });
        }
        // Ascending, so that a short span reads what it has not yet overwritten.
        for j in 0..past {
            let v = input(tokens.len() + j);
            s.store_some(v, state(j));
        }
    }
}
