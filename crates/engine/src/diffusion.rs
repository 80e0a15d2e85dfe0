//! Masked diffusion: an answer begins as masks, all of which the model sees and guesses at once; in each step some guesses are kept, and
//! the others are masked again.
//!
//! In blocks, one after the other, as LLaDA does it (Nie et al. 2025, arXiv:2502.09992, `generate.py`), each of which keeps about as
//! many tokens in each step; or over the whole answer by the times of a linear schedule, as Dream does it (Ye et al. 2025,
//! arXiv:2508.15487, `generation_utils.py`). What is kept is never masked again, so that the answer can be shown as far as it has no
//! masks. Of equal guesses the earlier are kept first. A mask is never guessed.

use crate::sampler::{Rng, random_seed};
use crate::{EngineError, Logprobs, SubmitError};
use onebit_plan::Denoising;
use std::ops::Range;

/// Tokens of an answer where the request does not say how many.
pub(crate) const USUAL_ANSWER: usize = 128;

/// Tokens of a block where the request does not say how many, for models that were not trained on shifted answers.
const USUAL_BLOCK: usize = 32;

/// The most steps.
const MOST_STEPS: usize = 1 << 16;

/// How a model of masked diffusion makes its answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Diffusion {
    /// Steps for the whole answer, from 1 to 65536; `None` is one for each token.
    pub steps: Option<usize>,
    /// Tokens of a block, at least 1; 0 is the whole answer by the times of a linear schedule. `None` is as the model's authors have
    /// it: 32 for LLaDA, 0 for Dream.
    pub block: Option<usize>,
    /// Which guesses are kept.
    pub remasking: Remasking,
    /// The last time of the linear schedule, above 0 and below 1.
    pub eps: f32,
}

impl Default for Diffusion {
    fn default() -> Self {
        Self { steps: None, block: None, remasking: Remasking::LowConfidence, eps: 1e-3 }
    }
}

/// Which guesses are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Remasking {
    /// The most probable.
    #[default]
    LowConfidence,
    /// Those at positions where the model's probabilities have the least entropy.
    Entropy,
    /// Those at positions where the most probable token is furthest ahead of the next.
    Margin,
    /// Any.
    Random,
    /// Any, and any number of them: each with the probability that the schedule gives (Austin et al. 2021, arXiv:2107.03006).
    Origin,
}

impl Remasking {
    /// All of them, by the names that they have in requests.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("low_confidence", Self::LowConfidence),
        ("entropy", Self::Entropy),
        ("margin", Self::Margin),
        ("random", Self::Random),
        ("origin", Self::Origin),
    ];

    /// What Dream's authors call some of them.
    const DREAM: [(&'static str, Self); 2] = [("maskgit_plus", Self::LowConfidence), ("topk_margin", Self::Margin)];

    /// By its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().chain(&Self::DREAM).find(|(known, _)| *known == name).map(|(_, remasking)| *remasking)
    }

    /// How much a guess counts, from the logits of its position. Those of [`Remasking::Random`] and [`Remasking::Origin`] are drawn.
    fn confidence(self, logits: &[f32], id: u32, rng: &mut Rng) -> f64 {
        let probability = probabilities(logits);
        match self {
            Self::LowConfidence => probability(logits[id as usize]),
            Self::Entropy => logits.iter().map(|l| probability(*l)).map(|p| p * (p + 1e-10).ln()).sum(),
            Self::Margin => {
                let [first, second] = logits.iter().fold([f32::NEG_INFINITY; 2], |[a, b], l| [a.max(*l), b.max(a.min(*l))]);
                probability(first) - probability(second)
            }
            Self::Random | Self::Origin => rng.unit(),
        }
    }
}

/// The probability of a logit among all.
fn probabilities(logits: &[f32]) -> impl Fn(f32) -> f64 {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let exp = move |l: f32| f64::from(l - max).exp();
    let sum: f64 = logits.iter().map(|l| exp(*l)).sum();
    move |l| exp(l) / sum
}

impl Diffusion {
    /// Checks every parameter against its range.
    pub fn validate(&self) -> Result<(), SubmitError> {
        let invalid = |param, message| Err(SubmitError::Invalid { param, message });
        if let Some(steps) = self.steps.filter(|n| !(1..=MOST_STEPS).contains(n)) {
            return invalid("steps", format!("{steps} were given; from 1 to {MOST_STEPS} are allowed"));
        }
        if !(self.eps > 0.0 && self.eps < 1.0) {
            return invalid("eps", format!("{} was given; it must be above 0 and below 1", self.eps));
        }
        Ok(())
    }

    fn block(&self, model: &Denoising, answer: usize) -> usize {
        match self.block.unwrap_or(if model.shifted { 0 } else { USUAL_BLOCK }) {
            0 => answer.max(1),
            block => block.min(answer).max(1),
        }
    }

    /// Whether the schedule is that of times.
    fn by_times(&self, model: &Denoising) -> bool {
        self.block.map_or(model.shifted, |block| block == 0)
    }

    /// The share of the masks that each of `steps` takes away on average.
    fn shares(&self, steps: usize, by_times: bool) -> Vec<f32> {
        // As `torch.linspace` computes it, from both ends.
        let step = (self.eps - 1.0) / steps as f32;
        let time = |i: usize| if i < steps.div_ceil(2) { 1.0 + step * i as f32 } else { self.eps - step * (steps - i) as f32 };
        let share = |i: usize| if by_times { 1.0 - time(i + 1) / time(i) } else { 1.0 / (steps - i) as f32 };
        (0..steps).map(|i| if i + 1 == steps { 1.0 } else { share(i) }).collect()
    }

    /// How many of `masks` each of `steps` takes away; steps that take none are left out.
    fn counts(&self, masks: usize, steps: usize, by_times: bool) -> Vec<usize> {
        let mut left = masks;
        let by_time = |share: f32| {
            let n = ((left as f32 * share) as usize).min(left);
            left -= n;
            n
        };
        let counts: Vec<usize> = match by_times {
            true => self.shares(steps, true).into_iter().map(by_time).collect(),
            false => (0..steps).map(|i| masks / steps + usize::from(i < masks % steps)).collect(),
        };
        counts.into_iter().filter(|n| *n > 0).collect()
    }
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Keep {
    /// The best so many.
    Best(usize),
    /// Each with this probability.
    Each(f32),
}

/// The token that is guessed from a row of logits, for a position, and what is to be reported of it.
pub(crate) type Guesser<'a> = dyn FnMut(&[f32], usize) -> Result<(u32, Option<Logprobs>), EngineError> + 'a;

/// A position's guess.
struct Guess {
    position: usize,
    id: u32,
    confidence: f64,
    logprobs: Option<Logprobs>,
}

/// An answer in the making.
#[derive(Debug)]
pub(crate) struct Canvas {
    model: Denoising,
    how: Diffusion,
    rng: Rng,
    /// How many of the tokens are the prompt.
    prompt: usize,
    /// Prompt and answer, with masks.
    tokens: Vec<u32>,
    /// Which of them are masks to be taken away.
    masked: Vec<bool>,
    /// By position, what is to be reported of the token there.
    logprobs: Vec<Option<Logprobs>>,
    /// Tokens from the start that have been given out.
    known: usize,
    block: Range<usize>,
    /// What the block's steps do, the next one last.
    steps: Vec<Keep>,
}

impl Canvas {
    /// For a prompt and an answer, `end` tokens in all.
    pub(crate) fn new(model: Denoising, how: Diffusion, seed: Option<u64>, prompt: &[u32], end: usize) -> Self {
        let (prompt_len, end) = (prompt.len(), end.max(prompt.len()));
        let mut tokens = prompt.to_vec();
        tokens.resize(end, model.mask);
        let mut canvas = Self {
            model,
            how,
            rng: Rng::new(seed.unwrap_or_else(random_seed)),
            prompt: prompt_len,
            tokens,
            masked: (0..end).map(|i| i >= prompt_len).collect(),
            logprobs: vec![None; end],
            known: prompt_len,
            block: prompt_len..prompt_len,
            steps: vec![],
        };
        canvas.prepare();
        canvas
    }

    /// What the model is to see.
    pub(crate) fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Of how many of the last tokens logits are needed: from the first mask on, or from the token before it.
    pub(crate) fn outputs(&self) -> usize {
        let first = self.masked.iter().position(|masked| *masked);
        first.map_or(0, |first| self.tokens.len() - first + usize::from(self.model.shifted))
    }

    /// Takes the rows of logits of the last [`Canvas::outputs`] tokens, and keeps some of what `guess` makes of a row for a position.
    pub(crate) fn advance(&mut self, rows: &[f32], width: usize, guess: &mut Guesser<'_>) -> Result<(), EngineError> {
        let Some(keep) = self.steps.pop() else { return Ok(()) };
        let first = self.tokens.len() - self.outputs();
        let mut guesses = vec![];
        for position in self.block.clone().filter(|i| self.masked[*i]) {
            if matches!(keep, Keep::Each(share) if share < 1.0 && self.rng.unit() >= f64::from(share)) {
                continue;
            }
            let row = &rows[(position - usize::from(self.model.shifted) - first) * width..][..width];
            let (id, logprobs) = guess(row, position)?;
            let confidence = self.how.remasking.confidence(row, id, &mut self.rng);
            guesses.push(Guess { position, id, confidence, logprobs });
        }
        if let Keep::Best(n) = keep {
            guesses.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
            guesses.truncate(n);
        }
        for Guess { position, id, logprobs, .. } in guesses {
            (self.tokens[position], self.masked[position], self.logprobs[position]) = (id, false, logprobs);
        }
        self.prepare();
        Ok(())
    }

    /// The next token of the answer, where there is no mask.
    pub(crate) fn next_known(&mut self) -> Option<(u32, Option<Logprobs>)> {
        let at = self.known;
        if *self.masked.get(at)? {
            return None;
        }
        self.known += 1;
        Some((self.tokens[at], self.logprobs[at].take()))
    }

    /// Goes on to the next block where one is done.
    fn prepare(&mut self) {
        if !self.steps.is_empty() || self.block.end == self.tokens.len() {
            return;
        }
        let answer = self.tokens.len() - self.prompt;
        let (length, by_times) = (self.how.block(&self.model, answer), self.how.by_times(&self.model));
        self.block = self.block.end..self.tokens.len().min(self.block.end + length);
        let steps = (self.how.steps.unwrap_or(answer) / answer.div_ceil(length)).max(1);
        self.steps = match self.how.remasking {
            Remasking::Origin => self.how.shares(steps, by_times).into_iter().map(Keep::Each).collect(),
            _ => self.how.counts(self.block.len(), steps, by_times).into_iter().map(Keep::Best).collect(),
        };
        self.steps.reverse();
    }
}
