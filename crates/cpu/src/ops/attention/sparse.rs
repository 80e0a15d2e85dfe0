//! Attention over chosen positions, and their choice.
//!
//! A token looks at no more keys than its indexer lets it, so that what costs most is to gather them. Each (token, key/value head) is
//! one thread's; each sum has the order of the positions.

use super::{Cache, Cell, cell::scale_bytes};
use crate::{
    exec::{
        rows::RowsOf,
        shared::Shared,
        step::{Place, StepView},
    },
    isa::Isa,
    ops::{
        WorkOp,
        effort::Effort,
        math,
        simd::{Kernel, LANES, Simd, dispatch},
    },
    pool::{Counter, Worker},
};
use onebit_plan::{DeviceError, ops};
use std::sync::Arc;

/// Chooses positions.
pub(crate) struct Index<C> {
    pub(crate) op: ops::Index,
    /// The indexer's keys, as values of one head.
    pub(crate) cache: Arc<Cache<C>>,
    pub(crate) q: RowsOf,
    pub(crate) weights: Option<RowsOf>,
    pub(crate) out: RowsOf,
    pub(crate) counter: Counter,
    pub(crate) isa: Isa,
}

impl<C: Cell> WorkOp for Index<C> {
    fn prepare(&self) {
        self.counter.reset();
    }
    fn run(&self, view: &StepView<'_>, _: &Worker<'_>) {
        let (mut scores, mut order) = (vec![], vec![]);
        while let Some(taken) = self.counter.take(view.batch.tokens.len(), 1) {
            // The last tokens of a prompt have the most keys to look at.
            let token = view.batch.tokens.len() - 1 - taken.start;
            let place = view.places[token];
            let pages = view.batch.spans[place.span as usize].pages;
            let position = place.position as usize;
            // SAFETY: written before the barrier in front of this op; a row of the output has one thread.
            let (q, weights, out) = unsafe { (self.q.row(token), self.weights.as_ref().map(|w| w.row(token)), self.out.row_mut(token)) };
            scores.clear();
            scores.resize((position + 1) / self.op.block, 0.0);
            // Where everything is chosen, nothing needs to be compared.
            if scores.len() > self.op.top {
                dispatch(self.isa, Score { index: self, pages, q, weights, scores: &mut scores });
            }
            self.op.choose(&scores, position, &mut order, out);
        }
    }
    fn effort(&self, view: &StepView<'_>) -> Effort {
        let width = self.cache.shape.value;
        let of_token = |place: &Place| {
            let blocks = (place.position as usize + 1) / self.op.block;
            let read = if blocks > self.op.top { blocks } else { 0 };
            let bytes = read * (width * size_of::<C>() + scale_bytes::<C>());
            Effort { bytes: bytes as u64, products: (read * width * self.op.heads) as u64 }
        };
        view.places.iter().map(of_token).sum()
    }
}

/// Scores of the complete blocks.
struct Score<'a, C> {
    index: &'a Index<C>,
    pages: &'a [u32],
    q: &'a [f32],
    weights: Option<&'a [f32]>,
    scores: &'a mut [f32],
}

impl<C: Cell> Kernel for Score<'_, C> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self { index, pages, q, weights, scores } = self;
        let shape = index.cache.shape;
        for (block, score) in scores.iter_mut().enumerate() {
            let position = block * index.op.block + index.op.block - 1;
            // SAFETY: appended before the barrier in front of this op.
            let (key, scale) = unsafe { index.cache.value(pages, 0, position) };
            let key = key.as_chunks::<LANES>().0;
            let mut total = 0.0;
            for (h, q) in q.chunks_exact(shape.value).enumerate() {
                let mut sum = s.splat(0.0);
                for (q, key) in q.chunks(LANES).zip(key) {
                    sum = s.mul_add(s.load_some(q, 0.0), C::load(s, key), sum);
                }
                total += weights.map_or(1.0, |w| w[h]) * (s.sum(sum) * scale).max(0.0);
            }
            *score = total;
        }
    }
}

/// Lets queries look at chosen keys.
pub(crate) struct AttendChosen<C> {
    pub(crate) op: ops::SparseAttention,
    pub(crate) cache: Arc<Cache<C>>,
    pub(crate) q: RowsOf,
    pub(crate) only: RowsOf,
    pub(crate) out: RowsOf,
    pub(crate) room: Room,
    pub(crate) counter: Counter,
    pub(crate) isa: Isa,
}

/// Memory of each thread: sixteen keys, and the scores of all queries of a key/value head.
pub(crate) struct Room {
    memory: Shared<f32>,
    each: usize,
}

impl Room {
    pub(crate) fn new(threads: usize, op: &ops::SparseAttention, positions: usize) -> Result<Self, DeviceError> {
        let each = Self::each(op, positions);
        Ok(Self { memory: Shared::new(threads.saturating_mul(each))?, each })
    }
    fn each(op: &ops::SparseAttention, positions: usize) -> usize {
        let scores = (op.heads / op.kv_heads).saturating_mul(positions.next_multiple_of(LANES));
        scores.saturating_add((op.key + op.value.div_ceil(LANES)).saturating_mul(LANES))
    }
    /// Bytes for these sizes.
    pub(crate) fn bytes(threads: usize, op: &ops::SparseAttention, positions: usize) -> usize {
        4 * threads.saturating_mul(Self::each(op, positions))
    }
}

impl<C: Cell> WorkOp for AttendChosen<C> {
    fn prepare(&self) {
        self.counter.reset();
    }
    fn run(&self, view: &StepView<'_>, worker: &Worker<'_>) {
        let op = &self.op;
        let group = op.heads / op.kv_heads;
        while let Some(taken) = self.counter.take(view.batch.tokens.len() * op.kv_heads, 1) {
            let (token, head) = (taken.start / op.kv_heads, taken.start % op.kv_heads);
            let pages = view.batch.spans[view.places[token].span as usize].pages;
            // SAFETY: read what was written before the barrier in front of this op; each thread has its own room, and each
            // (token, key/value head) its own part of the output.
            unsafe {
                let q = &self.q.row(token)[head * group * op.key..(head + 1) * group * op.key];
                let only = self.only.row(token);
                let out = self.out.part_mut(token, head * group * op.value..(head + 1) * group * op.value);
                let room = self.room.memory.part_mut(worker.index * self.room.each..(worker.index + 1) * self.room.each);
                dispatch(self.isa, Gather { attend: self, pages, head, q, only, room, out });
            }
        }
    }
    fn effort(&self, view: &StepView<'_>) -> Effort {
        let of_token = |t: usize| {
            // SAFETY: written before the barrier in front of this op.
            let seen = ops::SparseAttention::positions(unsafe { self.only.row(t) }).count();
            let width = self.op.key + self.op.value;
            let bytes = seen * self.op.kv_heads * (width * size_of::<C>() + 2 * scale_bytes::<C>());
            Effort { bytes: bytes as u64, products: (seen * width * self.op.heads) as u64 }
        };
        (0..view.batch.tokens.len()).map(of_token).sum()
    }
}

/// The queries of one key/value head of one token.
struct Gather<'a, C> {
    attend: &'a AttendChosen<C>,
    pages: &'a [u32],
    head: usize,
    q: &'a [f32],
    only: &'a [f32],
    room: &'a mut [f32],
    out: &'a mut [f32],
}

impl<C: Cell> Kernel for Gather<'_, C> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self { attend, pages, head, q, only, room, out } = self;
        let (op, cache) = (&attend.op, &attend.cache);
        let positions = || ops::SparseAttention::positions(only);
        let stride = only.len().next_multiple_of(LANES);
        let (keys, room) = room.split_at_mut(op.key * LANES);
        let (scores, sums) = room.split_at_mut(op.heads / op.kv_heads * stride);
        let mut rest = positions();
        let mut count = 0;
        loop {
            let mut lanes = 0;
            for position in rest.by_ref().take(LANES) {
                // SAFETY: appended before the barrier in front of this op.
                unsafe { cache.key(pages, head, position, |j, k| keys[j * LANES + lanes] = k) };
                lanes += 1;
            }
            if lanes == 0 {
                break;
            }
            for (q, scores) in q.chunks_exact(op.key).zip(scores.chunks_exact_mut(stride)) {
                let mut sum = s.splat(0.0);
                for (q, key) in q.iter().zip(keys.as_chunks::<LANES>().0) {
                    sum = s.mul_add(s.splat(*q), s.load(key), sum);
                }
                let mut of = s.to_array(s.mul(sum, s.splat(op.scale)));
                of[lanes..].fill(f32::NEG_INFINITY);
                scores[count..count + LANES].copy_from_slice(&of);
            }
            count += LANES;
        }
        for (scores, out) in scores.chunks_exact_mut(stride).zip(out.chunks_exact_mut(op.value)) {
            let scores = scores[..count].as_chunks_mut::<LANES>().0;
            let largest = scores.iter().fold(s.splat(f32::NEG_INFINITY), |largest, x| s.max(s.load(x), largest));
            let shift = s.splat(s.largest(largest));
            let mut total = s.splat(0.0);
            for x in scores.iter_mut() {
                let e = math::exp(s, s.sub(s.load(x), shift));
                total = s.add(total, e);
                s.store(e, x);
            }
            let factor = s.splat(1.0 / s.sum(total));
            let sums = sums.as_chunks_mut::<LANES>().0;
            sums.iter_mut().for_each(|sum| *sum = [0.0; LANES]);
            for (position, e) in positions().zip(scores.as_flattened()) {
                // SAFETY: as for the keys.
                let (value, scale) = unsafe { cache.value(pages, head, position) };
                let e = s.splat(*e * scale);
                for (sum, value) in sums.iter_mut().zip(value.as_chunks::<LANES>().0) {
                    s.store(s.mul_add(e, C::load(s, value), s.load(sum)), sum);
                }
            }
            for (sum, out) in sums.iter().zip(out.chunks_mut(LANES)) {
                s.store_some(s.mul(s.load(sum), factor), out);
            }
        }
    }
}
