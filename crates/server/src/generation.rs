//! The streams of an engine that make up one answer: one for each choice.

use crate::error::ApiError;
use onebit_engine::{Engine, EngineError, Event, Finish, Logprobs, Request, Stream, SubmitError, Text, Token};
use std::future::poll_fn;
use std::task::{Context, Poll};

/// The choices of an answer that is being made. Dropping it cancels what still runs.
pub(crate) struct Generation {
    streams: Vec<Option<Stream>>,
    /// Which stream is asked first, so that none waits for another's pause.
    turn: usize,
}

impl Generation {
    /// Submits all requests, or none. `source` is the field that the prompt was made of, for errors.
    pub(crate) fn submit(engine: &Engine, requests: impl IntoIterator<Item = Request>, source: &str) -> Result<Self, ApiError> {
        let submit = |request| engine.submit(request).map(Some);
        // Those that were accepted before one that is not are dropped, and so cancelled.
        let streams: Result<_, _> = requests.into_iter().map(submit).collect();
        Ok(Self { streams: streams.map_err(|error| refused(error, source))?, turn: 0 })
    }

    /// Makes vectors of texts, some at a time, so that one request does not fill the queue.
    pub(crate) async fn embed_all(engine: &Engine, texts: Vec<Text>, source: &str) -> Result<Vec<Choice>, ApiError> {
        let at_once = engine.config().queue.clamp(1, 32);
        let mut done = Vec::with_capacity(texts.len());
        let mut texts = texts.into_iter().peekable();
        while texts.peek().is_some() {
            let streams: Result<_, _> = texts.by_ref().take(at_once).map(|text| engine.embed(text).map(Some)).collect();
            let some = Self { streams: streams.map_err(|error| refused(error, source))?, turn: 0 };
            done.extend(some.collect().await?);
        }
        Ok(done)
    }

    /// Waits for the first event, after which an answer can begin. A choice that fails before that is an error.
    pub(crate) async fn begin(mut self) -> Result<Begun, ApiError> {
        match self.next().await {
            Some((_, Event::Failed(error))) => Err(failed(&error)),
            first => Ok(Begun { first, rest: self }),
        }
    }

    /// The next event of any choice, with the choice's index; `None` when all have ended.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<(usize, Event)>> {
        let count = self.streams.len();
        let mut running = false;
        for i in 0..count {
            let index = (self.turn + i) % count;
            let Some(stream) = &mut self.streams[index] else { continue };
            match stream.poll_next(context) {
                Poll::Ready(event) => {
                    self.turn = index + 1;
                    // The engine ends each stream with an event of its own; if not, its thread is gone.
                    let event = event.unwrap_or_else(|| Event::Failed(EngineError::Stopped("a stream ended early".into())));
                    if matches!(event, Event::Finished(_) | Event::Failed(_)) {
                        self.streams[index] = None;
                    }
                    return Poll::Ready(Some((index, event)));
                }
                Poll::Pending => running = true,
            }
        }
        if running { Poll::Pending } else { Poll::Ready(None) }
    }

    pub(crate) async fn next(&mut self) -> Option<(usize, Event)> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Waits for all choices to end.
    pub(crate) async fn collect(mut self) -> Result<Vec<Choice>, ApiError> {
        let mut building: Vec<Building> = self.streams.iter().map(|_| Building::default()).collect();
        while let Some((index, event)) = self.next().await {
            let choice = &mut building[index];
            match event {
                Event::Prompt(logprobs) => choice.prompt = logprobs,
                Event::Embedding(vectors) => choice.vectors = vectors,
                Event::Token(token) => {
                    choice.text.push_str(&token.text);
                    choice.tokens.push(token);
                }
                Event::Finished(finish) => {
                    choice.text.push_str(&finish.text);
                    choice.finish = Some(finish);
                }
                Event::Failed(error) => return Err(failed(&error)),
            }
        }
        building.into_iter().map(Building::done).collect()
    }
}

/// An answer whose first event is there; the only one that it can begin with.
pub(crate) struct Begun {
    first: Option<(usize, Event)>,
    rest: Generation,
}

impl Begun {
    /// As [`Generation::poll_next`].
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<(usize, Event)>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(first)),
            None => self.rest.poll_next(context),
        }
    }
}

/// A choice that is complete.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) text: String,
    pub(crate) tokens: Vec<Token>,
    /// Of the prompt's tokens, where asked for.
    pub(crate) prompt: Vec<Option<Logprobs>>,
    /// Of a text that was embedded: one, or one for each token.
    pub(crate) vectors: Vec<Vec<f32>>,
    pub(crate) finish: Finish,
}

#[derive(Default)]
struct Building {
    text: String,
    tokens: Vec<Token>,
    prompt: Vec<Option<Logprobs>>,
    vectors: Vec<Vec<f32>>,
    finish: Option<Finish>,
}

impl Building {
    fn done(self) -> Result<Choice, ApiError> {
        let Self { text, tokens, prompt, vectors, finish } = self;
        let finish = finish.ok_or_else(|| ApiError::internal("the engine ended a stream without saying why"))?;
        Ok(Choice { text, tokens, prompt, vectors, finish })
    }
}

/// Why a request was not accepted, as an answer.
pub(crate) fn refused(error: SubmitError, source: &str) -> ApiError {
    match error {
        SubmitError::QueueFull { wait, .. } => ApiError::busy(wait),
        SubmitError::TooLong { prompt, limit } => {
            // OpenAI's words: clients look for them.
            let message = format!(
                "This model's maximum context length is {limit} tokens. However, your {source} resulted in {prompt} tokens, and one must be \
                 left for the answer. Please reduce the length of the {source}."
            );
            ApiError::too_large(message).of(source).coded("context_length_exceeded")
        }
        SubmitError::SourceTooLong { prompt, limit } => {
            let message = format!("This model reads at most {limit} tokens. However, your {source} resulted in {prompt} tokens.");
            ApiError::too_large(message).of(source).coded("context_length_exceeded")
        }
        SubmitError::NoEmbeddings => no_embeddings(),
        SubmitError::NoText => {
            ApiError::unable("The model was loaded to make embeddings: start the server without `--embeddings`, or with another model")
        }
        SubmitError::EmptyPrompt => ApiError::invalid(source, format!("`{source}` has no tokens: there is nothing to go on from")),
        SubmitError::Invalid { param: "prompt", message } => ApiError::invalid(source, format!("Invalid value for `{source}`: {message}")),
        SubmitError::Invalid { param, message } => ApiError::invalid(param, format!("Invalid value for `{param}`: {message}")),
        SubmitError::ShuttingDown => ApiError::unavailable("shutting_down", "The server is shutting down"),
        error @ SubmitError::Stopped(_) => ApiError::internal(error),
    }
}

/// Of a model that does something else.
pub(crate) fn no_embeddings() -> ApiError {
    ApiError::unable(
        "The model was not loaded to make embeddings: start the server with `--embeddings`, or with a model that is made for them",
    )
}

/// Why an answer broke off, as an answer or an event.
pub(crate) fn failed(error: &EngineError) -> ApiError {
    match error {
        EngineError::NothingLeft => ApiError::invalid("logit_bias", "`logit_bias` and `ignore_eos` leave no token to choose from"),
        EngineError::Grammar(_) => ApiError::bad_request(error.to_string()).coded("invalid_value"),
        EngineError::ShuttingDown => ApiError::unavailable("shutting_down", "The server was shut down before the answer was complete"),
        EngineError::Deadline(_) => ApiError::unavailable("deadline", format!("The answer was {error}")),
        EngineError::Logits { .. } | EngineError::States { .. } | EngineError::Step(_) | EngineError::Stopped(_) => {
            ApiError::internal(error)
        }
    }
}
