//! Parts that the answers of several endpoints share.

use crate::error::{ApiError, fresh_id, unix_time};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use onebit_engine::{Finish, FinishReason, Logprobs, TokenLogprob};
use onebit_text::Tokenizer;
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::time::Duration;

/// OpenAI's `usage`.
#[derive(Clone, Copy, Debug, Default, Serialize, PartialEq)]
pub(crate) struct Usage {
    prompt_tokens: usize,
    completion_tokens: usize,
    total_tokens: usize,
    prompt_tokens_details: PromptDetails,
}

#[derive(Clone, Copy, Debug, Default, Serialize, PartialEq)]
struct PromptDetails {
    cached_tokens: usize,
}

impl Usage {
    /// Adds a choice. The prompt counts once for all choices made of it, so only with the `first` of them.
    pub(crate) fn add(&mut self, finish: &Finish, first: bool) {
        if first {
            self.prompt_tokens += finish.usage.prompt;
            self.prompt_tokens_details.cached_tokens += finish.usage.cached;
        }
        self.completion_tokens += finish.usage.completion;
        self.total_tokens = self.prompt_tokens + self.completion_tokens;
    }
}

/// llama-server's `timings`.
#[derive(Clone, Copy, Debug, Serialize, PartialEq)]
pub(crate) struct Timings {
    cache_n: usize,
    prompt_n: usize,
    prompt_ms: f64,
    prompt_per_token_ms: f64,
    prompt_per_second: f64,
    predicted_n: usize,
    predicted_ms: f64,
    predicted_per_token_ms: f64,
    predicted_per_second: f64,
}

impl Timings {
    /// Of one choice. The first token comes out of the prompt's last step, and the time of decoding is that of all others:
    /// llama-server counts the same way.
    pub(crate) fn of(finish: &Finish) -> Self {
        let prompt_n = finish.usage.prompt.saturating_sub(finish.usage.cached);
        let predicted_n = finish.usage.completion;
        let (prompt_ms, prompt_per_token_ms, prompt_per_second) = rates(prompt_n, finish.timings.prompt);
        let (predicted_ms, predicted_per_token_ms, predicted_per_second) = rates(predicted_n, finish.timings.decode);
        Self {
            cache_n: finish.usage.cached,
            prompt_n,
            prompt_ms,
            prompt_per_token_ms,
            prompt_per_second,
            predicted_n,
            predicted_ms,
            predicted_per_token_ms,
            predicted_per_second,
        }
    }
}

/// Milliseconds, milliseconds for each token, tokens for each second; 0 in place of what is not defined.
fn rates(count: usize, time: Duration) -> (f64, f64, f64) {
    let (count, ms) = (count as f64, time.as_secs_f64() * 1e3);
    let ratio = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
    (ms, ratio(ms, count), ratio(count * 1e3, ms))
}

/// What is the same in all chunks of an answer.
pub(crate) struct Head {
    id: String,
    object: &'static str,
    created: u64,
    model: String,
}

impl Head {
    pub(crate) fn new(id_prefix: &str, object: &'static str, model: &str) -> Self {
        Self { id: fresh_id(id_prefix), object, created: unix_time(), model: model.to_string() }
    }

    /// An answer, or a chunk of one. `usage` is left out, null, or there.
    pub(crate) fn with<'a, C>(&'a self, choices: &'a [C], usage: Option<Option<Usage>>, timings: Option<Timings>) -> Envelope<'a, C> {
        let Self { id, object, created, model } = self;
        Envelope { id, object, created: *created, model, system_fingerprint: FINGERPRINT, choices, usage, timings }
    }
}

/// What OpenAI's endpoints for generation answer, whole or in chunks.
#[derive(Serialize)]
pub(crate) struct Envelope<'a, C> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    system_fingerprint: &'static str,
    choices: &'a [C],
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Option<Usage>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timings: Option<Timings>,
}

/// An answer in JSON.
pub(crate) fn json(value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(text) => ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], text).into_response(),
        Err(error) => ApiError::internal(error).into_response(),
    }
}

/// OpenAI's `finish_reason`.
pub(crate) fn reason(finish: &Finish) -> &'static str {
    match finish.reason {
        FinishReason::Length => "length",
        // Nobody reads the answer of a cancelled request.
        FinishReason::Stop | FinishReason::Cancelled => "stop",
    }
}

/// What `system_fingerprint` says.
const FINGERPRINT: &str = concat!("1bit-", env!("CARGO_PKG_VERSION"));

/// A token's bytes: those that it stands for, or its name where it is a mark.
pub(crate) fn token_bytes(tokenizer: &Tokenizer, id: u32) -> Cow<'_, [u8]> {
    match tokenizer.token_bytes(id) {
        Some(bytes) if !bytes.is_empty() => Cow::Borrowed(bytes),
        _ => match tokenizer.token_text(id) {
            Some(Cow::Borrowed(text)) => Cow::Borrowed(text.as_bytes()),
            Some(Cow::Owned(text)) => Cow::Owned(text.into_bytes()),
            None => Cow::Borrowed(&[]),
        },
    }
}

/// A token with its logarithm of probability, as in `logprobs.content` of a chat.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ChatLogprob {
    token: String,
    logprob: f32,
    bytes: Vec<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_logprobs: Option<Vec<ChatLogprob>>,
}

impl ChatLogprob {
    pub(crate) fn new(tokenizer: &Tokenizer, id: u32, logprobs: &Logprobs) -> Self {
        let top = logprobs.top.iter().map(|t| Self::bare(tokenizer, t.id, t.logprob)).collect();
        Self { top_logprobs: Some(top), ..Self::bare(tokenizer, id, logprobs.logprob) }
    }

    fn bare(tokenizer: &Tokenizer, id: u32, logprob: f32) -> Self {
        let bytes = token_bytes(tokenizer, id);
        let token = String::from_utf8_lossy(&bytes).into_owned();
        Self { token, logprob: finite(logprob), bytes: bytes.into_owned(), top_logprobs: None }
    }
}

/// JSON has no infinities. OpenAI writes -9999 for tokens that cannot come.
pub(crate) fn finite(logprob: f32) -> f32 {
    logprob.max(-9999.0)
}

/// `logprobs` of a text completion: parallel lists over tokens.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct TextLogprobs {
    tokens: Vec<String>,
    token_logprobs: Vec<Option<f32>>,
    top_logprobs: Vec<Option<Alternatives>>,
    text_offset: Vec<usize>,
}

impl TextLogprobs {
    pub(crate) fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Adds a token that begins `offset` characters into the text. Gives where the next one begins.
    ///
    /// A token that holds a part of a character is written as `bytes:\xe2\x82`, as OpenAI does: otherwise many would have one
    /// name. Its characters count with the token that completes them.
    pub(crate) fn push(&mut self, tokenizer: &Tokenizer, id: u32, logprobs: Option<&Logprobs>, offset: usize) -> usize {
        self.tokens.push(name(tokenizer, id));
        self.token_logprobs.push(logprobs.map(|l| finite(l.logprob)));
        self.top_logprobs.push(logprobs.filter(|l| !l.top.is_empty()).map(|l| Alternatives::new(tokenizer, id, l)));
        self.text_offset.push(offset);
        // Counts the bytes that begin a character.
        offset + token_bytes(tokenizer, id).iter().filter(|b| **b & 0xc0 != 0x80).count()
    }
}

/// The most probable tokens, and the chosen one where it is not among them, as OpenAI has it: an object in this order.
#[derive(Clone, Debug)]
struct Alternatives(Vec<(String, f32)>);

impl Alternatives {
    fn new(tokenizer: &Tokenizer, id: u32, logprobs: &Logprobs) -> Self {
        let chosen = Some(TokenLogprob { id, logprob: logprobs.logprob }).filter(|_| logprobs.top.iter().all(|t| t.id != id));
        Self(logprobs.top.iter().chain(&chosen).map(|t| (name(tokenizer, t.id), finite(t.logprob))).collect())
    }
}

impl Serialize for Alternatives {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, logprob)| (name, logprob)))
    }
}

fn name(tokenizer: &Tokenizer, id: u32) -> String {
    let bytes = token_bytes(tokenizer, id);
    match std::str::from_utf8(&bytes) {
        Ok(text) => text.to_string(),
        Err(_) => bytes.iter().fold("bytes:".to_string(), |text, byte| text + &format!("\\x{byte:02x}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onebit_engine::Usage as Tokens;

    fn finish(prompt: usize, cached: usize, completion: usize) -> Finish {
        let timings =
            onebit_engine::Timings { queue: Duration::ZERO, prompt: Duration::from_millis(50), decode: Duration::from_millis(200) };
        let usage = Tokens { prompt, cached, completion };
        Finish { reason: FinishReason::Length, text: String::new(), stop: None, usage, timings }
    }

    #[test]
    fn a_prompt_counts_once() {
        let mut usage = Usage::default();
        usage.add(&finish(10, 4, 5), true);
        usage.add(&finish(10, 10, 6), false);
        let expected = r#"{"prompt_tokens":10,"completion_tokens":11,"total_tokens":21,"prompt_tokens_details":{"cached_tokens":4}}"#;
        assert_eq!(serde_json::to_string(&usage).expect("plain numbers"), expected);
    }

    #[test]
    fn rates_are_those_of_llama_server() {
        let t = Timings::of(&finish(12, 2, 40));
        assert_eq!((t.cache_n, t.prompt_n, t.prompt_ms, t.prompt_per_token_ms, t.prompt_per_second), (2, 10, 50.0, 5.0, 200.0));
        assert_eq!((t.predicted_n, t.predicted_ms, t.predicted_per_token_ms, t.predicted_per_second), (40, 200.0, 5.0, 200.0));
        let empty = Timings::of(&Finish { timings: onebit_engine::Timings::default(), ..finish(0, 0, 0) });
        assert!(serde_json::to_string(&empty).expect("finite").contains(r#""prompt_per_second":0.0"#));
    }
}
