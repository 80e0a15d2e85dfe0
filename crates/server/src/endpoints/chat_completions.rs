//! `POST /v1/chat/completions`: answers a chat.

use super::prepare;
use crate::answer::{self, ChatLogprob, Head, Timings, Usage};
use crate::error::ApiError;
use crate::generation::{Choice, Generation};
use crate::json::Fields;
use crate::messages;
use crate::params::{self, Streaming};
use crate::sse::{self, Events, Format};
use crate::state::{App, Model};
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use onebit_engine::{Finish, Request, Token};
use onebit_text::Tokenizer;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;

pub(super) async fn handle(State(app): State<Arc<App>>, body: Body) -> Result<Response, ApiError> {
    let (model, Parsed { request, n, streaming }) = prepare(&app, body, parse).await?;
    let (logprobs, tokenizer) = (request.logprobs.is_some(), model.engine.tokenizer().clone());
    let object = if streaming.is_some() { "chat.completion.chunk" } else { "chat.completion" };
    let head = Head::new("chatcmpl-", object, &app.options.model);
    let generation = Generation::submit(&model.engine, params::repeat(request, n), "messages")?;
    match streaming {
        Some(Streaming { include_usage }) => {
            let writer = Writer { head, tokenizer, n, logprobs, include_usage, usage: Usage::default() };
            Ok(sse::respond(generation.begin().await?, writer))
        }
        None => Ok(whole(&head, &tokenizer, logprobs, generation.collect().await?)),
    }
}

struct Parsed {
    request: Request,
    n: usize,
    streaming: Option<Streaming>,
}

fn parse(app: &App, model: &Model, mut fields: Fields) -> Result<Parsed, ApiError> {
    let limits = &app.options.limits;
    params::model(&mut fields, &app.options)?;
    let streaming = params::streaming(&mut fields)?;
    let mut request =
        params::request(&mut fields, &["max_completion_tokens", "max_tokens", "n_predict"], 1, &model.sampling, limits, None)?;
    let n = params::choices(&mut fields, 1, limits)?;
    request.logprobs = logprobs(&mut fields, limits.top_logprobs)?;
    refuse_unsupported(&mut fields)?;
    let prompt = messages::render(&mut fields, model, limits)?;
    fields.finish()?;
    request.prompt = prompt.tokens(model.engine.tokenizer());
    Ok(Parsed { request, n, streaming })
}

/// `logprobs: true`, with `top_logprobs` alternatives.
fn logprobs(fields: &mut Fields, most: usize) -> Result<Option<usize>, ApiError> {
    let wanted = fields.boolean("logprobs")?.unwrap_or(false);
    let top = fields.integer("top_logprobs", 0..=most as i64)?;
    match (wanted, top) {
        (true, top) => Ok(Some(top.unwrap_or(0) as usize)),
        (false, None | Some(0)) => Ok(None),
        (false, Some(_)) => Err(ApiError::invalid("top_logprobs", "`top_logprobs` is only allowed when `logprobs` is true")),
    }
}

/// What OpenAI's API has for chats and this server has not.
fn refuse_unsupported(fields: &mut Fields) -> Result<(), ApiError> {
    let is_text = |v: &Value| v.get("type").is_some_and(|t| t == "text");
    fields.only("response_format", is_text, "answers cannot be held to a form yet")?;
    fields.only("modalities", |v| v.as_array().is_some_and(|m| m.iter().all(|m| m == "text")), "answers are text")?;
    fields.only("audio", |_| false, "answers are text")?;
    fields.only("web_search_options", |_| false, "nothing is looked up")?;
    fields.only("verbosity", |v| v == "medium", "it cannot be told to the model")?;
    fields.only("reasoning_format", |v| v == "none" || v == "auto", "reasoning is left in the text")?;
    // Speeds an answer up where it can be foreseen, and changes nothing in it.
    fields.pass_over(&["prediction"]);
    Ok(())
}

#[derive(Serialize)]
struct Message {
    role: &'static str,
    content: String,
}

#[derive(Serialize)]
struct Logprobs {
    content: Vec<ChatLogprob>,
    refusal: Option<String>,
}

#[derive(Serialize)]
struct WholeChoice {
    index: usize,
    message: Message,
    logprobs: Option<Logprobs>,
    finish_reason: &'static str,
}

/// The logprobs of these tokens, without the one that ends the answer, as it is not part of it.
fn describe<'a>(tokenizer: &Tokenizer, tokens: impl IntoIterator<Item = &'a Token>) -> Logprobs {
    let described = |t: &Token| t.logprobs.as_ref().map(|l| ChatLogprob::new(tokenizer, t.id, l));
    let content = tokens.into_iter().filter(|t| !tokenizer.eos().contains(&t.id)).filter_map(described).collect();
    Logprobs { content, refusal: None }
}

fn whole(head: &Head, tokenizer: &Tokenizer, logprobs: bool, choices: Vec<Choice>) -> Response {
    let mut usage = Usage::default();
    let timings = choices.first().map(|c| Timings::of(&c.finish));
    let mut out = Vec::with_capacity(choices.len());
    for (index, choice) in choices.into_iter().enumerate() {
        usage.add(&choice.finish, index == 0);
        let logprobs = logprobs.then(|| describe(tokenizer, &choice.tokens));
        let message = Message { role: "assistant", content: choice.text };
        out.push(WholeChoice { index, message, logprobs, finish_reason: answer::reason(&choice.finish) });
    }
    answer::json(&head.with(&out, Some(Some(usage)), timings))
}

#[derive(Default, Serialize)]
struct Delta {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
}

#[derive(Serialize)]
struct ChunkChoice {
    index: usize,
    delta: Delta,
    logprobs: Option<Logprobs>,
    finish_reason: Option<&'static str>,
}

struct Writer {
    head: Head,
    tokenizer: Arc<Tokenizer>,
    n: usize,
    logprobs: bool,
    include_usage: bool,
    usage: Usage,
}

impl Writer {
    fn chunk(&self, choice: ChunkChoice, timings: Option<Timings>, out: &mut Events) {
        out.json(&self.head.with(&[choice], self.include_usage.then_some(None), timings));
    }

    fn content(&self, index: usize, content: String, logprobs: Option<Logprobs>, out: &mut Events) {
        let delta = Delta { role: None, content: Some(content) };
        self.chunk(ChunkChoice { index, delta, logprobs, finish_reason: None }, None, out);
    }
}

impl Format for Writer {
    fn begin(&mut self, out: &mut Events) {
        for index in 0..self.n {
            let delta = Delta { role: Some("assistant"), content: Some(String::new()) };
            self.chunk(ChunkChoice { index, delta, logprobs: None, finish_reason: None }, None, out);
        }
    }

    fn token(&mut self, index: usize, token: Token, out: &mut Events) {
        let logprobs = if self.logprobs { Some(describe(&self.tokenizer, [&token])).filter(|l| !l.content.is_empty()) } else { None };
        if !token.text.is_empty() || logprobs.is_some() {
            self.content(index, token.text, logprobs, out);
        }
    }

    fn finish(&mut self, index: usize, finish: Finish, out: &mut Events) {
        self.usage.add(&finish, index == 0);
        let (timings, finish_reason) = (Some(Timings::of(&finish)), Some(answer::reason(&finish)));
        if !finish.text.is_empty() {
            self.content(index, finish.text, None, out);
        }
        self.chunk(ChunkChoice { index, delta: Delta::default(), logprobs: None, finish_reason }, timings, out);
    }

    fn end(&mut self, out: &mut Events) {
        if self.include_usage {
            out.json(&self.head.with::<ChunkChoice>(&[], Some(Some(self.usage)), None));
        }
        out.done();
    }
}
