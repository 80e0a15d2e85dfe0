use crate::EngineError;
use std::time::Duration;

/// What a [`Stream`](crate::Stream) yields: perhaps one `Prompt` or `Embedding`, any number of `Token`s, then one `Finished` or `Failed`.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// How likely the prompt's own tokens were, one entry for each token of the prompt; the first has none before it and so
    /// is `None`. Sent once, before any token, and only if [`Request::prompt_logprobs`](crate::Request::prompt_logprobs) asks.
    Prompt(Vec<Option<Logprobs>>),
    /// The vectors of a text that was to be [embedded](crate::Engine::embed): one, or one for each token. Sent once.
    Embedding(Vec<Vec<f32>>),
    /// A token was chosen.
    Token(Token),
    /// The end, for a reason that is no fault.
    Finished(Finish),
    /// The end, through a fault.
    Failed(EngineError),
}

/// A chosen token.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// Its id.
    pub id: u32,
    /// The text that can be released now: whole characters only, and never a part of a stop string. It may be empty, and it
    /// may hold text of tokens before this one that had to wait.
    pub text: String,
    /// If the request asks for them.
    pub logprobs: Option<Logprobs>,
}

/// Natural logarithms of probabilities, by the softmax of the model's own logits: before penalties, truncation and temperature.
#[derive(Clone, Debug, PartialEq)]
pub struct Logprobs {
    /// Of the token itself.
    pub logprob: f32,
    /// The most probable tokens, as many as asked for, best first; of equals the lower id first.
    pub top: Vec<TokenLogprob>,
}

/// A token and the logarithm of its probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenLogprob {
    /// The token.
    pub id: u32,
    /// ln of its probability.
    pub logprob: f32,
}

/// How a stream ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Finish {
    /// Why.
    pub reason: FinishReason,
    /// Text that was held back as the possible beginning of a stop string, and belongs to the answer after all.
    pub text: String,
    /// The stop string that was found; none if it was the model's own end token.
    pub stop: Option<String>,
    /// Tokens.
    pub usage: Usage,
    /// Times.
    pub timings: Timings,
}

/// Why a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model's end token, or a stop string.
    Stop,
    /// As many tokens as were allowed, or the context is full.
    Length,
    /// [`Stream::cancel`](crate::Stream::cancel).
    Cancelled,
}

/// Tokens of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Of the prompt.
    pub prompt: usize,
    /// Of the prompt, those that did not have to be computed.
    pub cached: usize,
    /// Chosen, an end token included.
    pub completion: usize,
}

/// Where the time of a request went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// From submission until it got a place.
    pub queue: Duration,
    /// From there until the first token was chosen.
    pub prompt: Duration,
    /// From there until the end.
    pub decode: Duration,
}
