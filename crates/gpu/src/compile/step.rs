//! What a compiled plan is made of: steps that know their operands by name, and record their commands for a shape of the batch.

use onebit_plan::{Mask, StateId, Value, WeightId, ops::Lookup};
use std::borrow::Cow;

/// Something in device memory, by what it is to the plan.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Symbol {
    /// The rows of a value.
    Value(Value),
    /// A weight in one of its forms, or several one below the other.
    Weight(Vec<WeightId>, Form),
    /// What the host writes for each step.
    Input(Input),
    /// Keys of a cache.
    Keys(StateId),
    /// Values of a cache.
    Values(StateId),
    /// A fixed state, all slots.
    Fixed(StateId),
    /// Memory that a step works in, and the next one too.
    Scratch(Scratch),
    /// Numbers that the plan itself holds, as bits.
    Constant(Vec<u32>),
}

/// How a weight lies in device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Form {
    /// Numbers in f32.
    Numbers,
    /// Numbers as the file has them.
    Stored,
    /// The planes of its type.
    Planes,
    /// Of stacks of matrices, one for each expert: numbers, the rows of an expert's one matrix behind those of its other.
    EachNumbers,
    /// The same as planes.
    EachPlanes,
    /// Numbers in f32 of matrices with rows and columns exchanged.
    Turned,
}

/// What a step works in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Scratch {
    /// Columns rounded to int8.
    Codes(Side),
    /// Their scales and sums.
    Steps(Side),
    /// What packets count the workgroups with that are done: zero before and after each.
    Counters,
    /// What each chosen expert makes: gates, what they gate, and what comes out.
    Gates,
    Ups,
    Downs,
    /// Choices in the order of their experts, and the tiles that they are cut into.
    Order,
    Tiles,
    /// Parts of attention that are joined.
    Partial,
    /// Scores of blocks of tokens.
    Scores,
    /// Rows of a table that a packet has worked out.
    Rows,
}

/// Two sets of columns, so that a packet can read one and write the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Side {
    /// What norms make.
    Stream,
    /// What is made within layers.
    Inner,
    /// What experts make for each choice.
    Choices,
}

/// What the host writes for each step: a list with an entry, or two, for each token, row of outputs, or span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Input {
    /// The token's position plus this.
    Position(i32),
    /// The token's span, and its position.
    Place,
    /// For each block of up to 64 queries of a long span its first token, and how many there are.
    Block,
    /// For each span its first token, how many it has, its slot, and the tokens before it.
    Sequence,
    /// For each span its pages, [`most`](Input::Pages) of them.
    Pages,
    /// For each row of outputs its token.
    Output,
    /// First and end of the positions that the token sees, with its group or without.
    Seen(Mask, bool),
    /// The row of a table of so many.
    Row(Lookup, usize),
    /// A factor by position: bits of `beta`, then `every`, `shift` (see `PositionScale`).
    Factor(u32, usize, usize),
}

/// A place in one of these.
#[derive(Debug, Clone)]
pub(crate) struct At {
    pub(crate) symbol: Symbol,
    pub(crate) offset: usize,
}

impl Symbol {
    pub(crate) fn at(&self, offset: usize) -> At {
        At { symbol: self.clone(), offset }
    }
}

impl From<Symbol> for At {
    fn from(symbol: Symbol) -> Self {
        Self { symbol, offset: 0 }
    }
}

impl From<Value> for At {
    fn from(v: Value) -> Self {
        Symbol::Value(v).into()
    }
}

impl From<Input> for At {
    fn from(input: Input) -> Self {
        Symbol::Input(input).into()
    }
}

impl From<Scratch> for At {
    fn from(scratch: Scratch) -> Self {
        Symbol::Scratch(scratch).into()
    }
}

/// Tokens of the batch that follow each other and are taken alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Run {
    /// The first.
    pub start: usize,
    /// How many.
    pub len: usize,
    /// Whether matrix instructions take them: those of spans of more than [`NARROW`] tokens. It depends on the span alone, so that what
    /// else is in the batch changes nothing.
    pub wide: bool,
}

/// The longest span whose sums are made as those of a single token are.
pub const NARROW: usize = 16;

/// What commands depend on: a list is recorded for each shape that comes, and kept.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Tokens.
    pub tokens: usize,
    /// Rows of outputs.
    pub outputs: usize,
    /// Spans.
    pub spans: usize,
    /// All tokens.
    pub runs: Vec<Run>,
    /// All rows of outputs, those of long spans being wide as well.
    pub output_runs: Vec<Run>,
    /// At least as many as the positions that any token sees; one of few numbers, so that shapes are few.
    pub longest: usize,
    /// Which argument slot of the ring.
    pub slot: usize,
}

/// What a dispatch moves and computes, for the model of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Bytes of weights that are read once.
    pub weights: usize,
    /// Other bytes read and written.
    pub bytes: usize,
    /// Multiplications with rounding to int8, or of matrices.
    pub products: usize,
}

/// A dispatch whose operands have names.
#[derive(Debug, Clone)]
pub(crate) struct Dispatch {
    pub(crate) object: &'static str,
    pub(crate) kernel: Cow<'static, str>,
    pub(crate) grid: [u32; 3],
    pub(crate) pointers: Vec<At>,
    pub(crate) numbers: Vec<u32>,
    pub(crate) work: Work,
}

/// A command whose operands have names.
#[derive(Debug, Clone)]
pub(crate) enum Recorded {
    Dispatch(Dispatch),
    Copy { from: At, to: At, bytes: usize },
}

/// Commands in the making.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) commands: Vec<Recorded>,
}

impl Recorder {
    /// Adds a dispatch, unless its grid is empty.
    pub(crate) fn dispatch(
        &mut self,
        (object, kernel): (&'static str, impl Into<Cow<'static, str>>),
        grid: [usize; 3],
        pointers: Vec<At>,
        numbers: Vec<u32>,
        work: Work,
    ) {
        if !grid.contains(&0) {
            let grid = grid.map(|n| n as u32);
            self.commands.push(Recorded::Dispatch(Dispatch { object, kernel: kernel.into(), grid, pointers, numbers, work }));
        }
    }

    /// Adds a copy.
    pub(crate) fn copy(&mut self, from: impl Into<At>, to: impl Into<At>, bytes: usize) {
        if bytes > 0 {
            self.commands.push(Recorded::Copy { from: from.into(), to: to.into(), bytes });
        }
    }
}

/// What an op became.
pub(crate) trait Step: Send {
    /// Its commands for a batch of this shape.
    fn record(&self, shape: &Shape, out: &mut Recorder);
}
