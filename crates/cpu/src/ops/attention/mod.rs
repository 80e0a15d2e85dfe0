//! Attention over a paged cache.
//!
//! [`Append`] stores a token's keys and values; [`Attend`], behind a barrier, lets the queries look at them. Its work is cut
//! into tiles of up to sixteen queries that share a key/value head (so that heads of a group read the cache once), which
//! threads take from a counter. Where there are too few tiles for the threads, as when one long sequence is decoded, each
//! tile is cut further by ranges of keys, whose results are merged in order. Both ways do the same arithmetic.

mod cache;
mod cell;
mod ranges;
mod sparse;
mod tile;

pub(crate) use cache::{Cache, Shape};
pub(crate) use cell::{Brain, Cell};
pub(crate) use sparse::{AttendChosen, Index, Room};

use super::{
    Row, RowOp, WorkOp,
    effort::Effort,
    simd::{Kernel, LANES, Simd, dispatch},
};
use crate::{
    exec::{rows::RowsOf, shared::Shared, step::StepView},
    isa::Isa,
    pool::{Counter, Worker},
};
use cell::scale_bytes;
use onebit_plan::{DeviceError, Mask, Span, ops::Relative};
use std::sync::Arc;
use tile::{Apart, OverAll, OverRange, Partial, QUERIES, ROOM, Scores, Tile, groups_seen};

/// Stores keys and values; inputs are k and v.
pub(crate) struct Append<C> {
    pub(crate) cache: Arc<Cache<C>>,
    pub(crate) isa: Isa,
}

impl<C: Cell> RowOp for Append<C> {
    fn run(&self, view: &StepView<'_>, row: Row, inputs: &[&[f32]], _: &mut [f32]) {
        let page = self.cache.shape.page;
        let pages = view.batch.spans[row.span].pages;
        // SAFETY: a row has one thread, no two tokens of a batch share a position of a page, and readers come behind a barrier.
        unsafe { self.cache.append(self.isa, pages[row.position / page], row.position % page, inputs[0], inputs[1]) };
    }
}

/// The settings of an attention op that the arithmetic needs.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) heads: usize,
    pub(crate) scale: f32,
    pub(crate) mask: Mask,
    /// Whether groups are seen.
    pub(crate) groups: bool,
    pub(crate) softcap: Option<f32>,
    pub(crate) sinks: Option<Arc<[f32]>>,
    /// By query head.
    pub(crate) alibi: Option<Vec<f32>>,
    pub(crate) relative: Option<Bias>,
}

/// What is added to scores by distance, and the operands that it is made of.
#[derive(Clone)]
pub(crate) struct Bias {
    pub(crate) relative: Relative,
    pub(crate) of_query: Option<RowsOf>,
    pub(crate) of_key: Option<RowsOf>,
}

/// Memory that attention layers share, as they run one after the other.
pub(crate) struct Scratch {
    /// For each thread: queries, scores, and two partials.
    threads: Shared<f32>,
    per_thread: usize,
    /// For each (token, head, range): largest, sum, and values. For the first tokens of a batch only.
    partials: Shared<f32>,
    tokens: usize,
    ranges: usize,
    width: usize,
    heads: usize,
}

impl Scratch {
    /// Memory for layers of up to these sizes: query heads, numbers of a key, numbers of a value, groups of keys.
    pub(crate) fn new(threads: usize, sizes: Sizes) -> Result<Self, DeviceError> {
        let Sizes { heads, .. } = sizes;
        let (per_thread, tokens, ranges, width) = sizes.lengths(threads);
        let partials = Shared::new(tokens * heads * ranges * (width + LANES))?;
        Ok(Self { threads: Shared::new(threads * per_thread)?, per_thread, partials, tokens, ranges, width, heads })
    }
    /// Where a partial's values lie; the largest score and the sum follow them.
    fn partial(&self, token: usize, head: usize, range: usize) -> std::ops::Range<usize> {
        let at = ((token * self.heads + head) * self.ranges + range) * (self.width + LANES);
        at..at + self.width + LANES
    }
}

/// The largest sizes among attention layers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sizes {
    /// Query heads.
    pub(crate) heads: usize,
    /// Numbers in a key.
    pub(crate) key: usize,
    /// Numbers in a value, padded.
    pub(crate) value: usize,
    /// Groups of keys of the longest sequence.
    pub(crate) groups: usize,
}

impl Sizes {
    /// Numbers for a thread, tokens and ranges of the partials, and their width.
    fn lengths(self, threads: usize) -> (usize, usize, usize, usize) {
        let per_thread = QUERIES * (self.key + 2 * self.value + 4) + ROOM;
        // A batch of so many tokens has work for all threads without cutting keys into ranges.
        let tokens = if threads == 1 { 0 } else { (4 * threads).div_ceil(self.heads.max(1)).max(8) };
        (per_thread.next_multiple_of(LANES), tokens, ranges::ranges(&(0..self.groups)).len(), self.value)
    }
    /// Bytes of a [`Scratch`].
    pub(crate) fn bytes(self, threads: usize) -> usize {
        let (per_thread, tokens, ranges, width) = self.lengths(threads);
        4 * (threads * per_thread + tokens * self.heads * ranges * (width + LANES))
    }
}

/// Lets queries look at the cache.
pub(crate) struct Attend<C> {
    pub(crate) cache: Arc<Cache<C>>,
    pub(crate) settings: Settings,
    pub(crate) q: RowsOf,
    pub(crate) out: RowsOf,
    pub(crate) scratch: Arc<Scratch>,
    pub(crate) counter: Counter,
    pub(crate) isa: Isa,
}

/// Tokens of one span, and query heads of one key/value head, that make a tile.
#[derive(Clone, Copy, Debug)]
struct Piece {
    span: usize,
    /// First token in the batch.
    token: usize,
    tokens: usize,
    /// First query head.
    head: usize,
    heads: usize,
}

/// Finds pieces by number, from the last to the first: the last tokens of a prompt have the most keys to look at, and are taken first.
struct Pieces<'a> {
    view: &'a StepView<'a>,
    /// Query heads for each key/value head.
    group: usize,
    /// Parts that a group is cut into.
    parts: usize,
    kv_heads: usize,
    tokens: usize,
    /// The span looked at last, and the number of pieces in it and all before.
    span: usize,
    end: usize,
}

impl<'a> Pieces<'a> {
    fn new(view: &'a StepView<'a>, heads: usize, kv_heads: usize) -> Self {
        let group = heads / kv_heads;
        let parts = group.div_ceil(QUERIES);
        let tokens = (QUERIES / group).max(1);
        let mut pieces = Self { view, group, parts, kv_heads, tokens, span: view.batch.spans.len() - 1, end: 0 };
        pieces.end = (0..view.batch.spans.len()).map(|s| pieces.of_span(s)).sum();
        pieces
    }
    fn of_span(&self, span: usize) -> usize {
        self.view.batch.spans[span].len.div_ceil(self.tokens) * self.kv_heads * self.parts
    }
    /// All pieces, before any was asked for.
    fn count(&self) -> usize {
        self.end
    }
    /// A piece; numbers must not grow from call to call.
    fn at(&mut self, number: usize) -> Piece {
        while number < self.end - self.of_span(self.span) {
            self.end -= self.of_span(self.span);
            self.span -= 1;
        }
        let of_span = number - (self.end - self.of_span(self.span));
        let (tile, part) = (of_span / (self.kv_heads * self.parts), of_span % (self.kv_heads * self.parts));
        let (kv_head, part) = (part / self.parts, part % self.parts);
        let first = tile * self.tokens;
        let heads = self.group.div_ceil(self.parts);
        Piece {
            span: self.span,
            token: self.view.firsts[self.span] as usize + first,
            tokens: self.tokens.min(self.view.batch.spans[self.span].len - first),
            head: kv_head * self.group + part * heads,
            heads: heads.min(self.group - part * heads),
        }
    }
}

impl<C: Cell> Attend<C> {
    /// What scores of the queries of span `index` go through.
    fn scores(&self, view: &StepView<'_>, index: usize) -> Scores {
        let (&Settings { scale, softcap, mask, .. }, span) = (&self.settings, &view.batch.spans[index]);
        let end = if mask == Mask::Source { view.batch.inputs.source(index) } else { span.start + span.len };
        Scores { scale, softcap, mask, end }
    }
    fn group(&self) -> usize {
        self.settings.heads / self.cache.shape.heads
    }
    /// The positions of a token's group, where they are seen.
    fn group_of(&self, view: &StepView<'_>, token: usize) -> Option<[u32; 2]> {
        if self.settings.groups { view.batch.inputs.group(token) } else { None }
    }
    /// Gathers a piece's queries and runs `work` on its tile, its positions' count, and the rest of the thread's memory.
    fn with_tile(&self, view: &StepView<'_>, worker: &Worker<'_>, piece: Piece, work: impl FnOnce(Tile<'_, C>, &mut [f32])) {
        let key = self.cache.shape.key;
        let queries = piece.tokens * piece.heads;
        let at = worker.index * self.scratch.per_thread;
        // SAFETY: each thread has its own part.
        let memory = unsafe { self.scratch.threads.part_mut(at..at + self.scratch.per_thread) };
        let (q, rest) = memory.split_at_mut(QUERIES * key);
        let (room, rest) = rest.split_at_mut(ROOM);
        let mut positions = [0; QUERIES];
        let mut groups = [None; QUERIES];
        for t in 0..piece.tokens {
            // SAFETY: q was written before the barrier in front of this op, and nobody writes it now.
            let row = unsafe { self.q.row(piece.token + t) };
            let heads = piece.heads * key;
            q[t * heads..(t + 1) * heads].copy_from_slice(&row[piece.head * key..piece.head * key + heads]);
            positions[t * piece.heads..(t + 1) * piece.heads].fill(view.places[piece.token + t].position as usize);
            groups[t * piece.heads..(t + 1) * piece.heads].fill(self.group_of(view, piece.token + t));
        }
        let slopes = self.settings.alibi.as_ref().map(|slopes| {
            let mut of_queries = [0.0; QUERIES];
            of_queries[..queries].iter_mut().enumerate().for_each(|(i, slope)| *slope = slopes[piece.head + i % piece.heads]);
            of_queries
        });
        let span = &view.batch.spans[piece.span];
        let apart = self.settings.relative.as_ref().map(|bias| Apart {
            bias,
            // Where a query's row is read, and that of the sequence's first token.
            token: piece.token,
            first: view.firsts[piece.span] as usize,
            head: piece.head,
            heads: piece.heads,
        });
        let tile = Tile {
            isa: self.isa,
            cache: &self.cache,
            pages: span.pages,
            head: piece.head / self.group(),
            scores: self.scores(view, piece.span),
            apart,
            q,
            positions: &positions[..queries],
            with: &groups[..queries],
            slopes,
            room,
        };
        work(tile, rest);
    }
    /// Two partials in a thread's memory.
    fn two_partials(memory: &mut [f32], width: usize) -> [Partial<'_>; 2] {
        let (a, rest) = memory.split_at_mut(QUERIES * (width + 2));
        [a, rest].map(|m| {
            let (largest, m) = m.split_at_mut(QUERIES);
            let (sum, m) = m.split_at_mut(QUERIES);
            Partial { largest, sum, out: &mut m[..QUERIES * width] }
        })
    }
    /// Writes a query's part of the output row.
    fn finish(&self, token: usize, head: usize, largest: f32, sum: f32, values: &[f32]) {
        let sink = self.settings.sinks.as_ref().map(|s| s[head]);
        let width = self.cache.shape.value;
        // SAFETY: each (token, head) is finished by one thread, and other threads write other heads.
        let out = unsafe { self.out.part_mut(token, head * width..(head + 1) * width) };
        dispatch(self.isa, Finish { largest, sum, sink, values, out });
    }
    /// One thread's share of the tiles.
    fn whole(&self, view: &StepView<'_>, worker: &Worker<'_>) {
        let mut pieces = Pieces::new(view, self.settings.heads, self.cache.shape.heads);
        let (count, width) = (pieces.count(), self.cache.shape.value_padded());
        while let Some(taken) = self.counter.take(count, 1) {
            let piece = pieces.at(count - 1 - taken.start);
            self.with_tile(view, worker, piece, |tile, rest| {
                let queries = tile.positions.len();
                let [partial, total] = Self::two_partials(rest, width);
                let lent = Partial { largest: &mut *total.largest, sum: &mut *total.sum, out: &mut *total.out };
                dispatch(self.isa, OverAll { tile, partial, total: lent });
                for i in 0..queries {
                    let (token, head) = (piece.token + i / piece.heads, piece.head + i % piece.heads);
                    self.finish(token, head, total.largest[i], total.sum[i], &total.out[i * width..(i + 1) * width]);
                }
            });
        }
    }
    /// The ranges that a token's queries see.
    fn ranges(&self, view: &StepView<'_>, token: usize) -> std::ops::Range<usize> {
        let place = view.places[token];
        let scores = self.scores(view, place.span as usize);
        ranges::ranges(&groups_seen(&scores, self.cache.shape.page, &[place.position as usize], &[self.group_of(view, token)]))
    }
    /// One thread's share of (tile, range), then of the merging.
    fn by_range(&self, view: &StepView<'_>, worker: &Worker<'_>) {
        let width = self.cache.shape.value_padded();
        let pieces = || Pieces::new(view, self.settings.heads, self.cache.shape.heads);
        let count = pieces().count();
        let ranges_of = |p: Piece| {
            let seen = self.ranges(view, p.token);
            // Tokens of a tile follow each other, so that the last sees up to the end, and the first from the beginning.
            seen.start..self.ranges(view, p.token + p.tokens - 1).end
        };
        let mut all = pieces();
        let mut before = 0;
        let mut at = count;
        let mut current = None;
        while let Some(taken) = self.counter.take(usize::MAX / 2, 1) {
            let number = taken.start;
            let (piece, range) = loop {
                if let Some((piece, ranges)) = &current {
                    let ranges: &std::ops::Range<usize> = ranges;
                    if number < before + ranges.len() {
                        break (*piece, ranges.start + number - before);
                    }
                    before += ranges.len();
                }
                if at == 0 {
                    return self.merge_all(view, worker);
                }
                at -= 1;
                let piece = all.at(at);
                current = Some((piece, ranges_of(piece)));
            };
            self.with_tile(view, worker, piece, |tile, rest| {
                let queries = tile.positions.len();
                let [partial, _] = Self::two_partials(rest, width);
                let lent = Partial { largest: &mut *partial.largest, sum: &mut *partial.sum, out: &mut *partial.out };
                dispatch(self.isa, OverRange { tile, range, partial: lent });
                for i in 0..queries {
                    let (token, head) = (piece.token + i / piece.heads, piece.head + i % piece.heads);
                    // SAFETY: each (token, head, range) is computed by one thread.
                    let to = unsafe { self.scratch.partials.part_mut(self.scratch.partial(token, head, range)) };
                    to[..width].copy_from_slice(&partial.out[i * width..(i + 1) * width]);
                    to[width] = partial.largest[i];
                    to[width + 1] = partial.sum[i];
                }
            });
        }
    }
    fn merge_all(&self, view: &StepView<'_>, worker: &Worker<'_>) {
        worker.barrier();
        let width = self.cache.shape.value_padded();
        let heads = self.settings.heads;
        for i in worker.chunk(view.batch.tokens.len() * heads, 1) {
            let (token, head) = (i / heads, i % heads);
            let at = worker.index * self.scratch.per_thread;
            // SAFETY: each thread has its own part.
            let memory = unsafe { self.scratch.threads.part_mut(at..at + self.scratch.per_thread) };
            let [mut total, _] = Self::two_partials(memory, width);
            total.largest[0] = f32::NEG_INFINITY;
            total.sum[0] = 0.0;
            total.out[..width].fill(0.0);
            for range in self.ranges(view, token) {
                // SAFETY: written before the barrier above.
                let partial = unsafe { self.scratch.partials.part(self.scratch.partial(token, head, range)) };
                dispatch(self.isa, MergeOne { total: &mut total, partial: (partial[width], partial[width + 1], &partial[..width]) });
            }
            self.finish(token, head, total.largest[0], total.sum[0], &total.out[..width]);
        }
    }
    /// Whether tiles are cut by ranges: few tiles, and some with more than one range. All threads come to the same answer.
    fn is_cut(&self, view: &StepView<'_>, worker: &Worker<'_>) -> bool {
        let tokens = view.batch.tokens.len();
        if worker.count == 1 || tokens > self.scratch.tokens {
            return false;
        }
        let count = Pieces::new(view, self.settings.heads, self.cache.shape.heads).count();
        count < 4 * worker.count && (0..tokens).any(|t| self.ranges(view, t).len() > 1)
    }
}

impl<C: Cell> WorkOp for Attend<C> {
    fn prepare(&self) {
        self.counter.reset();
    }
    fn run(&self, view: &StepView<'_>, worker: &Worker<'_>) {
        if self.is_cut(view, worker) { self.by_range(view, worker) } else { self.whole(view, worker) }
    }
    fn effort(&self, view: &StepView<'_>) -> Effort {
        let Shape { heads, key, value, .. } = self.cache.shape;
        let of_span = |(index, (span, first)): (usize, (&Span<'_>, &u32))| {
            let scores = self.scores(view, index);
            let seen = |t: usize| scores.seen(span.start + t, self.group_of(view, *first as usize + t));
            let read = (0..span.len).map(seen).reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).map_or(0, |r| r.len());
            let pairs: usize = (0..span.len).map(|t| seen(t).len()).sum();
            let bytes = read * heads * ((key + value) * size_of::<C>() + 2 * scale_bytes::<C>());
            Effort { bytes: bytes as u64, products: (pairs * self.settings.heads * (key + value)) as u64 }
        };
        view.batch.spans.iter().zip(view.firsts).enumerate().map(of_span).sum()
    }
}

struct MergeOne<'a, 'b> {
    total: &'a mut Partial<'b>,
    partial: (f32, f32, &'a [f32]),
}

impl Kernel for MergeOne<'_, '_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        tile::merge(s, (self.total, 0), self.partial);
    }
}

/// `values / (sum + what the sink takes)`.
struct Finish<'a> {
    largest: f32,
    sum: f32,
    sink: Option<f32>,
    values: &'a [f32],
    out: &'a mut [f32],
}

impl Kernel for Finish<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let scale = match self.sink {
            None => 1.0 / self.sum,
            Some(sink) => {
                let largest = self.largest.max(sink);
                let of = |x: f32| s.to_array(super::math::exp(s, s.splat(x - largest)))[0];
                of(self.largest) / (self.sum * of(self.largest) + of(sink))
            }
        };
        for (v, out) in self.values.chunks(LANES).zip(self.out.chunks_mut(LANES)) {
            s.store_some(s.mul(s.load_some(v, 0.0), s.splat(scale)), out);
        }
    }
}
