//! `POST /v1/completions`: continues texts.
//!
//! `prompt` is a string, an array of token ids, or an array of such; each gets `n` choices, those of the first prompt first.
//! With `echo` the prompt comes before each; with `echo` and `logprobs` its tokens' logprobs do as well.

use super::{prepare, prompt, prompt::Prompt};
use crate::answer::{self, Head, TextLogprobs, Timings, Usage};
use crate::error::ApiError;
use crate::forms;
use crate::generation::{Choice, Generation};
use crate::json::Fields;
use crate::params::{self, Streaming};
use crate::sse::{self, Events, Format};
use crate::state::{App, Model};
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use onebit_engine::{Finish, Logprobs, Request, Token};
use onebit_text::Tokenizer;
use onebit_text::parse::Opening;
use serde::Serialize;
use std::sync::Arc;

/// Tokens where the request does not say how many: OpenAI's default.
const DEFAULT_LENGTH: usize = 16;

pub(super) async fn handle(State(app): State<Arc<App>>, body: Body) -> Result<Response, ApiError> {
    let (model, parsed) = prepare(&app, body, parse).await?;
    let Parsed { requests, streaming, plan } = parsed;
    let generation = Generation::submit(&model.engine, requests, "prompt")?;
    let writer = Writer::new(Head::new("cmpl-", "text_completion", &app.options.model), model.engine.tokenizer().clone(), plan, streaming);
    match streaming {
        Some(_) => Ok(sse::respond(generation.begin().await?, writer)),
        None => Ok(writer.whole(generation.collect().await?)),
    }
}

struct Parsed {
    requests: Vec<Request>,
    streaming: Option<Streaming>,
    plan: Plan,
}

/// What of a request shapes its answer.
struct Plan {
    prompts: Vec<Prompt>,
    /// Choices for each prompt.
    n: usize,
    echo: bool,
    logprobs: bool,
}

fn parse(app: &App, model: &Model, mut fields: Fields) -> Result<Parsed, ApiError> {
    let (limits, tokenizer) = (&app.options.limits, model.engine.tokenizer());
    params::model(&mut fields, &app.options)?;
    let streaming = params::streaming(&mut fields)?;
    let prompt = fields.value("prompt").ok_or_else(|| ApiError::invalid("prompt", "`prompt` is missing"))?;
    let mut base = params::request(
        &mut fields,
        &["max_tokens", "max_completion_tokens", "n_predict"],
        0,
        &model.sampling,
        limits,
        Some(DEFAULT_LENGTH),
    )?;
    base.answer_start = prompt::answer_start(&mut fields, tokenizer)?;
    let echo = fields.boolean("echo")?.unwrap_or(false);
    base.logprobs = fields.integer("logprobs", 0..=limits.top_logprobs as i64)?.map(|n| n as usize);
    base.prompt_logprobs = base.logprobs.filter(|_| echo);
    base.grammar = forms::take(&mut fields, limits)?.map(|form| form.compile(model, Opening::default(), limits)).transpose()?;
    let prompts = prompt::several("prompt", prompt, tokenizer, limits.prompts)?;
    let n = params::choices(&mut fields, prompts.len(), limits)?;
    fields.only("best_of", |v| v.as_u64() == Some(n as u64), "only as many choices are made as are answered, so it must equal `n`")?;
    fields.only("suffix", |v| v == "", "filling in the middle is not there yet")?;
    fields.finish()?;
    let requests = prompts.iter().flat_map(|p| params::repeat(Request { prompt: p.ids.clone(), ..base.clone() }, n)).collect();
    let plan = Plan { prompts, n, echo, logprobs: base.logprobs.is_some() };
    Ok(Parsed { requests, streaming, plan })
}

#[derive(Serialize)]
struct TextChoice {
    text: String,
    index: usize,
    logprobs: Option<TextLogprobs>,
    finish_reason: Option<&'static str>,
}

struct Writer {
    head: Head,
    tokenizer: Arc<Tokenizer>,
    plan: Plan,
    include_usage: bool,
    /// For each choice, how many characters of its text are described by logprobs.
    offsets: Vec<usize>,
    usage: Usage,
}

impl Writer {
    fn new(head: Head, tokenizer: Arc<Tokenizer>, plan: Plan, streaming: Option<Streaming>) -> Self {
        let offsets = vec![0; plan.prompts.len() * plan.n];
        Self { head, tokenizer, plan, include_usage: streaming.is_some_and(|s| s.include_usage), offsets, usage: Usage::default() }
    }

    fn echo(&self, index: usize) -> String {
        if self.plan.echo { self.plan.prompts[index / self.plan.n].text(&self.tokenizer) } else { String::new() }
    }

    fn prompt_logprobs(&mut self, index: usize, logprobs: &[Option<Logprobs>]) -> TextLogprobs {
        let mut out = TextLogprobs::default();
        for (id, logprobs) in self.plan.prompts[index / self.plan.n].ids.iter().zip(logprobs) {
            self.offsets[index] = out.push(&self.tokenizer, *id, logprobs.as_ref(), self.offsets[index]);
        }
        out
    }

    /// Adds a token's logprobs, unless it is the one that ends the text and so is not part of it.
    fn add_logprobs(&mut self, index: usize, token: &Token, out: &mut TextLogprobs) {
        if !self.tokenizer.eos().contains(&token.id) {
            self.offsets[index] = out.push(&self.tokenizer, token.id, token.logprobs.as_ref(), self.offsets[index]);
        }
    }

    fn count(&mut self, index: usize, finish: &Finish) {
        self.usage.add(finish, index.is_multiple_of(self.plan.n));
    }

    fn chunk(&self, choice: TextChoice, timings: Option<Timings>, out: &mut Events) {
        out.json(&self.head.with(&[choice], self.include_usage.then_some(None), timings));
    }

    fn whole(mut self, choices: Vec<Choice>) -> Response {
        let timings = choices.first().map(|c| Timings::of(&c.finish));
        let mut out = Vec::with_capacity(choices.len());
        for (index, choice) in choices.into_iter().enumerate() {
            self.count(index, &choice.finish);
            let logprobs = self.plan.logprobs.then(|| {
                let mut logprobs = self.prompt_logprobs(index, &choice.prompt);
                for token in &choice.tokens {
                    self.add_logprobs(index, token, &mut logprobs);
                }
                logprobs
            });
            let finish_reason = Some(answer::reason(&choice.finish));
            out.push(TextChoice { text: self.echo(index) + &choice.text, index, logprobs, finish_reason });
        }
        answer::json(&self.head.with(&out, Some(Some(self.usage)), timings))
    }
}

impl Format for Writer {
    fn begin(&mut self, out: &mut Events) {
        // With logprobs the prompt's text comes together with them.
        if self.plan.echo && !self.plan.logprobs {
            for index in 0..self.offsets.len() {
                self.chunk(TextChoice { text: self.echo(index), index, logprobs: None, finish_reason: None }, None, out);
            }
        }
    }

    fn prompt(&mut self, index: usize, logprobs: Vec<Option<Logprobs>>, out: &mut Events) {
        let logprobs = Some(self.prompt_logprobs(index, &logprobs));
        self.chunk(TextChoice { text: self.echo(index), index, logprobs, finish_reason: None }, None, out);
    }

    fn token(&mut self, index: usize, token: Token, out: &mut Events) {
        let logprobs = self.plan.logprobs.then(|| {
            let mut logprobs = TextLogprobs::default();
            self.add_logprobs(index, &token, &mut logprobs);
            logprobs
        });
        if !token.text.is_empty() || logprobs.as_ref().is_some_and(|l| !l.is_empty()) {
            self.chunk(TextChoice { text: token.text, index, logprobs, finish_reason: None }, None, out);
        }
    }

    fn finish(&mut self, index: usize, finish: Finish, out: &mut Events) {
        self.count(index, &finish);
        let (timings, finish_reason) = (Some(Timings::of(&finish)), Some(answer::reason(&finish)));
        self.chunk(TextChoice { text: finish.text, index, logprobs: None, finish_reason }, timings, out);
    }

    fn end(&mut self, out: &mut Events) {
        if self.include_usage {
            out.json(&self.head.with::<TextChoice>(&[], Some(Some(self.usage)), None));
        }
        out.done();
    }
}
