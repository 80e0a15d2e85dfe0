use onebit_plan::{Answering, Denoising, Limits, Pool, Pooling};
use std::sync::Arc;
use std::time::Duration;

/// How an [`Engine`](crate::Engine) shares its executable among requests.
///
/// Whatever asks for more than the executable was made for ([`Limits`](onebit_plan::Limits)) is lowered to what it has;
/// [`Engine::config`](crate::Engine::config) gives what is in force.
#[derive(Clone, Debug, PartialEq)]
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
    /// Take over what is already computed of a prompt's beginning, page by page.
    pub prefix_reuse: bool,
    /// Whether the model has states of fixed size ([`Plan::fixed_state`](onebit_plan::Plan::fixed_state) is not 0): then a beginning can only
    /// be taken over up to where these were copied ([`cache`](crate::cache)). Without this, such a model would give wrong answers.
    pub fixed_state: bool,
    /// Of a model that makes its answers by masked diffusion ([`Plan::denoising`](onebit_plan::Plan::denoising)). Its sequences are
    /// computed whole in each step, so the context is never more than a batch, and an answer never more than the rows of logits.
    pub denoising: Option<Denoising>,
    /// Of a model of an encoder and a decoder ([`Plan::answering`](onebit_plan::Plan::answering)): a request's prompt is the source, which
    /// is read whole, so that it is never longer than a batch; the context bounds source and answer each. Nothing of a prompt's
    /// beginning is taken over, as what is made of it depends on all of it.
    pub answering: Option<Answering>,
    /// Of an executable that gives hidden states ([`Plan::gives_hidden`](onebit_plan::Plan::gives_hidden)): what embeddings are made of
    /// them. Such an engine only [embeds](crate::Engine::embed).
    pub pooling: Option<Arc<Pooling>>,
    /// Whether tokens see those behind them ([`Plan::looks_ahead`](onebit_plan::Plan::looks_ahead)). A text is then computed whole in one
    /// step, so the context is never more than a batch, nor than the rows of output that the pooling needs.
    pub whole: bool,
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
            fixed_state: false,
            denoising: None,
            answering: None,
            pooling: None,
            whole: false,
        }
    }
}

impl Config {
    /// Lowered to what the executable has, and with at least one of everything but places in the queue.
    pub(crate) fn within(mut self, limits: &Limits) -> Self {
        self.max_sequences = self.max_sequences.min(limits.slots).min(limits.batch).min(limits.outputs).max(1);
        self.context = self.context.min(limits.pages.saturating_mul(limits.page));
        if self.is_whole() || self.answering.is_some() {
            self.context = self.context.min(limits.batch);
            self.prefix_reuse = false;
        }
        if self.whole && self.pooling.as_ref().is_some_and(|pooling| pooling.pool != Pool::Last) {
            self.context = self.context.min(limits.outputs);
        }
        // At least a token for every sequence, so that sharing leaves no prompt without.
        self.prompt_chunk = self.prompt_chunk.clamp(self.max_sequences, limits.batch.max(self.max_sequences));
        self
    }

    /// Whether sequences are computed whole in one step.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole || self.denoising.is_some()
    }
}
