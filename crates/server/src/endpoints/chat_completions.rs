//! `POST /v1/chat/completions`: answers a chat.

use super::prepare;
use crate::answer::{self, ChatLogprob, Head, Timings, Usage};
use crate::chat::{self, Chat};
use crate::error::{ApiError, call_id};
use crate::generation::{Choice, Generation};
use crate::json::Fields;
use crate::params::{self, Streaming};
use crate::sse::{self, Events, Format};
use crate::state::{App, Model};
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use onebit_engine::{Finish, Request, Token};
use onebit_text::Tokenizer;
use onebit_text::parse::{self, Parser};
use serde::Serialize;
use std::sync::Arc;

pub(super) async fn handle(State(app): State<Arc<App>>, body: Body) -> Result<Response, ApiError> {
    let (model, Parsed { request, n, streaming, reader }) = prepare(&app, body, parse).await?;
    let (logprobs, tokenizer) = (request.logprobs.is_some(), model.engine.tokenizer().clone());
    let object = if streaming.is_some() { "chat.completion.chunk" } else { "chat.completion" };
    let head = Head::new("chatcmpl-", object, &model.name);
    let generation = Generation::submit(&model.engine, params::repeat(request, n), "messages")?;
    match streaming {
        Some(Streaming { include_usage }) => {
            let choices = vec![reader; n];
            let writer = Writer { head, tokenizer, choices, logprobs, include_usage, usage: Usage::default() };
            Ok(sse::respond(generation.begin().await?, writer))
        }
        None => Ok(whole(&head, &tokenizer, logprobs, &reader, generation.collect().await?)),
    }
}

struct Parsed {
    request: Request,
    n: usize,
    streaming: Option<Streaming>,
    /// Of a choice that has not begun.
    reader: Reader,
}

fn parse(app: &App, model: &Model, mut fields: Fields) -> Result<Parsed, ApiError> {
    let limits = &app.options.limits;
    params::model(&mut fields, app)?;
    let streaming = params::streaming(&mut fields)?;
    let n = params::choices(&mut fields, 1, limits)?;
    let logprobs = logprobs(&mut fields, limits.top_logprobs)?;
    let lengths = ["max_completion_tokens", "max_tokens", "n_predict"];
    let Chat { request, parser } = chat::take(fields, app, model, &lengths, streaming.is_some(), logprobs)?;
    Ok(Parsed { request, n, streaming, reader: Reader { parser, calls: 0 } })
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

#[derive(Serialize)]
struct Message {
    role: &'static str,
    /// Null where there are calls and nothing else.
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall>,
}

/// A call, or in a stream a part of one.
#[derive(Default, Serialize)]
struct ToolCall {
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    function: Function,
}

#[derive(Default, Serialize)]
struct Function {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    arguments: String,
}

impl Message {
    /// What the deltas of a whole answer add up to.
    fn of(deltas: Vec<Delta>) -> Self {
        let (mut content, mut reasoning, mut tool_calls) = (String::new(), String::new(), Vec::<ToolCall>::new());
        for delta in deltas {
            content.push_str(&delta.content.unwrap_or_default());
            reasoning.push_str(&delta.reasoning_content.unwrap_or_default());
            for part in delta.tool_calls.into_iter().flatten() {
                match tool_calls.last_mut() {
                    Some(call) if part.id.is_none() => call.function.arguments.push_str(&part.function.arguments),
                    _ => tool_calls.push(ToolCall { index: None, ..part }),
                }
            }
        }
        let content = Some(content).filter(|text| !text.is_empty() || tool_calls.is_empty());
        Self { role: "assistant", content, reasoning_content: Some(reasoning).filter(|text| !text.is_empty()), tool_calls }
    }
}

/// `finish_reason`: an answer that ended by itself and has calls waits for their results.
fn reason(finish: &Finish, calls: usize) -> &'static str {
    match answer::reason(finish) {
        "stop" if calls > 0 => "tool_calls",
        other => other,
    }
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

fn whole(head: &Head, tokenizer: &Tokenizer, logprobs: bool, reader: &Reader, choices: Vec<Choice>) -> Response {
    let mut usage = Usage::default();
    let timings = choices.first().map(|c| Timings::of(&c.finish));
    let mut out = Vec::with_capacity(choices.len());
    for (index, choice) in choices.into_iter().enumerate() {
        usage.add(&choice.finish, index == 0);
        let logprobs = logprobs.then(|| describe(tokenizer, &choice.tokens));
        let message = Message::of(reader.clone().read(choice.text, true));
        let finish_reason = reason(&choice.finish, message.tool_calls.len());
        out.push(WholeChoice { index, message, logprobs, finish_reason });
    }
    answer::json(&head.with(&out, Some(Some(usage)), timings))
}

#[derive(Default, Serialize)]
struct Delta {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<[ToolCall; 1]>,
}

impl Delta {
    fn content(text: String) -> Self {
        Self { content: Some(text), ..Self::default() }
    }
}

/// What one choice has come to.
#[derive(Clone)]
struct Reader {
    /// Takes the answer apart, if there is anything to be looked for in it.
    parser: Option<Parser>,
    calls: usize,
}

impl Reader {
    /// The deltas that more text of the choice gives, or its end.
    fn read(&mut self, text: String, last: bool) -> Vec<Delta> {
        let Some(parser) = &mut self.parser else {
            return if text.is_empty() { Vec::new() } else { vec![Delta::content(text)] };
        };
        let mut events = parser.push(&text);
        if last {
            events.extend(parser.finish());
        }
        let mut deltas = Vec::with_capacity(events.len());
        for event in events {
            let call = match event {
                parse::Event::Content(text) => {
                    deltas.push(Delta::content(text));
                    continue;
                }
                parse::Event::Reasoning(text) => {
                    deltas.push(Delta { reasoning_content: Some(text), ..Delta::default() });
                    continue;
                }
                parse::Event::ToolCallStart { name, id } => {
                    self.calls += 1;
                    let function = Function { name: Some(name), arguments: String::new() };
                    ToolCall { id: Some(id.unwrap_or_else(call_id)), kind: Some("function"), function, ..ToolCall::default() }
                }
                parse::Event::ToolArguments(arguments) => ToolCall { function: Function { name: None, arguments }, ..ToolCall::default() },
                parse::Event::ToolCallEnd => continue,
            };
            let index = Some(self.calls.saturating_sub(1));
            deltas.push(Delta { tool_calls: Some([ToolCall { index, ..call }]), ..Delta::default() });
        }
        deltas
    }
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
    choices: Vec<Reader>,
    logprobs: bool,
    include_usage: bool,
    usage: Usage,
}

impl Writer {
    fn chunk(&self, choice: ChunkChoice, timings: Option<Timings>, out: &mut Events) {
        out.json(&self.head.with(&[choice], self.include_usage.then_some(None), timings));
    }

    fn delta(&self, index: usize, delta: Delta, logprobs: Option<Logprobs>, out: &mut Events) {
        self.chunk(ChunkChoice { index, delta, logprobs, finish_reason: None }, None, out);
    }
}

impl Format for Writer {
    fn begin(&mut self, out: &mut Events) {
        for index in 0..self.choices.len() {
            let delta = Delta { role: Some("assistant"), ..Delta::content(String::new()) };
            self.delta(index, delta, None, out);
        }
    }

    fn token(&mut self, index: usize, token: Token, out: &mut Events) {
        let mut logprobs = if self.logprobs { Some(describe(&self.tokenizer, [&token])).filter(|l| !l.content.is_empty()) } else { None };
        let mut deltas = self.choices[index].read(token.text, false);
        // Logprobs are told with their token, also while its text waits.
        if deltas.is_empty() && logprobs.is_some() {
            deltas.push(Delta::content(String::new()));
        }
        for delta in deltas {
            self.delta(index, delta, logprobs.take(), out);
        }
    }

    fn finish(&mut self, index: usize, finish: Finish, out: &mut Events) {
        self.usage.add(&finish, index == 0);
        let timings = Some(Timings::of(&finish));
        for delta in self.choices[index].read(finish.text.clone(), true) {
            self.delta(index, delta, None, out);
        }
        let finish_reason = Some(reason(&finish, self.choices[index].calls));
        self.chunk(ChunkChoice { index, delta: Delta::default(), logprobs: None, finish_reason }, timings, out);
    }

    fn end(&mut self, out: &mut Events) {
        if self.include_usage {
            out.json(&self.head.with::<ChunkChoice>(&[], Some(Some(self.usage)), None));
        }
        out.done();
    }
}
