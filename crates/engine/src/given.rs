//! Rows that stand in for tokens of a prompt: what a vision tower made of images.

use crate::SubmitError;
use onebit_plan::{AXES, Inputs};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Rows for a run of a prompt's tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    /// The first of the tokens. Their ids are those of the image's mark; they count where the sampler looks back.
    pub start: usize,
    /// How many.
    pub len: usize,
    /// Rows of as many numbers as the executable takes ([`Executable::given`](onebit_plan::Executable::given)).
    pub rows: Arc<[f32]>,
    /// The first of them that belongs to the run.
    pub first: usize,
    /// Whether the tokens see each other whatever their order. They are then computed in one step.
    pub whole: bool,
}

impl Given {
    fn tokens(&self) -> Range<usize> {
        self.start..self.start + self.len
    }
}

/// What the tokens of one sequence have besides ids.
#[derive(Debug)]
pub(crate) struct Beside {
    given: Vec<Given>,
    /// Stands for the content of each.
    digests: Vec<[u64; 2]>,
    /// Positions of the prompt's tokens; empty where they simply count on.
    axes: Arc<[[u32; AXES]]>,
    /// The position of the first token behind the prompt.
    next: u32,
}

impl Beside {
    /// Checks what a request has of it.
    pub(crate) fn validate(given: &[Given], axes: &[[u32; AXES]], prompt: usize, width: usize, step: usize) -> Result<(), SubmitError> {
        let fail = |message: String| Err(SubmitError::Invalid { param: "images", message });
        if !axes.is_empty() && axes.len() != prompt {
            return fail(format!("{} positions were given for {prompt} tokens", axes.len()));
        }
        if !given.is_empty() && width == 0 {
            return fail("the model takes no images".into());
        }
        let mut end = 0;
        for run in given {
            if run.len == 0 || run.start < end || run.start.checked_add(run.len).is_none_or(|end| end > prompt) {
                return fail(format!("rows for {} tokens from {} of {prompt} on, those before {end} having some", run.len, run.start));
            }
            if run.first.checked_add(run.len).and_then(|rows| rows.checked_mul(width)).is_none_or(|numbers| numbers > run.rows.len()) {
                return fail(format!("{} numbers are fewer than {} rows of {width} from {} on", run.rows.len(), run.len, run.first));
            }
            if run.whole && run.len > step {
                return fail(format!("an image of {} tokens that see each other does not fit into a step of {step}", run.len));
            }
            end = run.start + run.len;
        }
        Ok(())
    }

    /// Of what was checked; `None` for text.
    pub(crate) fn new(given: Vec<Given>, axes: Arc<[[u32; AXES]]>, width: usize) -> Option<Self> {
        if given.is_empty() && axes.is_empty() {
            return None;
        }
        let digests = given.iter().map(|run| digest(run, width, axes.get(run.tokens()).unwrap_or_default())).collect();
        let next = axes.iter().flatten().max().map_or(0, |last| last + 1);
        Some(Self { given, digests, axes, next })
    }

    /// The position of a token on every axis, in a sequence whose prompt has `prompt` tokens.
    fn axes_of(&self, token: usize, prompt: usize) -> [u32; AXES] {
        let count_on = || if self.axes.is_empty() { token as u32 } else { self.next + (token - prompt) as u32 };
        self.axes.get(token).copied().unwrap_or_else(|| [count_on(); AXES])
    }

    /// The run that a token belongs to.
    fn run_of(&self, token: usize) -> Option<&Given> {
        let after = self.given.partition_point(|run| run.start <= token);
        self.given[..after].last().filter(|run| run.tokens().contains(&token))
    }

    /// Where `end` cuts tokens that have to be in one step: the ends before and behind them.
    pub(crate) fn cut(&self, end: usize) -> Option<[usize; 2]> {
        let run = self.run_of(end).filter(|run| run.whole && run.start < end)?;
        Some([run.start, run.start + run.len])
    }

    /// What stands for the content of `tokens` beside their ids: the digest of each run that they are part of, and where it begins.
    pub(crate) fn content(&self, tokens: &Range<usize>) -> Vec<(isize, [u64; 2])> {
        let runs = self.given.iter().zip(&self.digests);
        let met = runs.filter(|(run, _)| run.start < tokens.end && run.tokens().end > tokens.start);
        met.map(|(run, digest)| (run.start as isize - tokens.start as isize, *digest)).collect()
    }
}

/// Content for the keys of the cache, with secrets of this process, so that nobody can make two images that are the same to it.
fn digest(run: &Given, width: usize, axes: &[[u32; AXES]]) -> [u64; 2] {
    static SECRETS: OnceLock<[RandomState; 2]> = OnceLock::new();
    SECRETS.get_or_init(Default::default).each_ref().map(|secret| {
        let mut hasher = secret.build_hasher();
        (run.len, run.whole, axes).hash(&mut hasher);
        run.rows[run.first * width..(run.first + run.len) * width].iter().for_each(|x| hasher.write_u32(x.to_bits()));
        hasher.finish()
    })
}

/// What the tokens of a step have besides ids, gathered anew for each step.
#[derive(Debug, Default)]
pub(crate) struct StepInputs {
    rows: Vec<f32>,
    given: Vec<u32>,
    axes: Vec<[u32; AXES]>,
    groups: Vec<[u32; 2]>,
    sources: Vec<u32>,
}

impl StepInputs {
    /// Gathers for the tokens of each part of a step: what their sequence has, its prompt's length, and which tokens they are.
    pub(crate) fn gather<'a>(&mut self, parts: impl Iterator<Item = (Option<&'a Beside>, usize, Range<usize>)> + Clone, width: usize) {
        self.rows.clear();
        self.given.clear();
        self.axes.clear();
        self.groups.clear();
        // A step of text needs none of it.
        if parts.clone().all(|(beside, ..)| beside.is_none()) {
            return;
        }
        for (beside, prompt, tokens) in parts {
            for token in tokens {
                let run = beside.and_then(|beside| beside.run_of(token));
                let own = [token as u32, token as u32 + 1];
                self.groups.push(run.filter(|run| run.whole).map_or(own, |run| [run.start as u32, run.tokens().end as u32]));
                self.axes.push(beside.map_or([token as u32; AXES], |beside| beside.axes_of(token, prompt)));
                self.given.push(run.map_or(Inputs::NONE, |_| (self.rows.len() / width.max(1)) as u32));
                if let Some(run) = run {
                    let row = run.first + token - run.start;
                    self.rows.extend_from_slice(&run.rows[row * width..(row + 1) * width]);
                }
            }
        }
    }

    /// Gathers how many tokens the source of each part's sequence has: none in decoders.
    pub(crate) fn gather_sources(&mut self, sources: impl Iterator<Item = usize>) {
        self.sources.clear();
        self.sources.extend(sources.filter(|tokens| *tokens > 0).map(|tokens| tokens as u32));
    }

    /// For the batch.
    pub(crate) fn inputs(&self) -> Inputs<'_> {
        Inputs { rows: &self.rows, given: &self.given, axes: &self.axes, groups: &self.groups, sources: &self.sources }
    }
}
