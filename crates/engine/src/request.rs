//! What a caller asks for, and the ranges that it must keep to.
//!
//! Every parameter has a value at which it does nothing, and those are the defaults, except for the temperature of 1: the
//! default draws from the model's own distribution.

use crate::diffusion::USUAL_ANSWER;
use crate::given::Given;
use crate::{Diffusion, SubmitError};
use onebit_grammar::Grammar;
use onebit_plan::{AXES, Answering};
use std::sync::Arc;
use std::time::Duration;

/// Stop strings in one request.
pub const MAX_STOPS: usize = 64;
/// Bytes in one stop string or sequence breaker.
pub const MAX_STOP_BYTES: usize = 4096;
/// Sequence breakers in one request.
pub const MAX_BREAKERS: usize = 64;
/// Entries of `logit_bias`.
pub const MAX_LOGIT_BIAS: usize = 4096;
/// Alternatives that are reported for each token.
pub const MAX_LOGPROBS: usize = 100;

/// One sequence to be continued.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Token ids, at least one and fewer than the context holds.
    pub prompt: Vec<u32>,
    /// Rows that stand in for some of these tokens, in order: images.
    pub given: Vec<Given>,
    /// The prompt tokens' positions in time, height, width and beyond, for models whose rotations have several axes; empty where positions
    /// simply count on. What follows the prompt counts on from the largest.
    pub axes: Arc<[[u32; AXES]]>,
    /// Where the model has an encoder, tokens that the answer is to begin with, behind the one that all its answers begin with: a
    /// language, for models that translate into several. They are not chosen, and not part of the answer's text. Empty: as the model has it.
    pub answer_start: Vec<u32>,
    /// Most tokens to choose; `None` goes on until the model ends or the context is full. 0 only reads the prompt.
    pub max_tokens: Option<usize>,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// Strings that end the answer; the first to be complete does, and is not part of the text.
    pub stop: Vec<String>,
    /// Never choose an end token.
    pub ignore_eos: bool,
    /// Report logprobs for each chosen token, with so many alternatives, from 0 to [`MAX_LOGPROBS`].
    pub logprobs: Option<usize>,
    /// Report logprobs of the prompt's tokens ([`Event::Prompt`](crate::Event::Prompt)), with so many alternatives.
    pub prompt_logprobs: Option<usize>,
    /// Leave the text of special tokens out of the answer.
    pub skip_special: bool,
    /// Special tokens whose text is part of the answer all the same.
    pub shown: Arc<[u32]>,
    /// How long it may wait and run, instead of [`Config::timeout`](crate::Config::timeout).
    pub timeout: Option<Duration>,
    /// Requests of a lower number go before those of a higher, and where there is no place left, one that runs makes way for a lower one,
    /// to go on later with the same tokens. Of the same number, the older goes first.
    pub priority: i32,
    /// How the answer is made, where the model makes it by masked diffusion; as it is by default for others.
    pub diffusion: Diffusion,
    /// What the answer is held to. It ends when nothing can follow.
    pub grammar: Option<Grammar>,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            prompt: Vec::new(),
            given: Vec::new(),
            axes: Arc::default(),
            answer_start: Vec::new(),
            max_tokens: None,
            sampling: Sampling::default(),
            stop: Vec::new(),
            ignore_eos: false,
            logprobs: None,
            prompt_logprobs: None,
            skip_special: true,
            shown: Arc::default(),
            timeout: None,
            priority: 0,
            diffusion: Diffusion::default(),
            grammar: None,
        }
    }
}

/// How a token is chosen from the logits. The steps and their order are in [`sampler`](crate::sampler).
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// Divides the logits, from 0 to 100. 0 is greedy: the most probable token, of equals the lower id.
    pub temperature: f32,
    /// Keep the k most probable; 0 keeps all.
    pub top_k: usize,
    /// Keep the most probable that together reach this probability, above 0 and up to 1.
    pub top_p: f32,
    /// Keep those at least this times as probable as the most probable one, from 0 to 1.
    pub min_p: f32,
    /// Keep those whose surprise is nearest to the entropy, until they reach this probability, above 0 and up to 1.
    pub typical_p: f32,
    /// Keep those within so many standard deviations of the greatest logit, from 0 up; 0 keeps all.
    pub top_n_sigma: f32,
    /// Divides (multiplies, if negative) the logits of tokens seen, from 0.01 to 100; 1 does nothing.
    pub repeat_penalty: f32,
    /// How far back the three penalties look, over prompt and answer; `None` is all the way, 0 turns them off.
    pub repeat_last_n: Option<usize>,
    /// Subtracted from the logits of tokens seen, from -100 to 100.
    pub presence_penalty: f32,
    /// Subtracted from the logits of tokens seen, for each time, from -100 to 100.
    pub frequency_penalty: f32,
    /// Against repetition of whole passages.
    pub dry: Dry,
    /// Exclude top choices.
    pub xtc: Xtc,
    /// Steered surprise, in place of truncation.
    pub mirostat: Mirostat,
    /// Where the random numbers start. The same seed, prompt and parameters give the same tokens. `None` takes a new one.
    pub seed: Option<u64>,
    /// Added to logits, before everything else; minus infinity forbids a token. The last entry for a token counts.
    pub logit_bias: Vec<(u32, f32)>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            typical_p: 1.0,
            top_n_sigma: 0.0,
            repeat_penalty: 1.0,
            repeat_last_n: Some(64),
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            dry: Dry::default(),
            xtc: Xtc::default(),
            mirostat: Mirostat::default(),
            seed: None,
            logit_bias: Vec::new(),
        }
    }
}

/// "Don't repeat yourself": a token that would prolong a repetition of `n` tokens loses `multiplier * base^(n - allowed_length)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Dry {
    /// From 0 to 100; 0 turns it off.
    pub multiplier: f32,
    /// From 1 to 100.
    pub base: f32,
    /// The shortest repetition that is penalised, at least 1.
    pub allowed_length: usize,
    /// How far back it looks, over prompt and answer; `None` is all the way, 0 turns it off.
    pub penalty_last_n: Option<usize>,
    /// Text over which no repetition reaches.
    pub sequence_breakers: Vec<String>,
}

impl Default for Dry {
    fn default() -> Self {
        Self {
            multiplier: 0.0,
            base: 1.75,
            allowed_length: 2,
            penalty_last_n: None,
            sequence_breakers: ["\n", ":", "\"", "*"].map(String::from).to_vec(),
        }
    }
}

/// "Exclude top choices": of all tokens at least as probable as the threshold, only the least probable is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Xtc {
    /// How often this is done, from 0 to 1; 0 turns it off.
    pub probability: f32,
    /// From 0 to 1; above 0.5 it can do nothing.
    pub threshold: f32,
}

impl Default for Xtc {
    fn default() -> Self {
        Self { probability: 0.0, threshold: 0.1 }
    }
}

/// Mirostat (arXiv:2007.14966): keeps the surprise of the text near a target. It takes the place of `top_n_sigma`, `top_k`,
/// `typical_p`, `top_p`, `min_p` and `xtc`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mirostat {
    /// 0 is off, 2 is the paper's second version.
    pub mode: u8,
    /// Target surprise in bits, above 0 and up to 100.
    pub tau: f32,
    /// How fast it is steered there, above 0 and up to 1.
    pub eta: f32,
}

impl Default for Mirostat {
    fn default() -> Self {
        Self { mode: 0, tau: 5.0, eta: 0.1 }
    }
}

/// A text, or a pair of texts, of which vectors are to be made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Text {
    /// Token ids, at least one and at most as many as the context holds.
    pub ids: Vec<u32>,
    /// Rows that some of these tokens are given besides, in order.
    pub given: Vec<Given>,
    /// How long it may wait and run, instead of [`Config::timeout`](crate::Config::timeout).
    pub timeout: Option<Duration>,
}

impl From<Vec<u32>> for Text {
    fn from(ids: Vec<u32>) -> Self {
        Self { ids, ..Self::default() }
    }
}

impl Text {
    /// Two texts, the second of which begins at `start`; each token of it is given the row `second`, where there is one.
    pub fn pair(ids: Vec<u32>, start: usize, second: Option<&[f32]>) -> Self {
        let len = ids.len().saturating_sub(start);
        let run = |row: &[f32]| Given { start, len, rows: row.repeat(len).into(), first: 0, whole: false };
        let given = second.filter(|_| len > 0).map(run).into_iter().collect();
        Self { ids, given, timeout: None }
    }
}

impl Request {
    /// Checks every parameter against its range. `vocabulary` is the number of logits, `context` the tokens of one sequence.
    pub fn validate(&self, vocabulary: usize, context: usize) -> Result<(), SubmitError> {
        if !self.given.is_empty() && self.prompt_logprobs.is_some() {
            return Err(invalid("prompt_logprobs", "the tokens of images have no logprobs".into()));
        }
        if self.prompt.len() >= context {
            return Err(SubmitError::TooLong { prompt: self.prompt.len(), limit: context });
        }
        self.validate_prompt(vocabulary)?;
        strings("stop", &self.stop, MAX_STOPS)?;
        count("logprobs", self.logprobs.unwrap_or(0), MAX_LOGPROBS, "alternatives")?;
        count("prompt_logprobs", self.prompt_logprobs.unwrap_or(0), MAX_LOGPROBS, "alternatives")?;
        self.diffusion.validate()?;
        self.sampling.validate(vocabulary)
    }

    /// Checks that there are tokens, and that the vocabulary has them.
    pub(crate) fn validate_prompt(&self, vocabulary: usize) -> Result<(), SubmitError> {
        if self.prompt.is_empty() {
            return Err(SubmitError::EmptyPrompt);
        }
        match self.prompt.iter().find(|id| **id as usize >= vocabulary) {
            Some(id) => Err(invalid("prompt", format!("token {id} is not in the vocabulary of {vocabulary}"))),
            None => Ok(()),
        }
    }

    /// Refuses settings that say nothing to a model that makes one token after the other.
    pub(crate) fn refuse_diffusion(&self) -> Result<(), SubmitError> {
        let (given, usual) = (&self.diffusion, Diffusion::default());
        let set = [
            ("steps", given.steps != usual.steps),
            ("block_length", given.block != usual.block),
            ("remasking", given.remasking != usual.remasking),
            ("eps", given.eps != usual.eps),
        ];
        match set.iter().find(|(_, set)| *set) {
            Some((param, _)) => Err(invalid(param, "this model makes one token after the other, not an answer out of masks".into())),
            None => Ok(()),
        }
    }

    /// Turns the prompt into the source that a model of an encoder reads, at most `limit` tokens, and gives it; what is left as prompt
    /// is what the answer begins with.
    pub(crate) fn take_source(&mut self, how: Option<&Answering>, limit: usize) -> Result<Vec<u32>, SubmitError> {
        let Some(how) = how else {
            return match self.answer_start.is_empty() {
                true => Ok(vec![]),
                false => Err(invalid(
                    "answer_start",
                    "this model continues its prompt; only one that reads the prompt first can begin otherwise".into(),
                )),
            };
        };
        if self.prompt_logprobs.is_some() {
            return Err(invalid("prompt_logprobs", "a model of an encoder and a decoder says nothing of the prompt's tokens".into()));
        }
        if !self.given.is_empty() || !self.axes.is_empty() {
            return Err(invalid("images", "an encoder reads text only".into()));
        }
        if self.prompt.is_empty() {
            return Err(SubmitError::EmptyPrompt);
        }
        if self.prompt.len() > limit {
            return Err(SubmitError::SourceTooLong { prompt: self.prompt.len(), limit });
        }
        let (first, usual) = how.start.split_at(1.min(how.start.len()));
        let rest = if self.answer_start.is_empty() { usual } else { &self.answer_start };
        let start = [first, rest].concat();
        Ok(std::mem::replace(&mut self.prompt, start))
    }

    /// Fits the request to a model of masked diffusion, which makes at most `answer` tokens at once.
    pub(crate) fn fit_diffusion(&mut self, answer: usize) -> Result<(), SubmitError> {
        if self.prompt_logprobs.is_some() {
            return Err(invalid("prompt_logprobs", "a model of masked diffusion says nothing of the prompt's tokens".into()));
        }
        if self.grammar.is_some() {
            return Err(invalid(
                "grammar",
                "a model of masked diffusion does not write from left to right, so it cannot be held to a form".into(),
            ));
        }
        self.max_tokens = Some(self.max_tokens.unwrap_or(USUAL_ANSWER).min(answer));
        Ok(())
    }
}

impl Sampling {
    /// Checks every parameter against its range.
    pub fn validate(&self, vocabulary: usize) -> Result<(), SubmitError> {
        range("temperature", self.temperature, 0.0, 100.0)?;
        positive("top_p", self.top_p, 1.0)?;
        range("min_p", self.min_p, 0.0, 1.0)?;
        positive("typical_p", self.typical_p, 1.0)?;
        range("top_n_sigma", self.top_n_sigma, 0.0, 1000.0)?;
        range("repeat_penalty", self.repeat_penalty, 0.01, 100.0)?;
        range("presence_penalty", self.presence_penalty, -100.0, 100.0)?;
        range("frequency_penalty", self.frequency_penalty, -100.0, 100.0)?;
        range("dry_multiplier", self.dry.multiplier, 0.0, 100.0)?;
        range("dry_base", self.dry.base, 1.0, 100.0)?;
        if self.dry.allowed_length == 0 {
            return Err(invalid("dry_allowed_length", "0 was given; it must be at least 1".into()));
        }
        strings("dry_sequence_breakers", &self.dry.sequence_breakers, MAX_BREAKERS)?;
        range("xtc_probability", self.xtc.probability, 0.0, 1.0)?;
        range("xtc_threshold", self.xtc.threshold, 0.0, 1.0)?;
        if !matches!(self.mirostat.mode, 0 | 2) {
            let given = self.mirostat.mode;
            return Err(invalid("mirostat", format!("{given} was given; 0 (off) and 2 are supported")));
        }
        positive("mirostat_tau", self.mirostat.tau, 100.0)?;
        positive("mirostat_eta", self.mirostat.eta, 1.0)?;
        count("logit_bias", self.logit_bias.len(), MAX_LOGIT_BIAS, "entries")?;
        for &(id, bias) in &self.logit_bias {
            if id as usize >= vocabulary {
                return Err(invalid("logit_bias", format!("token {id} is not in the vocabulary of {vocabulary}")));
            }
            if bias.is_nan() || bias == f32::INFINITY {
                return Err(invalid("logit_bias", format!("{bias} was given for token {id}; it must be a number or minus infinity")));
            }
        }
        Ok(())
    }
}

fn invalid(param: &'static str, message: String) -> SubmitError {
    SubmitError::Invalid { param, message }
}

// Written so that NaN is out of every range.
fn range(param: &'static str, value: f32, low: f32, high: f32) -> Result<(), SubmitError> {
    if value >= low && value <= high {
        return Ok(());
    }
    Err(invalid(param, format!("{value} was given; it must be from {low} to {high}")))
}

fn positive(param: &'static str, value: f32, high: f32) -> Result<(), SubmitError> {
    if value > 0.0 && value <= high {
        return Ok(());
    }
    Err(invalid(param, format!("{value} was given; it must be above 0 and at most {high}")))
}

fn count(param: &'static str, given: usize, limit: usize, of: &str) -> Result<(), SubmitError> {
    if given <= limit {
        return Ok(());
    }
    Err(invalid(param, format!("{given} {of} were given; at most {limit} are allowed")))
}

fn strings(param: &'static str, given: &[String], limit: usize) -> Result<(), SubmitError> {
    count(param, given.len(), limit, "strings")?;
    for s in given {
        if s.is_empty() {
            return Err(invalid(param, "an empty string was given".into()));
        }
        if s.len() > MAX_STOP_BYTES {
            return Err(invalid(param, format!("a string of {} bytes was given; at most {MAX_STOP_BYTES} are allowed", s.len())));
        }
    }
    Ok(())
}
