//! `POST /v1/completions`: continues texts.
//!
//! `prompt` is a string, an array of token ids, or an array of such; each gets `n` choices, those of the first prompt first.
//! With `echo` the prompt comes before each; with `echo` and `logprobs` its tokens' logprobs do as well.

use super::{prepare, prompt, prompt::Prompt};
use crate::answer::{self, Head, TextLogprobs, Timings, Usage};
use crate::error::ApiError;
use crate::forms;
use crate::generation::{Choice, Generation};
use crate::infill::{self, Infill};
use crate::json::Fields;
use crate::options::Limits;
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
    let writer = Writer::new(Head::new("cmpl-", "text_completion", &model.name), model.engine.tokenizer().clone(), plan, streaming);
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
    /// How many were made for each.
    best_of: usize,
    echo: bool,
    logprobs: bool,
}

fn parse(app: &App, model: &Model, mut fields: Fields) -> Result<Parsed, ApiError> {
    let (limits, tokenizer) = (&app.options.limits, model.engine.tokenizer());
    params::model(&mut fields, app)?;
    let streaming = params::streaming(&mut fields)?;
    let prompt = fields.value("prompt").ok_or_else(|| ApiError::invalid("prompt", "`prompt` is missing"))?;
    params::refuse_steps(&mut fields, model)?;
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
    let best_of = best_of(&mut fields, n, prompts.len(), streaming.is_some(), limits)?;
    let suffix = fields.string("suffix")?.filter(|suffix| !suffix.is_empty());
    fields.finish()?;
    let logprobs = base.logprobs.is_some();
    let infill = suffix.as_ref().map(|_| Infill::of(tokenizer, "suffix")).transpose()?;
    if infill.is_some() && base.prompt_logprobs.is_some() {
        let message = "`suffix` is not supported together with `echo` and `logprobs`: the prompt is not what is echoed";
        return Err(ApiError::unsupported("suffix", message));
    }
    let after = infill::plain(suffix.as_deref().unwrap_or_default(), tokenizer);
    let ids = |prompt: &Prompt| match (&infill, &prompt.text) {
        (None, _) => prompt.ids.clone(),
        (Some(infill), Some(text)) => infill.prompt(&infill::plain(text, tokenizer), &after, tokenizer),
        (Some(infill), None) => infill.prompt(&prompt.ids, &after, tokenizer),
    };
    if best_of > n {
        // By their logprobs the best ones are told.
        base.logprobs = base.logprobs.or(Some(0));
    }
    let requests = prompts.iter().flat_map(|p| params::repeat(Request { prompt: ids(p), ..base.clone() }, best_of)).collect();
    let plan = Plan { prompts, n, best_of, echo, logprobs };
    Ok(Parsed { requests, streaming, plan })
}

/// Of how many choices for each prompt the best `n` are answered.
fn best_of(fields: &mut Fields, n: usize, prompts: usize, streams: bool, limits: &Limits) -> Result<usize, ApiError> {
    const NAME: &str = "best_of";
    let most = limits.choices / prompts.max(1);
    let best_of = fields.integer(NAME, n as i64..=most as i64)?.map_or(n, |n| n as usize);
    if best_of > n && streams {
        let message = "`best_of` must equal `n` in a stream: which choices are the best is known at the end";
        return Err(ApiError::unsupported(NAME, message));
    }
    Ok(best_of)
}

/// The mean logprob of a choice's tokens, by which OpenAI tells the best.
fn score(choice: &Choice) -> f64 {
    let logprobs = choice.tokens.iter().filter_map(|token| token.logprobs.as_ref()).map(|l| f64::from(l.logprob));
    logprobs.sum::<f64>() / choice.tokens.len().max(1) as f64
}

#[derive(Serialize)]
struct TextChoice {
    text: String,
    index: usize,
    logprobs: Option<TextLogprobs>,
    finish_reason: Option<&'static str>,
}

/// The best `n` of each `of`, the best first.
fn best(choices: Vec<Choice>, of: usize, n: usize) -> Vec<Choice> {
    let (mut out, mut choices) = (Vec::new(), choices.into_iter().peekable());
    while choices.peek().is_some() {
        let mut group: Vec<Choice> = choices.by_ref().take(of).collect();
        group.sort_by(|a, b| score(b).total_cmp(&score(a)));
        out.extend(group.into_iter().take(n));
    }
    out
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
        for (index, choice) in choices.iter().enumerate() {
            self.usage.add(&choice.finish, index.is_multiple_of(self.plan.best_of));
        }
        let choices = if self.plan.best_of > self.plan.n { best(choices, self.plan.best_of, self.plan.n) } else { choices };
        let mut out = Vec::with_capacity(choices.len());
        for (index, choice) in choices.into_iter().enumerate() {
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
