//! Which tokens attention is to see, where the model chooses them (`kernels/sparse.hip.cpp`).

use super::Lowered;
use crate::compile::{At, Input, Lowering, Recorder, Scratch, Shape, Step, Symbol, Work};
use onebit_plan::{StateId, Value, ops};

/// Blocks that a workgroup scores.
const BLOCKS: usize = 256;
/// Numbers of a token's queries at most.
const MOST: usize = 8192;
/// Scores that there is room for, beyond those of one token.
const ROOM: usize = 1 << 20;

struct Index {
    q: Value,
    k: Value,
    weights: Option<Value>,
    state: StateId,
    heads: usize,
    head: usize,
    block: usize,
    top: usize,
    width: usize,
    page: usize,
    pages: usize,
    /// Scores that there is room for.
    room: usize,
    out: Value,
}

pub(crate) fn index(op: &ops::Index, l: &mut Lowering<'_>) -> Lowered {
    let head = l.width(op.k);
    if !head.is_multiple_of(2) || op.heads * head > MOST {
        return Err(format!("{} heads of {head} numbers: an even number, and {MOST} in all", op.heads));
    }
    for input in [Input::Position(0), Input::Place, Input::Pages] {
        l.input(input);
    }
    let room = ROOM.max((l.limits.page * l.limits.pages).div_ceil(op.block));
    l.scratch(Scratch::Scores, 4 * room);
    Ok(Box::new(Index {
        q: op.q,
        k: op.k,
        weights: op.weights,
        state: op.state,
        heads: op.heads,
        head,
        block: op.block,
        top: op.top,
        width: l.width(op.out),
        page: l.limits.page,
        pages: l.limits.pages,
        room,
        out: op.out,
    }))
}

impl Step for Index {
    fn record(&self, shape: &Shape, out: &mut Recorder) {
        let Self { heads, head, block, top, width, page, pages, .. } = *self;
        super::attention::append(self.k, head, self.state, [page, pages], shape.tokens, out);
        let blocks = shape.longest.div_ceil(block).min(self.room);
        let at_once = (self.room / blocks).max(1);
        for start in (0..shape.tokens).step_by(at_once) {
            let tokens = at_once.min(shape.tokens - start);
            let row = |v: Value, width: usize| Symbol::Value(v).at(4 * start * width);
            let q = row(self.q, heads * head);
            // Never read where there are none.
            let weights = self.weights.map_or_else(|| q.clone(), |w| row(w, heads));
            let place = Symbol::Input(Input::Place).at(8 * start);
            let scores = At::from(Scratch::Scores);
            let pointers = vec![q, weights, Symbol::Values(self.state).into(), place.clone(), Input::Pages.into(), scores.clone()];
            let numbers = [heads, head, page, pages, block, blocks, usize::from(self.weights.is_some())].map(|n| n as u32).to_vec();
            let work = Work { bytes: tokens * blocks * 2 * head, products: tokens * blocks * heads * head, ..Work::default() };
            out.dispatch(("sparse", "block_scores"), [tokens, blocks.div_ceil(BLOCKS), 1], pointers, numbers, work);
            let numbers = [block, top, width, blocks].map(|n| n as u32).to_vec();
            let work = Work { bytes: 4 * tokens * (5 * blocks + width), ..Work::default() };
            out.dispatch(("sparse", "choose"), [tokens, 1, 1], vec![scores, place, row(self.out, width)], numbers, work);
        }
    }
}
