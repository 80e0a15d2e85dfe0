//! `POST /v1/responses`: OpenAI's newer shape for chats, as far as it needs no memory: what is asked for is in the request, and nothing is
//! stored.
//!
//! `input` turns a request into that of a chat, `output` gathers the items of an answer, and what is here writes them, whole or as events
//! (<https://platform.openai.com/docs/api-reference/responses-streaming>).

mod input;
mod output;

use super::prepare;
use crate::answer::{self, ChatLogprob};
use crate::chat::{self, Chat};
use crate::error::{ApiError, fresh_id, unix_time};
use crate::generation::{Choice, Generation};
use crate::json::Fields;
use crate::params;
use crate::sse::{self, Events, Format};
use crate::state::{App, Model};
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use input::Asked;
use onebit_engine::{Finish, FinishReason, Request, Token};
use onebit_text::Tokenizer;
use output::{Output, Step};
use serde_json::{Map, Value, json};
use std::sync::Arc;

pub(super) async fn handle(State(app): State<Arc<App>>, body: Body) -> Result<Response, ApiError> {
    let (model, Parsed { request, stream, output, asked }) = prepare(&app, body, parse).await?;
    let tokenizer = request.logprobs.is_some().then(|| model.engine.tokenizer().clone());
    let frame = Frame { id: fresh_id("resp_"), created: unix_time(), model: model.name.clone(), echo: asked.echo };
    let generation = Generation::submit(&model.engine, [request], "input")?;
    if stream {
        let writer = Writer { frame, tokenizer, output, sequence: 0 };
        return Ok(sse::respond(generation.begin().await?, writer));
    }
    let choice = generation.collect().await?.pop().ok_or_else(|| ApiError::internal("an answer without a choice"))?;
    Ok(whole(&frame, tokenizer.as_deref(), output, choice))
}

struct Parsed {
    request: Request,
    stream: bool,
    /// Of an answer that has not begun.
    output: Output,
    asked: Asked,
}

fn parse(app: &App, model: &Model, mut fields: Fields) -> Result<Parsed, ApiError> {
    params::model(&mut fields, app)?;
    let stream = fields.boolean("stream")?.unwrap_or(false);
    let asked = input::chat(&mut fields, app.options.limits.top_logprobs)?;
    let Chat { request, parser } =
        chat::take(fields, app, model, &["max_output_tokens"], stream, asked.logprobs).map_err(input::in_its_words)?;
    Ok(Parsed { request, stream, output: Output::new(parser), asked })
}

/// What is the same in all states of one response.
struct Frame {
    id: String,
    created: u64,
    model: String,
    /// What the request said, with its defaults.
    echo: Map<String, Value>,
}

impl Frame {
    /// The response so far; `finish` is there when it has ended.
    fn response(&self, output: &Output, finish: Option<&Finish>, error: Option<&ApiError>) -> Value {
        let (status, details) = match (finish, error) {
            (_, Some(_)) => ("failed", Value::Null),
            (None, None) => ("in_progress", Value::Null),
            (Some(finish), None) => match finish.reason {
                FinishReason::Length => ("incomplete", json!({ "reason": "max_output_tokens" })),
                FinishReason::Stop | FinishReason::Cancelled => ("completed", Value::Null),
            },
        };
        let usage = finish.map(|finish| {
            let tokens = finish.usage;
            json!({
                "input_tokens": tokens.prompt,
                "input_tokens_details": { "cached_tokens": tokens.cached },
                "output_tokens": tokens.completion,
                "output_tokens_details": { "reasoning_tokens": output.reasoning_tokens() },
                "total_tokens": tokens.prompt + tokens.completion,
            })
        });
        let mut response = json!({
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "background": false,
            "error": error.map(|error| json!({ "code": "server_error", "message": error.message })),
            "incomplete_details": details,
            "model": self.model,
            "output": if finish.is_some() { output.items(status == "completed") } else { json!([]) },
            "previous_response_id": null,
            // Nothing ever is.
            "store": false,
            "truncation": "disabled",
            "usage": usage,
        });
        if let Some(response) = response.as_object_mut() {
            response.extend(self.echo.clone());
        }
        response
    }
}

/// A token's logprobs, unless it is the one that ends the answer.
fn describe(tokenizer: Option<&Tokenizer>, token: &Token) -> Option<Value> {
    let tokenizer = tokenizer.filter(|tokenizer| !tokenizer.eos().contains(&token.id))?;
    serde_json::to_value(ChatLogprob::new(tokenizer, token.id, token.logprobs.as_ref()?)).ok()
}

fn whole(frame: &Frame, tokenizer: Option<&Tokenizer>, mut output: Output, choice: Choice) -> Response {
    for token in choice.tokens {
        let logprobs = describe(tokenizer, &token);
        output.read(&token.text, logprobs);
    }
    output.end(&choice.finish.text);
    answer::json(&frame.response(&output, Some(&choice.finish), None))
}

struct Writer {
    frame: Frame,
    /// Where logprobs are told.
    tokenizer: Option<Arc<Tokenizer>>,
    output: Output,
    /// The number of the next event.
    sequence: u64,
}

impl Writer {
    fn event(&mut self, kind: &str, mut data: Value, out: &mut Events) {
        data["type"] = kind.into();
        data["sequence_number"] = self.sequence.into();
        self.sequence += 1;
        out.named(kind, &data);
    }

    fn state(&mut self, kind: &str, finish: Option<&Finish>, error: Option<&ApiError>, out: &mut Events) {
        let response = self.frame.response(&self.output, finish, error);
        self.event(kind, json!({ "response": response }), out);
    }

    fn steps(&mut self, steps: Vec<Step>, out: &mut Events) {
        for step in steps {
            for (kind, data) in self.output.events(&step) {
                self.event(kind, data, out);
            }
        }
    }
}

impl Format for Writer {
    fn begin(&mut self, out: &mut Events) {
        self.state("response.created", None, None, out);
        self.state("response.in_progress", None, None, out);
    }

    fn token(&mut self, _: usize, token: Token, out: &mut Events) {
        let logprobs = describe(self.tokenizer.as_deref(), &token);
        let steps = self.output.read(&token.text, logprobs);
        self.steps(steps, out);
    }

    fn finish(&mut self, _: usize, finish: Finish, out: &mut Events) {
        let steps = self.output.end(&finish.text);
        self.steps(steps, out);
        let kind = if finish.reason == FinishReason::Length { "response.incomplete" } else { "response.completed" };
        self.state(kind, Some(&finish), None, out);
    }

    fn end(&mut self, _: &mut Events) {}

    fn fail(&mut self, error: &ApiError, out: &mut Events) {
        self.state("response.failed", None, Some(error), out);
    }
}
