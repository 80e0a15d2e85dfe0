//! A few queries of one key/value head passing over its keys: softmax with a running maximum
//! (Milakov & Gimelshein 2018, arXiv:1805.02867; Dao et al. 2022, arXiv:2205.14135).
//!
//! A query's numbers do not depend on the queries beside it: every score is one chain of multiply-adds along the key, every
//! number of the output one chain along the positions, and keys that a query does not see add exact zeros.

use super::{
    Bias,
    cache::Cache,
    cell::Cell,
    ranges::{BLOCK, groups_of, ranges},
};
use crate::{
    isa::Isa,
    ops::{
        math,
        simd::{Kernel, LANES, Simd, dispatch},
    },
};
use onebit_plan::Mask;
use std::ops::Range;

/// Most queries in a tile.
pub(super) const QUERIES: usize = 16;
/// Most keys in a block.
const KEYS: usize = BLOCK * LANES;

/// The numbers of the lanes.
const COUNT: [f32; LANES] = {
    let mut count = [0.0; LANES];
    let mut i = 0;
    while i < LANES {
        count[i] = i as f32;
        i += 1;
    }
    count
};

/// A tile's running softmax: for each query the largest score, the sum of exponentials, and the sum of values times exponentials.
pub(super) struct Partial<'a> {
    /// By query.
    pub(super) largest: &'a mut [f32],
    /// By query.
    pub(super) sum: &'a mut [f32],
    /// `[query][padded value]`.
    pub(super) out: &'a mut [f32],
}

impl Partial<'_> {
    fn clear(&mut self) {
        self.largest.fill(f32::NEG_INFINITY);
        self.sum.fill(0.0);
        self.out.fill(0.0);
    }
}

/// Adds query `from.1` of one partial to query `to.1` of another, whose keys come before.
#[inline(always)]
pub(super) fn merge<S: Simd>(s: S, (to, i): (&mut Partial<'_>, usize), (largest, sum, out): (f32, f32, &[f32])) {
    if largest == f32::NEG_INFINITY {
        return;
    }
    let new = if to.largest[i] > largest { to.largest[i] } else { largest };
    let old_scale = math::exp(s, s.splat(to.largest[i] - new));
    let scale = math::exp(s, s.splat(largest - new));
    to.largest[i] = new;
    to.sum[i] = s.to_array(s.mul_add(scale, s.splat(sum), s.mul(old_scale, s.splat(to.sum[i]))))[0];
    let row = &mut to.out[i * out.len()..(i + 1) * out.len()];
    for (a, b) in row.as_chunks_mut::<LANES>().0.iter_mut().zip(out.as_chunks::<LANES>().0) {
        s.store(s.mul_add(scale, s.load(b), s.mul(old_scale, s.load(a))), a);
    }
}

/// What a score goes through before the softmax.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scores {
    pub(super) scale: f32,
    pub(super) softcap: Option<f32>,
    pub(super) mask: Mask,
    /// Tokens of the sequence, those of the step among them; or of its source.
    pub(super) end: usize,
}

impl Scores {
    /// Positions that a query at `position` sees, with those of its group.
    pub(super) fn seen(&self, position: usize, group: Option<[u32; 2]>) -> Range<usize> {
        self.mask.seen_with(position, self.end, group)
    }
}

/// A tile over one cache.
pub(super) struct Tile<'a, C> {
    pub(super) isa: Isa,
    pub(super) cache: &'a Cache<C>,
    /// The sequence's pages.
    pub(super) pages: &'a [u32],
    /// The key/value head.
    pub(super) head: usize,
    pub(super) scores: Scores,
    /// `[query][key]`.
    pub(super) q: &'a [f32],
    /// By query, ascending or not.
    pub(super) positions: &'a [usize],
    /// By query, the positions of its group.
    pub(super) with: &'a [Option<[u32; 2]>],
    /// By query, what a position further on adds to its scores.
    pub(super) slopes: Option<[f32; QUERIES]>,
    /// What is added by distance.
    pub(super) apart: Option<Apart<'a>>,
    /// Room for `QUERIES * KEYS` numbers.
    pub(super) room: &'a mut [f32],
}

/// What is added to the scores of a tile by how far queries and keys are apart.
pub(super) struct Apart<'a> {
    pub(super) bias: &'a Bias,
    /// The batch's rows of the first query, and of the sequence's first token where all of it is in the batch.
    pub(super) token: usize,
    pub(super) first: usize,
    /// The first query head of the tile, and how many there are: queries come token by token.
    pub(super) head: usize,
    pub(super) heads: usize,
}

impl Apart<'_> {
    /// Adds to the scores of a query at `position` for the keys from `first` on, as far as they are `seen`.
    fn add(&self, query: usize, position: usize, first: usize, seen: &Range<usize>, scores: &mut [f32; LANES]) {
        let Bias { relative, of_query, of_key } = self.bias;
        let (token, head) = (self.token + query / self.heads, self.head + query % self.heads);
        let of_head = head * relative.count..(head + 1) * relative.count;
        // SAFETY: both were written before the barrier in front of this op, and nobody writes them now.
        let of_query = of_query.as_ref().map(|rows| unsafe { &rows.row(token)[of_head.clone()] });
        for (key, score) in (first..).zip(scores).filter(|(key, _)| seen.contains(key)) {
            let bucket = relative.bucket(position, key);
            let mut sum = relative.fixed(head, bucket) + of_query.map_or(0.0, |of| of[bucket]);
            if let Some(rows) = of_key {
                // SAFETY: as above.
                sum += unsafe { rows.row(self.first + key)[of_head.start + bucket] };
            }
            *score += sum;
        }
    }
}

/// Numbers that [`Tile::room`] needs.
pub(super) const ROOM: usize = QUERIES * KEYS;

impl<C: Cell> Tile<'_, C> {
    /// The groups of keys that some query sees.
    pub(super) fn groups(&self) -> Range<usize> {
        groups_seen(&self.scores, self.cache.shape.page, self.positions, self.with)
    }
}

/// The groups of keys, counted over the sequence's pages, that some of the queries see.
pub(super) fn groups_seen(scores: &Scores, page: usize, positions: &[usize], with: &[Option<[u32; 2]>]) -> Range<usize> {
    let group = |position: usize| position / page * page.div_ceil(LANES) + position % page / LANES;
    let seen = || positions.iter().zip(with).map(|(position, group)| scores.seen(*position, *group));
    let first = seen().map(|seen| seen.start).min().unwrap_or(0);
    let last = seen().map(|seen| seen.end - 1).max().unwrap_or(0);
    // From a whole block on: where a block begins must not depend on which other queries are in the tile, as sums within it would.
    group(first) / BLOCK * BLOCK..group(last) + 1
}

/// Passes a tile over one range of keys, from a clear partial.
pub(super) struct OverRange<'a, 'b, C> {
    pub(super) tile: Tile<'a, C>,
    pub(super) range: usize,
    pub(super) partial: Partial<'b>,
}

impl<C: Cell> Kernel for OverRange<'_, '_, C> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let groups = groups_of(self.range, &self.tile.groups());
        over_range(s, &mut self.tile, groups, &mut self.partial);
    }
}

/// Passes a tile over all its keys, range by range; `partial` is the room for one range.
pub(super) struct OverAll<'a, 'b, C> {
    pub(super) tile: Tile<'a, C>,
    pub(super) partial: Partial<'b>,
    pub(super) total: Partial<'b>,
}

impl<C: Cell> Kernel for OverAll<'_, '_, C> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let seen = self.tile.groups();
        let width = self.tile.cache.shape.value_padded();
        self.total.clear();
        for range in ranges(&seen) {
            over_range(s, &mut self.tile, groups_of(range, &seen), &mut self.partial);
            for i in 0..self.tile.positions.len() {
                let p = &self.partial;
                merge(s, (&mut self.total, i), (p.largest[i], p.sum[i], &p.out[i * width..(i + 1) * width]));
            }
        }
    }
}

#[inline(always)]
fn over_range<S: Simd, C: Cell>(s: S, tile: &mut Tile<'_, C>, groups: Range<usize>, partial: &mut Partial<'_>) {
    partial.clear();
    let mut first = groups.start;
    while first < groups.end {
        // Blocks lie on multiples of their size, whatever group the first key seen is in.
        let end = ((first / BLOCK + 1) * BLOCK).min(groups.end);
        over_block(s, tile, first..end, groups.end, partial);
        first = end;
    }
}

#[inline(always)]
fn over_block<S: Simd, C: Cell>(s: S, tile: &mut Tile<'_, C>, groups: Range<usize>, more: usize, partial: &mut Partial<'_>) {
    let shape = tile.cache.shape;
    let (queries, width) = (tile.positions.len(), shape.value_padded());
    assert!(tile.q.len() >= queries * shape.key && tile.room.len() >= queries * KEYS && partial.out.len() >= queries * width);
    // Where each group lies: its page, its place there, its first position, and how many positions it has.
    let place = |group: usize| {
        let (page, of_page) = (group / shape.groups(), group % shape.groups());
        let offset = of_page * LANES;
        (tile.pages[page], of_page, page * shape.page + offset, LANES.min(shape.page - offset))
    };
    let count = groups.len();
    // What is read next comes from memory while what is there is worked on: this block's values, and the keys after them.
    for group in groups.clone() {
        let (page, of_page, _, _) = place(group);
        // SAFETY: as for the keys below; nothing is read.
        s.prefetch(unsafe { tile.cache.values(page, tile.head, of_page) });
    }
    let mut keys = [std::ptr::null::<C>(); BLOCK];
    for (i, group) in groups.clone().enumerate() {
        let (page, of_page, _, _) = place(group);
        // SAFETY: the executor puts a barrier between the last write to a group in this step and this op.
        keys[i] = unsafe { tile.cache.keys(page, tile.head, of_page) }.as_ptr();
    }
    // SAFETY: `q` and `room` hold the queries (asserted above), and each group of keys `key` rows of sixteen.
    unsafe {
        let (a, c) = ((tile.q.as_ptr(), shape.key), tile.room.as_mut_ptr());
        let (b_stride, steps, add) = (LANES, shape.key, false);
        if count == BLOCK {
            Rows { queries, a, b: keys, b_stride, steps, c: (c, KEYS), add }.run(tile.isa);
        } else {
            for (i, keys) in keys[..count].iter().enumerate() {
                Rows { queries, a, b: [*keys], b_stride, steps, c: (c.add(i * LANES), KEYS), add }.run(tile.isa);
            }
        }
    }
    for query in 0..queries {
        let seen = tile.scores.seen(tile.positions[query], tile.with[query]);
        let row = &mut tile.room[query * KEYS..(query + 1) * KEYS];
        let (scores, _) = row.as_chunks_mut::<LANES>();
        let mut largest = s.splat(f32::NEG_INFINITY);
        for (scores, group) in scores.iter_mut().zip(groups.clone()) {
            let (page, of_page, first, positions) = place(group);
            let mut v = s.mul(s.load(scores), s.splat(tile.scores.scale));
            // SAFETY: as for the keys.
            if let Some(scales) = unsafe { tile.cache.key_scales(page, tile.head, of_page) } {
                v = s.mul(v, s.load(scales));
            }
            if let Some(cap) = tile.scores.softcap {
                v = s.mul(s.splat(cap), math::tanh(s, s.div(v, s.splat(cap))));
            }
            if let Some(slopes) = tile.slopes {
                let before = (tile.positions[query] as f32) - first as f32;
                let further = s.sub(s.load(&COUNT), s.splat(before));
                // No position is nearer than zero, on either side.
                let further = s.min(further, s.sub(s.splat(0.0), further));
                v = s.mul_add(s.splat(slopes[query]), further, v);
            }
            if let Some(apart) = &tile.apart {
                let mut lanes = s.to_array(v);
                apart.add(query, tile.positions[query], first, &seen, &mut lanes);
                v = s.load(&lanes);
            }
            if first < seen.start || first + LANES > seen.end || positions < LANES {
                let mut lanes = s.to_array(v);
                for (i, lane) in lanes.iter_mut().enumerate() {
                    if i >= positions || !seen.contains(&(first + i)) {
                        *lane = f32::NEG_INFINITY;
                    }
                }
                v = s.load(&lanes);
            }
            s.store(v, scores);
            largest = s.max(v, largest);
        }
        let largest = s.largest(largest);
        if largest == f32::NEG_INFINITY {
            row.fill(0.0);
            continue;
        }
        let old = partial.largest[query];
        let new = if old > largest { old } else { largest };
        let shift = s.splat(new);
        let mut sums = [s.splat(0.0); BLOCK];
        for ((scores, sum), group) in scores[..count].iter_mut().zip(&mut sums).zip(groups.clone()) {
            *sum = math::exp(s, s.sub(s.load(scores), shift));
            let (page, of_page, _, _) = place(group);
            // SAFETY: as for the keys.
            let scales = unsafe { tile.cache.value_scales(page, tile.head, of_page) };
            s.store(scales.map_or(*sum, |scales| s.mul(*sum, s.load(scales))), scores);
        }
        let sum = s.sum(s.add(s.add(sums[0], sums[1]), s.add(sums[2], sums[3])));
        partial.largest[query] = new;
        if old != new {
            let scale = math::exp(s, s.splat(old - new));
            for out in partial.out[query * width..(query + 1) * width].as_chunks_mut::<LANES>().0 {
                s.store(s.mul(s.load(out), scale), out);
            }
            partial.sum[query] *= s.to_array(scale)[0];
        }
        partial.sum[query] += sum;
    }
    for group in groups.end..(groups.end + BLOCK).min(more) {
        let (page, of_page, _, _) = place(group);
        // SAFETY: as for the keys above; nothing is read.
        s.prefetch(unsafe { tile.cache.keys(page, tile.head, of_page) });
    }
    let last = (0..queries).map(|i| tile.scores.seen(tile.positions[i], tile.with[i]).end).max().unwrap_or(0);
    for (i, group) in groups.enumerate() {
        let (page, of_page, first, positions) = place(group);
        // What lies beyond the last position may be left from another sequence, and is not read.
        let steps = positions.min(last.saturating_sub(first));
        // SAFETY: as for the keys.
        let values = unsafe { tile.cache.values(page, tile.head, of_page) }.as_ptr();
        let mut at = 0;
        // SAFETY: `room` and `out` hold the queries (asserted above); the group has sixteen rows of `width` values.
        unsafe {
            let (a, c) = ((tile.room.as_ptr().add(i * LANES), KEYS), partial.out.as_mut_ptr());
            let (b_stride, add) = (width, true);
            while at + 4 * LANES <= width {
                let b = [0, 1, 2, 3].map(|n| values.add(at + n * LANES));
                Rows { queries, a, b, b_stride, steps, c: (c.add(at), width), add }.run(tile.isa);
                at += 4 * LANES;
            }
            while at < width {
                Rows { queries, a, b: [values.add(at)], b_stride, steps, c: (c.add(at), width), add }.run(tile.isa);
                at += LANES;
            }
        }
    }
}

/// `c[q][16 n + lane] = sum_k a[q][k] b[n][k][lane]` for some queries, added to what is there where `add`.
///
/// A kernel by itself, so that it is compiled once for each kind of cell and instruction set.
#[derive(Clone, Copy)]
struct Rows<C, const N: usize> {
    queries: usize,
    /// Rows of `steps` numbers, and how far they are apart.
    a: (*const f32, usize),
    /// Blocks of `steps` rows of sixteen cells.
    b: [*const C; N],
    /// How far apart these rows are.
    b_stride: usize,
    steps: usize,
    /// Rows of `16 N` numbers, and how far they are apart.
    c: (*mut f32, usize),
    add: bool,
}

impl<C: Cell, const N: usize> Rows<C, N> {
    /// Does the work.
    ///
    /// # Safety
    /// All rows are there, and nobody else uses those of `c`.
    unsafe fn run(self, isa: Isa) {
        dispatch(isa, self);
    }
    /// The work of `Q` queries from `q` on, for `M` blocks at a time.
    ///
    /// # Safety
    /// As for [`Rows::run`], and there are so many queries.
    #[inline(always)]
    unsafe fn queries<S: Simd, const Q: usize, const M: usize>(&self, s: S, q: &mut usize) {
        let (some, rest) = self.b.as_chunks::<M>();
        // SAFETY: passed on, block by block.
        unsafe {
            for (i, b) in some.iter().enumerate() {
                self.product::<S, Q, M>(s, *q, *b, i * M);
            }
            for (i, b) in rest.iter().enumerate() {
                self.product::<S, Q, 1>(s, *q, [*b], some.len() * M + i);
            }
        }
        *q += Q;
    }
    /// The work of `Q` queries from `q` on, for the blocks `b`, which are `first` and those after it.
    ///
    /// # Safety
    /// As for [`Rows::queries`].
    #[inline(always)]
    unsafe fn product<S: Simd, const Q: usize, const M: usize>(&self, s: S, q: usize, b: [*const C; M], first: usize) {
        let (a, c) = (self.a.0.wrapping_add(q * self.a.1), self.c.0.wrapping_add(q * self.c.1 + first * LANES));
        let mut sums = [[s.splat(0.0); M]; Q];
        // SAFETY: all addresses are within what the caller promises.
        unsafe {
            if self.add {
                for (q, sums) in sums.iter_mut().enumerate() {
                    for (n, sum) in sums.iter_mut().enumerate() {
                        *sum = s.load(&*c.add(q * self.c.1 + n * LANES).cast());
                    }
                }
            }
            for k in 0..self.steps {
                let mut row = [s.splat(0.0); M];
                for (row, b) in row.iter_mut().zip(b) {
                    *row = C::load(s, &*b.add(k * self.b_stride).cast());
                }
                for (q, sums) in sums.iter_mut().enumerate() {
                    let x = s.splat(*a.add(q * self.a.1 + k));
                    for (sum, row) in sums.iter_mut().zip(row) {
                        *sum = s.mul_add(x, row, *sum);
                    }
                }
            }
            for (q, sums) in sums.iter().enumerate() {
                for (n, sum) in sums.iter().enumerate() {
                    s.store(*sum, &mut *c.add(q * self.c.1 + n * LANES).cast());
                }
            }
        }
    }
}

impl<C: Cell, const N: usize> Kernel for Rows<C, N> {
    type Out = ();
    /// As many sums at a time as registers hold beside what they are made of. Few queries take rows of several blocks at once, as a
    /// single chain of multiply-adds would wait for itself.
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let mut q = 0;
        // SAFETY: the promise was made to `Rows::run`; the numbers of queries add up.
        unsafe {
            if S::REGISTERS >= 32 {
                while q + 16 <= self.queries {
                    self.queries::<S, 16, 1>(s, &mut q);
                }
                if q + 8 <= self.queries {
                    self.queries::<S, 8, 2>(s, &mut q);
                }
                if q + 4 <= self.queries {
                    self.queries::<S, 4, 4>(s, &mut q);
                }
                match self.queries - q {
                    3 => self.queries::<S, 3, 4>(s, &mut q),
                    2 => self.queries::<S, 2, 4>(s, &mut q),
                    1 => self.queries::<S, 1, 4>(s, &mut q),
                    _ => {}
                }
            } else {
                while q + 6 <= self.queries {
                    self.queries::<S, 6, 1>(s, &mut q);
                }
                match self.queries - q {
                    5 => self.queries::<S, 5, 1>(s, &mut q),
                    4 => self.queries::<S, 4, 1>(s, &mut q),
                    3 => self.queries::<S, 3, 2>(s, &mut q),
                    2 => self.queries::<S, 2, 2>(s, &mut q),
                    1 => self.queries::<S, 1, 4>(s, &mut q),
                    _ => {}
                }
            }
        }
        debug_assert_eq!(q, self.queries);
    }
}
