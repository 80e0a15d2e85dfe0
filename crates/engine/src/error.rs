use std::time::Duration;

/// Why a request was not accepted. The engine has done no work for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// As many requests wait as are allowed to; the client may try again.
    #[error("{limit} requests are waiting already, which is the limit: try again later")]
    QueueFull {
        /// [`Config::queue`](crate::Config::queue).
        limit: usize,
        /// In how long there may be room again, by how long requests took so far; zero where none has ended yet.
        wait: Duration,
    },
    /// The prompt leaves no room for a single new token.
    #[error("the prompt has {prompt} tokens, but the context holds {limit} and one must be left for the answer")]
    TooLong {
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens that a sequence may have, prompt and answer.
        limit: usize,
    },
    /// The model cannot read all of the prompt, or of a text that is to be embedded.
    #[error("the prompt has {prompt} tokens, but the model reads at most {limit}")]
    SourceTooLong {
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens that it may have.
        limit: usize,
    },
    /// The engine makes embeddings only.
    #[error("the model was loaded to make embeddings, and writes no text")]
    NoText,
    /// The engine writes text only.
    #[error("the model was loaded to write text, and makes no embeddings")]
    NoEmbeddings,
    /// A model needs at least one token to go on from.
    #[error("the prompt is empty: at least one token is needed")]
    EmptyPrompt,
    /// A parameter is out of its range.
    #[error("{param}: {message}")]
    Invalid {
        /// The parameter, as the API spells it.
        param: &'static str,
        /// What was given and what is allowed.
        message: String,
    },
    /// [`Engine::shutdown`](crate::Engine::shutdown) was called.
    #[error("the engine is shutting down")]
    ShuttingDown,
    /// The executable fails at everything; the engine has stopped.
    #[error("the engine has stopped: {0}")]
    Stopped(String),
}

/// Why a stream failed after its request had been accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The model gave NaN or an infinity: a broken weight, or an overflow in the device.
    #[error("the model gave {value} as the logit of token {token} at position {position}: its weights or the device are at fault")]
    Logits {
        /// The first such token.
        token: u32,
        /// Position whose successor was to be chosen.
        position: usize,
        /// `NaN`, `inf` or `-inf`.
        value: String,
    },
    /// The model gave NaN or an infinity as a hidden state.
    #[error("the model gave {value} as a hidden state at position {position}: its weights or the device are at fault")]
    States {
        /// The position.
        position: usize,
        /// `NaN`, `inf` or `-inf`.
        value: String,
    },
    /// Every token was ruled out by `logit_bias` and `ignore_eos`.
    #[error("no token is left to choose from: logit_bias and ignore_eos rule all of them out")]
    NothingLeft,
    /// The answer cannot be held to its grammar any further.
    #[error("the answer cannot be held to its grammar: {0}")]
    Grammar(String),
    /// The step that this sequence was in failed, and failed again with this sequence alone.
    #[error("the step failed: {0}")]
    Step(String),
    /// The executable fails at everything; the engine has stopped.
    #[error("the engine has stopped: {0}")]
    Stopped(String),
    /// It took longer than the request or the configuration allows.
    #[error("not finished within {0:?}")]
    Deadline(Duration),
    /// The engine was shut down, and the time given to running streams was over.
    #[error("the engine was shut down before the answer was complete")]
    ShuttingDown,
}
