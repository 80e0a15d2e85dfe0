//! `POST /completion`, in llama-server's shape: continues one text, and tells the times that tools measure speed by.

use super::{prepare, prompt};
use crate::answer::{self, Timings};
use crate::error::ApiError;
use crate::forms;
use crate::generation::Generation;
use crate::json::Fields;
use crate::params;
use crate::sse::{self, Events, Format};
use crate::state::{App, Model};
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use onebit_engine::{Finish, FinishReason, Request, Token};
use onebit_text::parse::Opening;
use serde::Serialize;
use std::sync::Arc;

pub(super) async fn handle(State(app): State<Arc<App>>, body: Body) -> Result<Response, ApiError> {
    let (model, parsed) = prepare(&app, body, parse).await?;
    answer(&model, parsed).await
}

/// Has the engine answer, and writes what it does.
pub(super) async fn answer(model: &Model, parsed: Parsed) -> Result<Response, ApiError> {
    let Parsed { request, stream, return_tokens } = parsed;
    let evaluated = request.prompt.len();
    let generation = Generation::submit(&model.engine, [request], "prompt")?;
    if stream {
        let format = Writer { model: model.name.clone(), evaluated, predicted: 0, return_tokens };
        return Ok(sse::respond(generation.begin().await?, format));
    }
    let mut choices = generation.collect().await?;
    let choice = choices.pop().ok_or_else(|| ApiError::internal("an answer without a choice"))?;
    let tokens = if return_tokens { choice.tokens.iter().map(|t| t.id).collect() } else { vec![] };
    Ok(answer::json(&Last::new(choice.text, tokens, &model.name, &choice.finish)))
}

pub(super) struct Parsed {
    pub(super) request: Request,
    stream: bool,
    return_tokens: bool,
}

fn parse(app: &App, model: &Model, mut fields: Fields) -> Result<Parsed, ApiError> {
    let prompt = fields.value("prompt").ok_or_else(|| ApiError::invalid("prompt", "`prompt` is missing"))?;
    let mut parsed = parameters(app, model, fields)?;
    parsed.request.prompt = prompt::single("prompt", prompt, model.engine.tokenizer())?.ids;
    Ok(parsed)
}

/// Takes all fields but the prompt, and refuses those that are left.
pub(super) fn parameters(app: &App, model: &Model, mut fields: Fields) -> Result<Parsed, ApiError> {
    let limits = &app.options.limits;
    params::model(&mut fields, app)?;
    let stream = fields.boolean("stream")?.unwrap_or(false);
    params::refuse_steps(&mut fields, model)?;
    let mut request = params::request(&mut fields, &["n_predict", "max_tokens"], 0, &model.sampling, limits, None)?;
    request.answer_start = prompt::answer_start(&mut fields, model.engine.tokenizer())?;
    request.grammar = forms::take(&mut fields, limits)?.map(|form| form.compile(model, Opening::default(), limits)).transpose()?;
    let return_tokens = fields.boolean("return_tokens")?.unwrap_or(false);
    fields.only("response_fields", |v| v.as_array().is_some_and(Vec::is_empty), "all fields are answered")?;
    fields.finish()?;
    Ok(Parsed { request, stream, return_tokens })
}

/// A chunk that is not the last.
#[derive(Serialize)]
struct Part {
    index: usize,
    content: String,
    tokens: Vec<u32>,
    stop: bool,
    tokens_predicted: usize,
    tokens_evaluated: usize,
}

/// The answer, or the last chunk of one.
#[derive(Serialize)]
struct Last<'a> {
    index: usize,
    content: String,
    tokens: Vec<u32>,
    stop: bool,
    model: &'a str,
    tokens_predicted: usize,
    tokens_evaluated: usize,
    truncated: bool,
    stop_type: &'static str,
    stopping_word: &'a str,
    tokens_cached: usize,
    timings: Timings,
}

impl<'a> Last<'a> {
    fn new(content: String, tokens: Vec<u32>, model: &'a str, finish: &'a Finish) -> Self {
        let stop_type = match (finish.reason, &finish.stop) {
            (FinishReason::Stop, Some(_)) => "word",
            (FinishReason::Stop, None) => "eos",
            (FinishReason::Length, _) => "limit",
            (FinishReason::Cancelled, _) => "none",
        };
        Self {
            index: 0,
            content,
            tokens,
            stop: true,
            model,
            tokens_predicted: finish.usage.completion,
            tokens_evaluated: finish.usage.prompt,
            truncated: false,
            stop_type,
            stopping_word: finish.stop.as_deref().unwrap_or_default(),
            // What lies in the caches when it ends: the last token was chosen but not read.
            tokens_cached: (finish.usage.prompt + finish.usage.completion).saturating_sub(1),
            timings: Timings::of(finish),
        }
    }
}

struct Writer {
    model: String,
    evaluated: usize,
    predicted: usize,
    return_tokens: bool,
}

impl Format for Writer {
    fn token(&mut self, index: usize, token: Token, out: &mut Events) {
        self.predicted += 1;
        let tokens = if self.return_tokens { vec![token.id] } else { vec![] };
        if !token.text.is_empty() || self.return_tokens {
            let (tokens_predicted, tokens_evaluated) = (self.predicted, self.evaluated);
            out.json(&Part { index, content: token.text, tokens, stop: false, tokens_predicted, tokens_evaluated });
        }
    }

    fn finish(&mut self, _: usize, mut finish: Finish, out: &mut Events) {
        let text = std::mem::take(&mut finish.text);
        out.json(&Last::new(text, vec![], &self.model, &finish));
    }

    fn end(&mut self, _: &mut Events) {}
}
