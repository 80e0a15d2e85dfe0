//! Attention over pages of keys and values.

use super::{Lowered, linear};
use crate::compile::{At, Form, Input, Lowering, Recorder, Run, Scratch, Shape, Side, Step, Symbol, Work, fuse};
use onebit_plan::{Attention, Mask, RopeStyle, StateId, Value, ops};

/// Keys that a workgroup takes.
const SPLIT: usize = 512;
/// Queries of a tile.
const QUERIES: usize = 64;
/// Query heads that a workgroup takes.
const HEADS: usize = 8;
/// Parts of a token, beyond one for each token of a batch, that there is room for.
const ROOM: usize = 256;
/// Heads that a workgroup of `prepare` takes.
const PREPARED: usize = 4;
/// Numbers of a head that attention takes at most.
const MOST: usize = 256;
/// Those of keys and values where all query heads share one head of them, and the query heads that a workgroup takes then.
const LATENT: [usize; 2] = [576, 512];
const LATENT_HEADS: usize = 16;

/// What `prepare` does.
const NEIGHBOURS: u32 = 1;
const NORM_QUERIES: u32 = 2;
const NORM_KEYS: u32 = 4;
const ONLY_QUERIES: u32 = 8;
const TURNED: u32 = 16;

/// What is done at the end of attention, and what takes part.
const JOINED: u32 = 1;
const ROUNDED: u32 = 2;
const SINKS: u32 = 4;
const SLOPES: u32 = 8;

/// How queries, keys and values come to attention.
struct Prepared {
    /// Queries, keys, values.
    values: [Value; 3],
    strides: [usize; 3],
    norms: Option<[Symbol; 2]>,
    eps: f32,
    frequencies: Option<Symbol>,
    pairs: usize,
    scale: f32,
    flags: u32,
}

/// Which keys a token sees.
#[derive(Clone, Copy)]
enum Seen {
    /// From a first to an end.
    Between(Input),
    /// Those that a value names, of so many numbers.
    Chosen(Value, usize),
}

struct Attend {
    q: Value,
    /// Where there is anything to do before; keys and values may have been appended by an earlier op.
    prepared: Option<Prepared>,
    /// Whether the result is rounded to columns.
    columns: bool,
    state: StateId,
    heads: usize,
    kv_heads: usize,
    key: usize,
    value: usize,
    page: usize,
    pages: usize,
    scale: f32,
    softcap: f32,
    sinks: Option<Symbol>,
    slopes: Option<Symbol>,
    seen: Seen,
    /// Positions that a token sees at most, where the mask or the choice says so.
    window: Option<usize>,
    /// Parts of tokens that there is room for.
    room: usize,
    out: Value,
}

pub(crate) fn lower(op: &Attention, heads: Option<&fuse::Heads<'_>>, columns: bool, l: &mut Lowering<'_>) -> Lowered {
    if op.relative.is_some() {
        return Err("biases by distance that are learned have no kernel yet".into());
    }
    if op.mask == Mask::Source {
        return Err("attention over a source has no kernel yet".into());
    }
    let extra = op.sinks.is_some() || op.alibi.is_some();
    let heads_of = HeadShapes { heads: op.heads, kv_heads: op.kv_heads, key: op.key, value: op.value };
    let room = room(&heads_of, extra, l)?;
    for input in [Input::Position(0), Input::Place, Input::Pages, Input::Block] {
        l.input(input);
    }
    let seen = Seen::Between(l.input(Input::Seen(op.mask, op.groups)));
    let sinks = op.sinks.map(|w| l.weight(w, Form::Numbers));
    let slopes = op.alibi.as_ref().map(|slopes| l.constant(slopes.iter().copied()));
    let window = if op.groups { None } else { op.mask.window() };
    if columns {
        l.make_columns(op.out, Side::Inner);
        l.without_numbers.push(op.out);
    }
    let prepared = match (heads, op.kv) {
        (Some(h), _) => Some(prepared(h, l)),
        (None, Some([k, v])) => Some(Prepared::plain([op.q, k, v], l)),
        (None, None) => None,
    };
    Ok(Box::new(Attend {
        q: op.q,
        prepared,
        columns,
        state: op.state,
        heads: op.heads,
        kv_heads: op.kv_heads,
        key: op.key,
        value: op.value,
        page: l.limits.page,
        pages: l.limits.pages,
        scale: op.scale,
        softcap: op.softcap.unwrap_or(0.0),
        sinks,
        slopes,
        seen,
        window,
        room,
        out: op.out,
    }))
}

pub(crate) fn sparse(op: &ops::SparseAttention, l: &mut Lowering<'_>) -> Lowered {
    let heads_of = HeadShapes { heads: op.heads, kv_heads: op.kv_heads, key: op.key, value: op.value };
    let room = room(&heads_of, false, l)?;
    for input in [Input::Position(0), Input::Place, Input::Pages] {
        l.input(input);
    }
    let width = l.width(op.only);
    Ok(Box::new(Attend {
        q: op.q,
        prepared: Some(Prepared::plain([op.q, op.k, op.v], l)),
        columns: false,
        state: op.state,
        heads: op.heads,
        kv_heads: op.kv_heads,
        key: op.key,
        value: op.value,
        page: l.limits.page,
        pages: l.limits.pages,
        scale: op.scale,
        softcap: 0.0,
        sinks: None,
        slopes: None,
        seen: Seen::Chosen(op.only, width),
        window: Some(width),
        room,
        out: op.out,
    }))
}

/// How many heads there are, and how large.
struct HeadShapes {
    heads: usize,
    kv_heads: usize,
    key: usize,
    value: usize,
}

impl HeadShapes {
    /// Whether one head of keys and values is so large that kernels of its own take it.
    fn latent(&self) -> bool {
        let Self { kv_heads, key, value, .. } = *self;
        kv_heads == 1
            && key.max(value) > MOST
            && key <= LATENT[0]
            && value <= LATENT[1]
            && key.is_multiple_of(16)
            && value.is_multiple_of(16)
    }
}

/// Asks for what kernels work in, and says how many parts of tokens there is room for. `extra`: sinks or slopes take part.
fn room(h: &HeadShapes, extra: bool, l: &mut Lowering<'_>) -> Result<usize, String> {
    let HeadShapes { heads, kv_heads, key, value } = *h;
    let latent = h.latent() && !extra;
    if !latent && (key > MOST || value > MOST || !key.is_multiple_of(8) || !value.is_multiple_of(2)) {
        return Err(format!("keys of {key} and values of {value} numbers: up to {MOST}, multiples of 8 and 2"));
    }
    let most_parts = (l.limits.page * l.limits.pages).div_ceil(SPLIT).next_power_of_two();
    let room = most_parts.max(l.limits.batch + ROOM);
    l.scratch(Scratch::Partial, 4 * room * heads * (value + 2));
    let counters = if latent { heads.div_ceil(LATENT_HEADS) } else { kv_heads * (heads / kv_heads).div_ceil(HEADS) };
    l.scratch(Scratch::Counters, 4 * l.limits.batch * counters);
    Ok(room)
}

impl Prepared {
    /// Nothing is done but to append keys and values.
    fn plain(values: [Value; 3], l: &Lowering<'_>) -> Self {
        let strides = values.map(|v| l.stride(v));
        Self { values, strides, norms: None, eps: 0.0, frequencies: None, pairs: 0, scale: 1.0, flags: 0 }
    }
}

/// Appends one head of values to a cache without keys.
pub(super) fn append(v: Value, head: usize, state: StateId, [page, pages]: [usize; 2], tokens: usize, out: &mut Recorder) {
    let (x, position) = (At::from(v), At::from(Input::Position(0)));
    let inputs = [position.clone(), position, x.clone(), Input::Place.into(), Input::Pages.into()];
    // There are no queries and no keys.
    let to = [x.clone(), Symbol::Values(state).into(), Symbol::Values(state).into()];
    let pointers = std::iter::repeat_n(x, 5).chain(inputs).chain(to).collect();
    let sizes = [0, 1, 0, head, 0, 0, head, 0, page, pages, 1, 0].map(|n| n as u32);
    let work = Work { bytes: 6 * tokens * head, ..Work::default() };
    out.dispatch(("rope", "prepare_f16"), [tokens, 1, 1], pointers, [&sizes[..], &[1.0f32.to_bits(), 0]].concat(), work);
}

fn prepared(h: &fuse::Heads<'_>, l: &mut Lowering<'_>) -> Prepared {
    let rope = &h.rope.rope;
    let values = [h.q, h.k, h.v];
    // They have weights, as `fuse` has seen.
    let norms = h.norms.map(|norms| norms.map(|n| n.weight.map_or(Symbol::Value(n.x), |w| l.weight(w, Form::Numbers))));
    let flags =
        TURNED | if norms.is_some() { NORM_QUERIES | NORM_KEYS } else { 0 } | if rope.style == RopeStyle::Pairs { NEIGHBOURS } else { 0 };
    Prepared {
        values,
        strides: values.map(|v| l.stride(v)),
        norms,
        eps: h.norms.map_or(0.0, |norms| norms[0].eps),
        frequencies: Some(l.constant(rope.frequencies.iter().copied())),
        pairs: rope.frequencies.len(),
        scale: rope.scale,
        flags,
    }
}

impl Attend {
    /// Brings queries, keys and values where attention reads them.
    fn prepare(&self, p: &Prepared, tokens: usize, out: &mut Recorder) {
        let [q, k, v] = p.values.map(At::from);
        // Never read where there are none.
        let [q_norm, k_norm] = p.norms.clone().map_or_else(|| [q.clone(), q.clone()], |norms| norms.map(At::from));
        let frequencies = p.frequencies.as_ref().map_or_else(|| q.clone(), |f| f.at(0));
        // Positions of a text have one axis.
        let position = At::from(Input::Position(0));
        let places = [position.clone(), position, frequencies, Input::Place.into(), Input::Pages.into()];
        let to = [self.q.into(), Symbol::Keys(self.state).into(), Symbol::Values(self.state).into()];
        let pointers = [q, k, v, q_norm, k_norm].into_iter().chain(places).chain(to).collect();
        let [q_stride, k_stride, v_stride] = p.strides;
        let sizes = [self.heads, self.kv_heads, self.key, self.value, q_stride, k_stride, v_stride, p.pairs, self.page, self.pages, 1];
        let numbers = [&sizes.map(|n| n as u32)[..], &[p.flags, p.scale.to_bits(), p.eps.to_bits()]].concat();
        let heads = if p.flags & ONLY_QUERIES == 0 { self.heads + 2 * self.kv_heads } else { self.heads };
        let work = Work { bytes: tokens * (8 * self.heads * self.key + 6 * self.kv_heads * (self.key + self.value)), ..Work::default() };
        out.dispatch(("rope", "prepare_f16"), [tokens, heads.div_ceil(PREPARED), 1], pointers, numbers, work);
    }

    /// Whether tiles of queries can be taken by matrix instructions.
    fn takes_tiles(&self) -> bool {
        self.key.max(self.value) <= MOST && self.key.is_multiple_of(16) && self.value.is_multiple_of(16) && self.page.is_power_of_two()
    }

    /// A span of many tokens, whose first block of queries is number `block`.
    fn prompt(&self, seen: Input, run: Run, block: usize, longest: usize, out: &mut Recorder) {
        let Self { heads, kv_heads, key, value, .. } = *self;
        let q = At::from(self.q);
        // What is not there is never read.
        let [sinks, slopes] = [&self.sinks, &self.slopes].map(|s| s.as_ref().map_or_else(|| q.clone(), |s| s.at(0)));
        let caches = [Symbol::Keys(self.state), Symbol::Values(self.state)].map(At::from);
        let inputs = [seen, Input::Place, Input::Pages].map(At::from);
        let ends = [Symbol::Input(Input::Block).at(8 * block), sinks, slopes, self.out.into()];
        let pointers = std::iter::once(q).chain(caches).chain(inputs).chain(ends).collect();
        let flags = if self.sinks.is_some() { SINKS } else { 0 } | if self.slopes.is_some() { SLOPES } else { 0 };
        let sizes = [heads, kv_heads, key, value, self.page, self.pages].map(|n| n as u32);
        let numbers = [&sizes[..], &[flags, self.scale.to_bits(), self.softcap.to_bits()]].concat();
        let (blocks, seen) = (run.len.div_ceil(QUERIES), longest.min(self.window.unwrap_or(longest)));
        let work = Work {
            bytes: 2 * blocks * heads * seen * (key + value) + 4 * run.len * heads * (key + value),
            products: run.len * heads * seen * (key + value),
            ..Work::default()
        };
        let most = key.max(value).next_power_of_two().max(64);
        out.dispatch(("prompt", format!("prompt_f16_{most}")), [blocks, heads, 1], pointers, numbers, work);
        if self.columns {
            linear::round_rows(self.out, heads * value, run.start..run.start + run.len, out);
        }
    }

    /// Tokens `start .. start + count`, each in `splits` parts.
    fn attend(&self, start: usize, count: usize, splits: usize, longest: usize, out: &mut Recorder) {
        let Self { heads, kv_heads, key, value, .. } = *self;
        let per_token = |input: Input, words: usize| Symbol::Input(input).at(4 * words * start);
        let most = if key.max(value) <= 64 { 64 } else { key.max(value).next_power_of_two() };
        let kv_bytes = 2 * longest.min(self.window.unwrap_or(longest)) * (key + value);
        let q = Symbol::Value(self.q).at(4 * start * heads * key);
        let y = Symbol::Value(self.out).at(4 * start * heads * value);
        // What is not there is never read.
        let [sinks, slopes] = [&self.sinks, &self.slopes].map(|s| s.as_ref().map_or_else(|| q.clone(), |s| s.at(0)));
        let before = start * heads * value;
        let [codes, steps] = match self.columns {
            true => [Symbol::Scratch(Scratch::Codes(Side::Inner)).at(before), Symbol::Scratch(Scratch::Steps(Side::Inner)).at(before / 4)],
            false => [y.clone(), y.clone()],
        };
        let flag = |set: bool, flag: u32| if set { flag } else { 0 };
        let flags = JOINED | flag(self.columns, ROUNDED) | flag(self.sinks.is_some(), SINKS) | flag(self.slopes.is_some(), SLOPES);
        let keys = match self.seen {
            Seen::Between(seen) => per_token(seen, 2),
            Seen::Chosen(only, width) => Symbol::Value(only).at(4 * start * width),
        };
        let caches = [Symbol::Keys(self.state), Symbol::Values(self.state)].map(At::from);
        let inputs = [keys, per_token(Input::Place, 2), Input::Pages.into(), Scratch::Partial.into()];
        let operands: Vec<At> = std::iter::once(q).chain(caches).chain(inputs).collect();
        let results = [y, codes, steps, Scratch::Counters.into()];
        let work = Work { bytes: count * kv_heads * kv_bytes, products: count * heads * kv_bytes / 2, ..Work::default() };
        let mut packet = |kernel: String, groups: usize, added: &[At], sizes: &[usize], last: &[u32]| {
            let pointers = operands.iter().chain(added).chain(&results).cloned().collect();
            let numbers = sizes.iter().map(|n| *n as u32).chain(last.iter().copied()).collect();
            out.dispatch(("attention", kernel), [count, groups, splits], pointers, numbers, work);
        };
        let (page, pages, scale, softcap) = (self.page, self.pages, self.scale.to_bits(), self.softcap.to_bits());
        if self.latent() {
            let (groups, sizes) = (heads.div_ceil(LATENT_HEADS), [heads, key, value, page, pages, splits]);
            return match self.seen {
                Seen::Between(_) => packet("latent_f16".into(), groups, &[sinks], &sizes, &[flags, scale, softcap]),
                Seen::Chosen(_, width) => packet("latent_chosen_f16".into(), groups, &[], &sizes, &[flags, width as u32, scale]),
            };
        }
        for first in (0..heads / kv_heads).step_by(HEADS) {
            let sizes = [heads, kv_heads, key, value, page, pages, splits, first];
            match self.seen {
                Seen::Between(_) => {
                    let added = [sinks.clone(), slopes.clone()];
                    packet(format!("decode_f16_{most}"), kv_heads, &added, &sizes, &[flags, scale, softcap]);
                }
                Seen::Chosen(_, width) => packet(format!("chosen_f16_{most}"), kv_heads, &[], &sizes, &[flags, width as u32, scale]),
            }
        }
    }

    /// Whether kernels for one large head of keys and values take it.
    fn latent(&self) -> bool {
        let Self { heads, kv_heads, key, value, .. } = *self;
        HeadShapes { heads, kv_heads, key, value }.latent()
    }
}

impl Step for Attend {
    fn record(&self, shape: &Shape, out: &mut Recorder) {
        if let Some(prepared) = &self.prepared {
            self.prepare(prepared, shape.tokens, out);
        }
        let longest = shape.longest.min(self.window.unwrap_or(usize::MAX));
        let splits = longest.div_ceil(SPLIT).max(1);
        let at_once = (self.room / splits).max(1);
        let mut block = 0;
        for run in &shape.runs {
            if run.wide {
                let first = block;
                block += run.len.div_ceil(QUERIES);
                if let Seen::Between(seen) = self.seen
                    && self.takes_tiles()
                {
                    self.prompt(seen, *run, first, shape.longest, out);
                    continue;
                }
            }
            for at in (0..run.len).step_by(at_once) {
                self.attend(run.start + at, at_once.min(run.len - at), splits, shape.longest, out);
            }
        }
    }
}
