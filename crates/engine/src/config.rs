use onebit_plan::{Answering, Denoising, Limits};
use std::time::Duration;

/// How an [`Engine`](crate::Engine) shares its executable among requests.
///
/// Whatever asks for more than the executable was made for ([`Limits`](onebit_plan::Limits)) is lowered to what it has;
/// [`Engine::config`](crate::Engine::config) gives what is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Sequences that run at once. Each needs a slot, a token of the batch and a row of logits.
    pub max_sequences: usize,
    /// Tokens of one sequence, prompt and completion together. Never more than the pages of the cache hold, so that every
    /// accepted request can run, if need be alone.
    pub context: usize,
    /// Prompt tokens in one step, over all sequences: how long a prompt can hold up the streams that are decoding.
    pub prompt_chunk: usize,
    /// Requests that may wait for a place before more are refused with [`SubmitError::QueueFull`](crate::SubmitError::QueueFull).
    pub queue: usize,
    /// How long a request may wait and run before it fails with [`EngineError::Deadline`](crate::EngineError::Deadline);
    /// a request's own [`timeout`](crate::Request::timeout) comes before it. `None` is for ever.
    pub timeout: Option<Duration>,
    /// Take over what is already computed of a prompt's beginning, page by page. Only for models all of whose states are keys and
    /// values ([`Plan::fixed_state`](onebit_plan::Plan::fixed_state) is 0): others would give wrong answers.
    pub prefix_reuse: bool,
    /// Of a model that makes its answers by masked diffusion ([`Plan::denoising`](onebit_plan::Plan::denoising)). Its sequences are
    /// computed whole in each step, so the context is never more than a batch, and an answer never more than the rows of logits.
    pub denoising: Option<Denoising>,
    /// Of a model of an encoder and a decoder ([`Plan::answering`](onebit_plan::Plan::answering)): a request's prompt is the source, which
    /// is read whole, so that it is never longer than a batch; the context bounds source and answer each. Nothing of a prompt's
    /// beginning is taken over, as what is made of it depends on all of it.
    pub answering: Option<Answering>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_sequences: 8,
            context: usize::MAX,
            prompt_chunk: 512,
            queue: 256,
            timeout: None,
            prefix_reuse: false,
            denoising: None,
            answering: None,
        }
    }
}

impl Config {
    /// Lowered to what the executable has, and with at least one of everything but places in the queue.
    pub(crate) fn within(mut self, limits: &Limits) -> Self {
        self.max_sequences = self.max_sequences.min(limits.slots).min(limits.batch).min(limits.outputs).max(1);
        self.context = self.context.min(limits.pages.saturating_mul(limits.page));
        if self.denoising.is_some() || self.answering.is_some() {
            self.context = self.context.min(limits.batch);
            self.prefix_reuse = false;
        }
        // At least a token for every sequence, so that sharing leaves no prompt without.
        self.prompt_chunk = self.prompt_chunk.clamp(self.max_sequences, limits.batch.max(self.max_sequences));
        self
    }
}
