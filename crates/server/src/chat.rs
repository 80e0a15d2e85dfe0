//! A chat that is to be answered: what all endpoints for chats share.

use crate::endpoints::prompt;
use crate::error::ApiError;
use crate::forms;
use crate::images;
use crate::json::Fields;
use crate::messages;
use crate::params;
use crate::state::{App, Model};
use onebit_engine::Request;
use onebit_grammar::Answer;
use onebit_text::parse::{Opening, Parser};
use serde_json::{Map, Value};

/// A chat's request to the engine, and what takes its answers apart.
pub(crate) struct Chat {
    pub(crate) request: Request,
    /// Of an answer that has not begun; `None` where there is nothing to be looked for in it.
    pub(crate) parser: Option<Parser>,
}

/// Takes all fields that make a chat's answer, and refuses those that are left.
///
/// `lengths` are the names of the most tokens; with `streams` calls are told before they are complete; `logprobs` are asked for so many
/// alternatives of each token.
pub(crate) fn take(
    mut fields: Fields,
    app: &App,
    model: &Model,
    lengths: &[&str],
    streams: bool,
    logprobs: Option<usize>,
) -> Result<Chat, ApiError> {
    let limits = &app.options.limits;
    params::refuse_steps(&mut fields, model)?;
    let mut request = params::request(&mut fields, lengths, 1, &model.sampling, limits, None)?;
    request.logprobs = logprobs;
    request.answer_start = prompt::answer_start(&mut fields, model.engine.tokenizer())?;
    refuse_unsupported(&mut fields)?;
    let split = reasoning_format(&mut fields)?;
    let form = forms::take(&mut fields, limits)?;
    let budget = budget(&mut fields, app, model)?;
    let prompt = messages::render(&mut fields, model, limits)?;
    fields.finish()?;
    let reading = if prompt.plain_calls { &model.plain_reading } else { &model.reading };
    let (output, tools) = (&reading.output, prompt.tools.as_ref());
    let opening = || Opening { budget, ..output.opening(prompt.rendered.text()) };
    let bounded = |opening: Opening| {
        let answer = Answer { source: None, calls: None, opening };
        model.compile(&answer, &limits.grammar).map_err(|error| forms::refused(BUDGET[0], &error))
    };
    request.grammar = match (form, tools) {
        (form, Some(tools)) if form.is_some() || tools.is_held() => Some(tools.compile(form, output, opening(), model, limits)?),
        (Some(form), _) => Some(form.compile(model, opening(), limits)?),
        (None, _) => Some(opening()).filter(|opening| budget.is_some() && !opening.pairs.is_empty()).map(bounded).transpose()?,
    };
    let is_needed = tools.is_some() || (split && output.reasons());
    let parser = is_needed.then(|| output.parser(prompt.rendered.text(), tools.map(|tools| &tools.shown), split));
    // A whole answer need not tell of a call before it is complete.
    let parser = if streams { parser.map(Parser::streaming) } else { parser };
    if is_needed {
        request.shown = reading.shown.clone();
    }
    images::fill(&mut request, &prompt.rendered, &prompt.images, model, limits)?;
    Ok(Chat { request, parser })
}

/// llama.cpp's names.
const BUDGET: [&str; 2] = ["thinking_budget_tokens", "reasoning_budget_tokens"];

/// The most tokens of reasoning. Where there are to be none, the template is told so, if it can be.
fn budget(fields: &mut Fields, app: &App, model: &Model) -> Result<Option<usize>, ApiError> {
    let mut asked = None;
    for name in BUDGET {
        if let Some(tokens) = fields.integer(name, -1..=1 << 31)? {
            asked = Some((name, usize::try_from(tokens).ok()));
        }
    }
    if let Some((name, Some(_))) = asked
        && model.engine.config().denoising.is_some()
    {
        let message = format!("`{name}` is not supported: the model does not write from left to right");
        return Err(ApiError::unsupported(name, message));
    }
    let budget = asked.map_or(app.options.reasoning_budget, |(_, budget)| budget).filter(|_| model.engine.config().denoising.is_none());
    let can_turn_off = model.template.as_ref().is_some_and(|template| template.sources().any(|source| source.contains("enable_thinking")));
    if budget == Some(0) && can_turn_off {
        let mut variables = fields.value("chat_template_kwargs").unwrap_or_else(|| Value::Object(Map::new()));
        if let Value::Object(variables) = &mut variables {
            variables.entry("enable_thinking").or_insert(false.into());
        }
        fields.put("chat_template_kwargs", variables);
    }
    Ok(budget)
}

/// Whether reasoning is to be split from content, which it is unless `reasoning_format` is `none`.
fn reasoning_format(fields: &mut Fields) -> Result<bool, ApiError> {
    match fields.string("reasoning_format")?.as_deref() {
        None | Some("auto" | "deepseek") => Ok(true),
        Some("none") => Ok(false),
        Some(_) => Err(ApiError::unsupported("reasoning_format", "`reasoning_format` must be one of auto, deepseek, none")),
    }
}

/// What OpenAI's API has for chats and this server has not.
fn refuse_unsupported(fields: &mut Fields) -> Result<(), ApiError> {
    fields.only("modalities", |v| v.as_array().is_some_and(|m| m.iter().all(|m| m == "text")), "answers are text")?;
    fields.only("audio", |_| false, "answers are text")?;
    fields.only("web_search_options", |_| false, "nothing is looked up")?;
    fields.only("verbosity", |v| v == "medium", "it cannot be told to the model")?;
    // Speeds an answer up where it can be foreseen, and changes nothing in it.
    fields.pass_over(&["prediction"]);
    Ok(())
}
