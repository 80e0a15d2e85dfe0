use crate::histogram::Histogram;
use crate::request::Sampling;
use crate::{Finish, FinishReason, Timings};
use serde::Serialize;
use std::sync::Arc;

/// What the engine is doing and has done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Sequences that have a place.
    pub running: usize,
    /// Requests that wait for one, those that lost theirs for lack of pages included.
    pub waiting: usize,
    /// Most sequences that can run at once.
    pub max_sequences: usize,
    /// Pages of the key/value cache in use.
    pub pages_used: usize,
    /// Pages of the key/value cache.
    pub pages: usize,
    /// Tokens in a page.
    pub page: usize,
    /// Slots of fixed states in use.
    pub slots_used: usize,
    /// Slots of fixed states.
    pub slots: usize,
    /// Requests accepted since the start.
    pub requests: u64,
    /// Of these, finished.
    pub finished: u64,
    /// Of the finished, those that ended for lack of room: `max_tokens`, or the context.
    pub cut: u64,
    /// Of these, cancelled by their callers.
    pub cancelled: u64,
    /// Of these, failed.
    pub failed: u64,
    /// Requests refused because the queue was full.
    pub refused: u64,
    /// Steps done.
    pub steps: u64,
    /// Sequences in all steps together.
    pub sequence_steps: u64,
    /// Prompt tokens computed, those computed again after a preemption included.
    pub prompt_tokens: u64,
    /// Prompt tokens of which the beginning was looked for among what is known.
    pub asked_tokens: u64,
    /// Of these, those that did not have to be computed, because others had the same beginning.
    pub cached_tokens: u64,
    /// Tokens chosen.
    pub completion_tokens: u64,
    /// Tokens of the longest sequence so far.
    pub longest: usize,
    /// How often a sequence gave up its place to another.
    pub preemptions: u64,
    /// Steps that failed.
    pub failed_steps: u64,
    /// Time spent in the executable, in microseconds.
    pub step_microseconds: u64,
    /// Time from their places to their first tokens of all requests that have finished, in microseconds.
    pub prompt_microseconds: u64,
    /// Time from there to their ends, in microseconds.
    pub decode_microseconds: u64,
    /// Tokens in the last step.
    pub last_batch: usize,
    /// How long things took.
    pub times: Times,
}

impl Stats {
    /// Counts a request that has ended well.
    pub(crate) fn count(&mut self, finish: &Finish) {
        let Timings { queue, prompt, decode } = finish.timings;
        self.finished += 1;
        self.cut += u64::from(finish.reason == FinishReason::Length);
        self.prompt_microseconds += prompt.as_micros() as u64;
        self.decode_microseconds += decode.as_micros() as u64;
        self.times.request.add_time(queue + prompt + decode);
    }
}

/// How long things took, in microseconds, and how much a step did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Times {
    /// From a request's submission to its place.
    pub queue: Histogram,
    /// From its submission to its first token.
    pub first_token: Histogram,
    /// From a token to the next of the same request.
    pub between_tokens: Histogram,
    /// From its submission to its end; only of those that ended well.
    pub request: Histogram,
    /// Tokens in a step.
    pub batch: Histogram,
}

impl Default for Times {
    fn default() -> Self {
        let times = Histogram::of_times();
        Self { queue: times, first_token: times, between_tokens: times, request: times, batch: Histogram::of_tokens() }
    }
}

/// One of the places in which sequences run, of which there are [`Config::max_sequences`](crate::Config::max_sequences).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlotStatus {
    /// Whether a sequence runs there. Otherwise all below is about the last that did.
    pub is_running: bool,
    /// Its number, in order of submission; none where none has run yet.
    pub task: Option<u64>,
    /// Tokens of its prompt.
    pub prompt: usize,
    /// Of these, those that did not have to be computed.
    pub cached: usize,
    /// Tokens in the caches, of prompt and answer.
    pub computed: usize,
    /// Tokens chosen.
    pub decoded: usize,
    /// Most tokens that it may have, prompt and answer.
    pub end: usize,
    /// How its tokens are chosen.
    pub sampling: Arc<Sampling>,
}
