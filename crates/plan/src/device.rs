use crate::{AXES, Model, WeightId};
use serde::Serialize;

/// How keys and values are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub enum KvType {
    /// IEEE binary16.
    #[default]
    F16,
    /// bfloat16: the range of f32, with eight bits of it.
    Bf16,
    /// Whole numbers from -127 to 127. Each key and each value of a head has a scale of its own: its largest number is 127.
    Q8,
    /// f32, for checking.
    F32,
}

/// How the other operand of products with weights that are codes (all but the plain floats) is rounded.
///
/// Products of whole numbers are exact; what they are made of is not. Each 32 values of a column share a scale, so the
/// error that a product takes from it is about 1/400 of its own size with 8 bits, and 1/100,000 with 16. Rounding to 8 bits
/// is what other engines do; over the layers of a small model it adds up to several percent of the logits' spread, enough
/// to choose another token where two are nearly equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ActivationKind {
    /// Not rounded: slow, for checking.
    F32,
    /// To about 15 bits, as two int8 columns: twice the arithmetic of `Int8`, the same bytes of weights.
    #[default]
    Int16,
    /// To whole numbers from -127 to 127.
    Int8,
}

/// What an executable is made for. All memory is taken by it once, at load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limits {
    /// Tokens in one step, over all sequences.
    pub batch: usize,
    /// Rows of logits in one step.
    pub outputs: usize,
    /// Tokens in one page of the key/value cache.
    pub page: usize,
    /// Pages, shared by all sequences.
    pub pages: usize,
    /// Slots for fixed states: one for each running sequence, and one for each snapshot.
    pub slots: usize,
    /// How keys and values are stored.
    pub kv: KvType,
    /// How activations are rounded.
    pub activations: ActivationKind,
}

/// Bytes that an executable will hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Weights, packed or in place.
    pub weights: usize,
    /// Keys and values.
    pub kv: usize,
    /// Fixed states, all slots.
    pub slots: usize,
    /// Everything else: activations, logits.
    pub scratch: usize,
}

impl Limits {
    /// Refuses limits that make no sense.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] with the limits.
    pub fn check(&self) -> Result<(), DeviceError> {
        let Self { batch, outputs, page, pages, slots, .. } = *self;
        if batch == 0
            || page == 0
            || batch > u32::MAX as usize
            || outputs > batch
            || page.checked_mul(pages).is_none_or(|n| n > u32::MAX as usize)
        {
            let what = format!("limits of {batch} tokens, {outputs} outputs and {pages} pages of {page} tokens, {slots} slots");
            return Err(DeviceError::Unsupported(format!("{what} cannot be run")));
        }
        Ok(())
    }
}

impl Memory {
    /// All of it.
    pub fn total(&self) -> usize {
        self.weights + self.kv + self.slots + self.scratch
    }

    /// Refuses what does not fit into `available` bytes.
    ///
    /// # Errors
    /// [`DeviceError::Memory`] with the flag that helps most.
    pub fn fits(&self, available: usize) -> Result<(), DeviceError> {
        let needed = [self.weights, self.kv, self.slots, self.scratch].into_iter().fold(0, usize::saturating_add);
        if needed <= available {
            return Ok(());
        }
        let rest = needed - self.weights;
        let (what, flag) = if self.weights > available {
            ("the model's weights and caches", "the model's size: a smaller one, or fewer bits per weight")
        } else if self.kv >= rest / 2 {
            ("the model with its key/value cache", "--ctx-size")
        } else if self.slots >= rest / 2 {
            ("the model with its sequences' states", "--parallel")
        } else {
            ("the model with its scratch memory", "the tokens of one step (--parallel, --chunk)")
        };
        Err(DeviceError::Memory { what: what.into(), needed, available, flag })
    }
}

/// How far loading has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of weights done.
    pub done: usize,
    /// Bytes of weights in all.
    pub total: usize,
}

/// One sequence's part of a [`Batch`].
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// New tokens, at least one; they follow those of the span before it in [`Batch::tokens`].
    pub len: usize,
    /// Position of the first: how many tokens of the sequence are in its caches. At 0 the fixed states start from zero.
    pub start: usize,
    /// The sequence's pages in order, enough for `start + len` tokens.
    pub pages: &'a [u32],
    /// The sequence's slot.
    pub slot: u32,
    /// How many of its last tokens' rows of output are wanted, from 0 to `len`.
    pub outputs: usize,
}

/// The work of one step: some sequences with some new tokens each.
///
/// What a position yields does not depend on what else is in the batch.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The new tokens, span by span.
    pub tokens: &'a [u32],
    /// Whose they are. No slot and no page that is written appears twice.
    pub spans: &'a [Span<'a>],
    /// What tokens have besides ids.
    pub inputs: Inputs<'a>,
}

/// What a plan asks of batches ([`Plan::batch_form`](crate::Plan::batch_form)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchForm {
    /// Ids are below it.
    pub vocabulary: usize,
    /// Numbers of the rows that tokens may be given; 0 where the plan has no use for such.
    pub given: usize,
    /// Whether every token must be given a row: the plan of a vision tower.
    pub needs_given: bool,
    /// Whether sequences have to be in one step, as tokens see those behind them.
    pub whole: bool,
    /// Whether each sequence answers to a source, which was [read](Executable::encode) before.
    pub source: bool,
}

impl BatchForm {
    /// Ids of a vocabulary and nothing else.
    pub fn text(vocabulary: usize) -> Self {
        Self { vocabulary, given: 0, needs_given: false, whole: false, source: false }
    }
}

/// What the tokens of a batch have besides ids: nothing in text. Each list is empty or has an entry for every token, or for every span.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inputs<'a> {
    /// Rows that stand in for ids or are added on the way ([`Given`](crate::ops::Given)), each of [`BatchForm::given`] numbers.
    pub rows: &'a [f32],
    /// Which of these rows each token is given; [`Inputs::NONE`] for tokens that are given none.
    pub given: &'a [u32],
    /// The position of each token on every axis, by which [rotations](crate::Rope) of several axes turn. Without, it is the position in
    /// the sequence on all of them.
    pub axes: &'a [[u32; AXES]],
    /// For each token the positions, first and end, that it sees in attention by [groups](crate::Attention::groups), besides what the
    /// mask allows: those of its image. They must be in the caches or in this step. Without, only its own.
    pub groups: &'a [[u32; 2]],
    /// For each span, how many tokens of its source have been [read](Executable::encode) into its pages.
    pub sources: &'a [u32],
}

impl Inputs<'_> {
    /// In [`Inputs::given`]: no row.
    pub const NONE: u32 = u32::MAX;

    /// Tokens of a span's source; 0 where there are no sources.
    pub fn source(&self, span: usize) -> usize {
        self.sources.get(span).map_or(0, |tokens| *tokens as usize)
    }

    /// The group of a token, where there are groups.
    pub fn group(&self, token: usize) -> Option<[u32; 2]> {
        self.groups.get(token).copied()
    }

    /// The row of a token, `width` numbers, where it is given one.
    pub fn row(&self, token: usize, width: usize) -> Option<&[f32]> {
        let index = *self.given.get(token).filter(|index| **index != Self::NONE)? as usize;
        self.rows.get(index * width..(index + 1) * width)
    }

    /// Checks that the lists fit the batch and the plan.
    fn check(&self, batch: &Batch<'_>, limits: &Limits, form: &BatchForm) -> Result<(), DeviceError> {
        let fail = |what: String| Err(DeviceError::Batch(what));
        let (tokens, width) = (batch.tokens.len(), form.given);
        for (what, len) in [("rows", self.given.len()), ("positions", self.axes.len()), ("groups", self.groups.len())] {
            if len != 0 && len != tokens {
                return fail(format!("{len} {what} for {tokens} tokens"));
            }
        }
        if let Some(index) = self.given.iter().find(|index| **index != Self::NONE && self.rows.len() / width.max(1) <= **index as usize) {
            return fail(format!("row {index} is not among those that are given, of {width} numbers each"));
        }
        if form.needs_given && (self.given.is_empty() || self.given.contains(&Self::NONE)) {
            return fail("a token is given no row".into());
        }
        let spans = if form.source { batch.spans.len() } else { 0 };
        if self.sources.len() != spans {
            return fail(format!("sources for {} spans, but {spans} need one", self.sources.len()));
        }
        if let Some((tokens, span)) =
            self.sources.iter().zip(batch.spans).find(|(n, s)| **n == 0 || (**n as usize).div_ceil(limits.page) > s.pages.len())
        {
            return fail(format!("{} pages do not hold a source of {tokens} tokens", span.pages.len()));
        }
        let mut first = 0;
        for span in batch.spans {
            let groups = self.groups.get(first..first + span.len).unwrap_or_default();
            if let Some([a, b]) = groups.iter().find(|[a, b]| a >= b || *b as usize > span.start + span.len) {
                return fail(format!("a group from {a} to {b} in a sequence of {} tokens", span.start + span.len));
            }
            first += span.len;
        }
        Ok(())
    }
}

impl<'a> Batch<'a> {
    /// A batch of ids.
    pub fn text(tokens: &'a [u32], spans: &'a [Span<'a>]) -> Self {
        Self { tokens, spans, inputs: Inputs::default() }
    }
}

/// Why a device failed.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// More memory is needed than there is.
    #[error("{what} needs {needed} bytes, but {available} are available: lower {flag}")]
    Memory {
        /// What it is for.
        what: String,
        /// Bytes needed.
        needed: usize,
        /// Bytes there.
        available: usize,
        /// The flag that lowers the need.
        flag: &'static str,
    },
    /// The plan has an op or a weight that the device cannot run.
    #[error("{0}")]
    Unsupported(String),
    /// The plan has ops that the device has no kernels for; another device may have them.
    #[error("the device `{device}` cannot run `{plan}`: {}", refusals(ops))]
    Refused {
        /// The device.
        device: String,
        /// The plan's architecture.
        plan: String,
        /// All such ops.
        ops: Vec<Refused>,
    },
    /// The batch breaks a rule of [`Batch`] or exceeds the [`Limits`].
    #[error("{0}")]
    Batch(String),
    /// The device broke down.
    #[error("{0}")]
    Failed(String),
}

/// An op that a device has no kernel for, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// The op: `attention`.
    pub op: &'static str,
    /// Its layer.
    pub layer: Option<usize>,
    /// What is missing.
    pub reason: String,
}

/// The first few refusals that differ, and how many more there are.
fn refusals(ops: &[Refused]) -> String {
    const SHOWN: usize = 3;
    let mut reasons: Vec<String> = vec![];
    for Refused { op, reason, .. } in ops {
        let reason = format!("`{op}`: {reason}");
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    let more = reasons.len().saturating_sub(SHOWN);
    reasons.truncate(SHOWN);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("{}{more}", reasons.join("; "))
}

/// Something that runs plans.
pub trait Device: Send + Sync {
    /// A short name: `cpu`.
    fn name(&self) -> &str;
    /// What `load` would take.
    fn memory(&self, model: &Model, limits: &Limits) -> Memory;
    /// Takes the memory, packs the weights, and is ready for steps. `progress` may be called often.
    fn load(&self, model: Model, limits: &Limits, progress: &mut dyn FnMut(Progress)) -> Result<Box<dyn Executable>, DeviceError>;
}

/// A loaded model with its caches.
pub trait Executable: Send {
    /// What it was made for.
    fn limits(&self) -> &Limits;
    /// Tokens in the vocabulary.
    fn vocabulary(&self) -> usize;
    /// Numbers of the rows that tokens may be given ([`BatchForm::given`]).
    fn given(&self) -> usize {
        0
    }
    /// Numbers in a row of the output: of logits, or of hidden states.
    fn width(&self) -> usize {
        self.vocabulary()
    }
    /// Appends the batch's tokens to their sequences and gives the rows asked for, `[outputs, width]`, span by span.
    fn step(&mut self, batch: &Batch<'_>) -> Result<&[f32], DeviceError>;
    /// Reads sources, whole: a model of an encoder and a decoder keeps what it makes of each in the pages of its span, whose answer is then
    /// made by [steps](Executable::step). A page holds, for its positions, tokens of the source and of the answer alike.
    fn encode(&mut self, _sources: &Batch<'_>) -> Result<(), DeviceError> {
        Err(DeviceError::Batch("the model reads no sources: it has no encoder".into()))
    }
    /// What weights were multiplied with in all steps so far, where the device was asked to watch that; empty otherwise.
    fn input_sums(&self) -> Vec<InputSums> {
        vec![]
    }
    /// Copies slots (from, to): snapshots of fixed states, and the way back.
    fn copy_slots(&mut self, pairs: &[(u32, u32)]);
    /// Copies pages (from, to): a shared page that two sequences are about to continue differently.
    fn copy_pages(&mut self, pairs: &[(u32, u32)]);
    /// Bytes of a page and of a slot as [`read_cached`](Self::read_cached) gives them; none where the device does not give them out.
    fn part_bytes(&self) -> Option<[usize; 2]> {
        None
    }
    /// Adds the bytes of a page or slot to `out`, as only this device with the same plan and limits can [write](Self::write_cached) them again.
    fn read_cached(&mut self, _part: Cached, _out: &mut Vec<u8>) -> Result<(), DeviceError> {
        Err(DeviceError::Unsupported("the device does not give out what it has cached".into()))
    }
    /// Puts back what was read.
    fn write_cached(&mut self, _part: Cached, _bytes: &[u8]) -> Result<(), DeviceError> {
        Err(DeviceError::Unsupported("the device takes back nothing that it had cached".into()))
    }
}

/// A part of the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cached {
    /// Keys and values of a page's tokens, in all layers.
    Page(u32),
    /// The fixed states of a slot, in all layers.
    Slot(u32),
}

/// What a matrix, or each of a stack of experts' matrices, was multiplied with.
#[derive(Clone, Debug, PartialEq)]
pub struct InputSums {
    /// The matrix or the stack.
    pub weight: WeightId,
    /// Sums of the squares of the rows, `[experts, columns]`.
    pub squares: Vec<f64>,
    /// Rows, `[experts]`.
    pub counts: Vec<u64>,
}

impl Batch<'_> {
    /// Checks the batch against the limits and what the plan asks, so that devices can rely on its form.
    pub fn check(&self, limits: &Limits, form: &BatchForm) -> Result<(), DeviceError> {
        let fail = |what: String| Err(DeviceError::Batch(what));
        let vocabulary = form.vocabulary;
        if self.tokens.is_empty() || self.tokens.len() > limits.batch {
            return fail(format!("a batch of {} tokens; from 1 to {} are allowed", self.tokens.len(), limits.batch));
        }
        if self.spans.iter().map(|s| s.len).sum::<usize>() != self.tokens.len() {
            return fail("the spans do not add up to the tokens".into());
        }
        if let Some(t) = self.tokens.iter().find(|t| **t as usize >= vocabulary) {
            return fail(format!("token {t} is not in the vocabulary of {vocabulary}"));
        }
        if self.spans.iter().map(|s| s.outputs).sum::<usize>() > limits.outputs {
            return fail(format!("more than {} rows of output asked for", limits.outputs));
        }
        // Pair by pair, as a step allocates nothing; spans are few.
        let twice = |i: usize, s: &Span<'_>| self.spans[..i].iter().any(|other| other.slot == s.slot);
        if self.spans.iter().enumerate().any(|(i, s)| s.slot as usize >= limits.slots || twice(i, s)) {
            return fail("a slot is used twice or does not exist".into());
        }
        for s in self.spans {
            if form.whole && s.start > 0 {
                return fail(format!(
                    "a span begins at token {}, but this model sees what follows: a sequence has to be in one step",
                    s.start
                ));
            }
            if s.len == 0 || s.outputs > s.len {
                return fail(format!("a span of {} tokens with {} outputs", s.len, s.outputs));
            }
            if (s.start + s.len).div_ceil(limits.page) > s.pages.len() {
                return fail(format!("{} pages do not hold {} tokens", s.pages.len(), s.start + s.len));
            }
            if s.pages.iter().any(|p| *p as usize >= limits.pages) {
                return fail("a page does not exist".into());
            }
        }
        self.inputs.check(self, limits, form)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_the_flag_that_helps() {
        let limits = Limits { batch: 8, outputs: 8, page: 16, pages: 4, slots: 1, kv: Default::default(), activations: Default::default() };
        let memory = Memory { weights: 100, kv: 50, slots: 10, scratch: 5 };
        assert!(limits.check().is_ok() && memory.fits(165).is_ok());
        let flag = |memory: Memory, available| match memory.fits(available) {
            Err(DeviceError::Memory { needed, available: a, flag, .. }) => {
                assert_eq!((needed, a), (memory.total(), available));
                flag
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(flag(memory, 164), "--ctx-size");
        assert!(flag(memory, 99).starts_with("the model's size"));
        assert_eq!(flag(Memory { kv: 1, slots: 90, ..memory }, 120), "--parallel");
        assert_eq!(flag(Memory { kv: 1, scratch: 90, ..memory }, 120), "the tokens of one step (--parallel, --chunk)");
        assert!(Limits { batch: 0, ..limits.clone() }.check().is_err());
        assert!(Limits { pages: usize::MAX, ..limits }.check().is_err());
    }
}
