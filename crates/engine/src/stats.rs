use serde::Serialize;

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
    /// Of these, cancelled by their callers.
    pub cancelled: u64,
    /// Of these, failed.
    pub failed: u64,
    /// Requests refused because the queue was full.
    pub refused: u64,
    /// Steps done.
    pub steps: u64,
    /// Prompt tokens computed, those computed again after a preemption included.
    pub prompt_tokens: u64,
    /// Prompt tokens that did not have to be computed, because others had the same beginning.
    pub cached_tokens: u64,
    /// Tokens chosen.
    pub completion_tokens: u64,
    /// How often a sequence gave up its pages to an older one.
    pub preemptions: u64,
    /// Steps that failed.
    pub failed_steps: u64,
    /// Time spent in the executable, in microseconds.
    pub step_microseconds: u64,
    /// Tokens in the last step.
    pub last_batch: usize,
}
