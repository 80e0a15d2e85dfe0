//! The messages of a chat, checked, and the prompt that a model's template makes of them.

use crate::error::ApiError;
use crate::images::{Image, Images};
use crate::json::{Fields, kind_of, shorten, too_many, wrong_type};
use crate::marks::{AllBarriersUsed, Rendered};
use crate::options::Limits;
use crate::plain_tools::{self, Place};
use crate::state::Model;
use crate::tools::{self, Tools};
use onebit_text::{Error, Render};
use serde_json::{Map, Value, json};

/// A chat's prompt.
pub(crate) struct Prompt {
    pub(crate) rendered: Rendered,
    /// The tools that the model may call.
    pub(crate) tools: Option<Tools>,
    /// The template has no place for tools: they are described in a message, and calls are written as JSON.
    pub(crate) plain_calls: bool,
    /// The images whose marks it has.
    pub(crate) images: Vec<Image>,
}

/// Takes the fields that make the prompt, and renders it.
pub(crate) fn render(fields: &mut Fields, model: &Model, limits: &Limits) -> Result<Prompt, ApiError> {
    let messages = fields.value("messages").ok_or_else(|| ApiError::invalid("messages", "`messages` is missing"))?;
    if model.template.is_none() && model.engine.config().answering.is_some() {
        return plain(fields, messages, limits);
    }
    let template = model.template.as_ref().ok_or_else(|| {
        ApiError::unsupported("messages", "The model has no chat template, so it cannot chat; /v1/completions takes a bare prompt")
    })?;
    let knows = |word: &str| template.sources().any(|source| source.contains(word));
    let tools = tools::take(fields, limits)?;
    let options = options(fields, template.source())?;
    let known = Known { developer: knows("developer") };
    let mut images = Images { sees: model.tower.is_some(), limits, found: vec![] };
    let messages = check(messages, limits, known, &mut images)?;
    // The texts of tools are defused together with those of messages.
    let mut texts = Value::Array(vec![messages, tools.as_ref().map(|tools| tools.shown.clone()).unwrap_or_default()]);
    let barrier = model.marks.defuse(&mut texts).map_err(|AllBarriersUsed| {
        ApiError::invalid("messages", "`messages` hold special tokens together with all noncharacters from U+FDD0 to U+FDEF")
    })?;
    let (messages, shown) = (texts[0].take(), texts[1].take());
    let shown = tools.is_some().then_some(shown);
    let (plain_tools, plain_calls) = (shown.is_some() && !knows("tools"), !knows("tool"));
    let render = |mut messages: Value| {
        model.contents.fit(&mut messages, model.tower.as_ref().map_or("", |tower| tower.processor().bare()));
        let options = Render { tools: shown.clone().filter(|_| !plain_tools), ..options.clone() };
        match template.render(&messages, &options) {
            // Some templates take arguments as text only.
            Err(error @ Error::Messages(_)) if tools::write_arguments(&mut messages) => {
                template.render(&messages, &options).map_err(|_| error)
            }
            rendered => rendered,
        }
    };
    let described = shown.as_ref().filter(|_| plain_tools);
    let text = match described {
        None if !plain_calls => render(messages),
        _ => match render(plain_tools::rewrite(&messages, described, Place::System)) {
            Err(error @ Error::Messages(_)) if plain_tools => {
                render(plain_tools::rewrite(&messages, described, Place::User)).map_err(|_| error)
            }
            rendered => rendered,
        },
    };
    let text = text.map_err(|error| match error {
        Error::Messages(_) => ApiError::invalid("messages", error.to_string()),
        other => ApiError::internal(other),
    })?;
    Ok(Prompt { rendered: Rendered::new(text, barrier), tools, plain_calls: plain_tools, images: images.found })
}

/// The texts of all messages, a line break between them: what a model that answers to a source reads, where no template says otherwise.
fn plain(fields: &mut Fields, messages: Value, limits: &Limits) -> Result<Prompt, ApiError> {
    if tools::take(fields, limits)?.is_some() {
        return Err(ApiError::unsupported("tools", "`tools` is not supported with this model: it answers to one text, and knows no chats"));
    }
    options(fields, "")?;
    let mut images = Images { sees: false, limits, found: vec![] };
    let messages = check(messages, limits, Known { developer: false }, &mut images)?;
    let texts: Vec<&str> = messages.as_array().into_iter().flatten().filter_map(|message| message["content"].as_str()).collect();
    Ok(Prompt { rendered: Rendered::plain(texts.join("\n")), tools: None, plain_calls: false, images: images.found })
}

fn options(fields: &mut Fields, template: &str) -> Result<Render, ApiError> {
    let mut extra = match fields.value("chat_template_kwargs") {
        None => Map::new(),
        Some(Value::Object(variables)) => variables,
        Some(other) => return Err(wrong_type("chat_template_kwargs", "an object", &other)),
    };
    if let Some(effort) = fields.string("reasoning_effort")? {
        let (uses_effort, can_turn_off) = (template.contains("reasoning_effort"), template.contains("enable_thinking"));
        match effort.as_str() {
            _ if uses_effort => drop(extra.insert("reasoning_effort".into(), effort.into())),
            "none" if can_turn_off => drop(extra.insert("enable_thinking".into(), false.into())),
            // Without either, the model does not reason, or does so always, and its template cannot tell it how much.
            _ => return Err(ApiError::unsupported("reasoning_effort", "`reasoning_effort` is not supported with this model")),
        }
    }
    let continue_final_message = fields.boolean("continue_final_message")?.unwrap_or(false);
    let add_generation_prompt = fields.boolean("add_generation_prompt")?.unwrap_or(!continue_final_message);
    if continue_final_message && add_generation_prompt {
        let message = "`continue_final_message` and `add_generation_prompt` must not both be true";
        return Err(ApiError::invalid("continue_final_message", message));
    }
    fields.only("chat_template", |_| false, "the model's own template is used")?;
    fields.only("documents", |v| v.as_array().is_some_and(Vec::is_empty), "documents cannot be given yet")?;
    Ok(Render { add_generation_prompt, continue_final_message, extra, ..Render::default() })
}

/// What a template knows.
#[derive(Clone, Copy)]
struct Known {
    /// The role `developer`.
    developer: bool,
}

/// Messages as templates see them: a known role, and content that is one string, or a list of parts where there are images.
fn check(messages: Value, limits: &Limits, known: Known, images: &mut Images<'_>) -> Result<Value, ApiError> {
    let Value::Array(messages) = messages else { return Err(wrong_type("messages", "an array of messages", &messages)) };
    if messages.is_empty() {
        return Err(ApiError::invalid("messages", "`messages` is empty: at least one is needed"));
    }
    if messages.len() > limits.messages {
        return Err(too_many("messages", messages.len(), limits.messages));
    }
    let checked: Result<_, _> =
        messages.into_iter().enumerate().map(|(i, m)| message(&format!("messages[{i}]"), m, known, images)).collect();
    Ok(Value::Array(checked?))
}

fn message(at: &str, message: Value, known: Known, images: &mut Images<'_>) -> Result<Value, ApiError> {
    let Value::Object(mut message) = message else { return Err(wrong_type(at, "an object", &message)) };
    let role = match message.get("role") {
        Some(Value::String(role)) => role.as_str(),
        None | Some(Value::Null) => return Err(ApiError::invalid(format!("{at}.role"), format!("`{at}.role` is missing"))),
        Some(other) => return Err(wrong_type(&format!("{at}.role"), "a string", other)),
    };
    let is_assistant = role == "assistant";
    let role = match role {
        // OpenAI's newer name for the same thing.
        "developer" if !known.developer => "system",
        "developer" | "system" | "user" | "assistant" | "tool" => role,
        "function" => return Err(ApiError::unsupported(format!("{at}.role"), format!("`{at}.role`: use the role `tool`"))),
        other => {
            let message =
                format!("Invalid value for `{at}.role`: `{}` is not one of system, developer, user, assistant, tool", shorten(other));
            return Err(ApiError::invalid(format!("{at}.role"), message));
        }
    };
    let role = Value::from(role);
    let is_nothing = |v: &Value| v.is_null() || v.as_array().is_some_and(Vec::is_empty);
    if let Some(calls) = message.remove("tool_calls").filter(|v| !is_nothing(v)) {
        let at = format!("{at}.tool_calls");
        if !is_assistant {
            return Err(ApiError::invalid(&at, format!("`{at}` may only be part of a message of the role `assistant`")));
        }
        message.insert("tool_calls".into(), tools::calls(&at, calls)?);
    }
    if let Some(other) = message.get("tool_call_id").filter(|id| !id.is_string() && !id.is_null()) {
        return Err(wrong_type(&format!("{at}.tool_call_id"), "a string", other));
    }
    for name in ["function_call", "audio"] {
        if message.remove(name).is_some_and(|v| !is_nothing(&v)) {
            return Err(ApiError::unsupported(format!("{at}.{name}"), format!("`{at}.{name}` is not supported yet")));
        }
    }
    let content = match message.remove("content") {
        Some(text @ Value::String(_)) => text,
        Some(Value::Array(list)) => parts(&format!("{at}.content"), list, images)?,
        // An answer may have been nothing but a refusal or a call.
        None | Some(Value::Null) if is_assistant => "".into(),
        None | Some(Value::Null) => return Err(ApiError::invalid(format!("{at}.content"), format!("`{at}.content` is missing"))),
        Some(other) => return Err(wrong_type(&format!("{at}.content"), "a string or an array of parts", &other)),
    };
    message.insert("role".into(), role);
    message.insert("content".into(), content);
    Ok(Value::Object(message))
}

/// The text of all parts, a line break between them; or the parts, where some are images.
fn parts(at: &str, parts: Vec<Value>, images: &mut Images<'_>) -> Result<Value, ApiError> {
    let mut kept = Vec::with_capacity(parts.len());
    let before = images.found.len();
    for (j, part) in parts.into_iter().enumerate() {
        let at = format!("{at}[{j}]");
        let Value::Object(part) = part else { return Err(wrong_type(&at, "an object", &part)) };
        let kind = match part.get("type") {
            Some(Value::String(kind)) => kind.as_str(),
            other => return Err(ApiError::invalid(format!("{at}.type"), format!("`{at}.type` is {}", other.map_or("missing", kind_of)))),
        };
        let field = match kind {
            "text" => "text",
            "refusal" => "refusal",
            "image_url" | "input_image" => {
                images.take(&at, &part)?;
                kept.push(json!({ "type": "image" }));
                continue;
            }
            "input_audio" | "video_url" | "file" => {
                let message = format!("`{at}`: `{kind}` cannot be part of a message, as the model does not take it");
                return Err(ApiError::unsupported(at, message));
            }
            other => {
                let message = format!("Invalid value for `{at}.type`: `{}` is not a known kind of content", shorten(other));
                return Err(ApiError::invalid(format!("{at}.type"), message));
            }
        };
        let Some(Value::String(text)) = part.get(field) else {
            return Err(ApiError::invalid(format!("{at}.{field}"), format!("`{at}.{field}` should be a string")));
        };
        kept.push(json!({ "type": "text", "text": text }));
    }
    if images.found.len() > before {
        return Ok(kept.into());
    }
    Ok(kept.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(developer: bool) -> Known {
        Known { developer }
    }

    #[test]
    fn messages_become_plain() {
        let messages = json!([
            { "role": "developer", "content": "d" },
            { "role": "user", "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }], "name": "n" },
            { "role": "assistant", "content": null, "tool_calls": [], "refusal": null },
        ]);
        let limits = Limits::default();
        let mut images = Images { sees: false, limits: &limits, found: vec![] };
        let expected = json!([
            { "role": "system", "content": "d" },
            { "role": "user", "name": "n", "content": "a\nb" },
            { "role": "assistant", "refusal": null, "content": "" },
        ]);
        assert_eq!(check(messages.clone(), &limits, known(false), &mut images), Ok(expected));
        assert_eq!(check(messages, &limits, known(true), &mut images).expect("valid")[0]["role"], "developer");
    }

    #[test]
    fn refusals_name_the_field() {
        let part = |part: Value| json!([{ "role": "user", "content": "x" }, { "role": "user", "content": [part] }]);
        for (messages, param) in [
            (json!("hi"), "messages"),
            (json!([]), "messages"),
            (json!(vec![json!({ "role": "user", "content": "x" }); 4]), "messages"),
            (json!(["hi"]), "messages[0]"),
            (json!([{ "content": "x" }]), "messages[0].role"),
            (json!([{ "role": 1, "content": "x" }]), "messages[0].role"),
            (json!([{ "role": "wizard", "content": "x" }]), "messages[0].role"),
            (json!([{ "role": "user" }]), "messages[0].content"),
            (json!([{ "role": "user", "content": 1 }]), "messages[0].content"),
            (json!([{ "role": "user", "content": {} }]), "messages[0].content"),
            (json!([{ "role": "assistant", "tool_calls": [{}] }]), "messages[0].tool_calls[0].function"),
            (part(json!("text")), "messages[1].content[0]"),
            (part(json!({ "text": "x" })), "messages[1].content[0].type"),
            (part(json!({ "type": "hologram" })), "messages[1].content[0].type"),
            (part(json!({ "type": "text" })), "messages[1].content[0].text"),
            (part(json!({ "type": "text", "text": 1 })), "messages[1].content[0].text"),
            (part(json!({ "type": "image_url", "image_url": { "url": "data:" } })), "messages[1].content[0]"),
            (part(json!({ "type": "input_audio" })), "messages[1].content[0]"),
        ] {
            let limits = Limits { messages: 3, ..Limits::default() };
            let mut images = Images { sees: false, limits: &limits, found: vec![] };
            let error = check(messages.clone(), &limits, known(false), &mut images).expect_err("refused");
            assert_eq!((error.status.as_u16(), error.param.as_deref()), (400, Some(param)), "{messages}");
        }
    }
}
