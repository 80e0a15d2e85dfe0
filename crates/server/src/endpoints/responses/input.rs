//! A request for a response, as one for a chat.

use crate::error::ApiError;
use crate::json::{Fields, kind_of, shorten, wrong_type};
use serde_json::{Map, Value, json};

/// What of a request is told in its answer, or shapes it.
pub(super) struct Asked {
    /// What the answer repeats.
    pub(super) echo: Map<String, Value>,
    /// Alternatives of each token whose logprobs are to be told.
    pub(super) logprobs: Option<usize>,
}

/// What is repeated, and what it is where the request does not say.
fn echo(fields: &Fields) -> Map<String, Value> {
    let defaults = [
        ("instructions", Value::Null),
        ("max_output_tokens", Value::Null),
        ("metadata", json!({})),
        ("parallel_tool_calls", true.into()),
        ("reasoning", json!({ "effort": null, "summary": null })),
        ("safety_identifier", Value::Null),
        ("service_tier", "default".into()),
        ("temperature", Value::Null),
        ("text", json!({ "format": { "type": "text" } })),
        ("tool_choice", "auto".into()),
        ("tools", json!([])),
        ("top_logprobs", 0.into()),
        ("top_p", Value::Null),
        ("user", Value::Null),
    ];
    defaults.into_iter().map(|(name, default)| (name.to_owned(), fields.peek(name).cloned().unwrap_or(default))).collect()
}

/// Puts the fields of a chat in the place of those of a response.
pub(super) fn chat(fields: &mut Fields, most_logprobs: usize) -> Result<Asked, ApiError> {
    let echo = echo(fields);
    const STATELESS: &str = "nothing is stored: send the whole conversation in `input`";
    fields.only("previous_response_id", |_| false, STATELESS)?;
    fields.only("conversation", |_| false, STATELESS)?;
    fields.only("prompt", |_| false, "no prompts are stored: send `instructions` and `input`")?;
    fields.only("background", |v| v == false, "answers are given at once, and not kept")?;
    fields.only("truncation", |v| v == "disabled", "an input that is too long is refused, and nothing left out of it")?;
    // It bounds calls of tools that the server itself runs, of which there are none; and what a client notes for itself.
    fields.pass_over(&["max_tool_calls", "client_metadata"]);
    stream_options(fields)?;
    let logprobs = logprobs(fields, most_logprobs)?;
    let mut messages = Vec::new();
    if let Some(instructions) = fields.string("instructions")? {
        messages.push(json!({ "role": "system", "content": instructions }));
    }
    match fields.value("input") {
        Some(Value::String(text)) => messages.push(json!({ "role": "user", "content": text })),
        Some(Value::Array(list)) => items(list, &mut messages)?,
        None => return Err(ApiError::invalid("input", "`input` is missing")),
        Some(other) => return Err(wrong_type("input", "a string or an array of items", &other)),
    }
    // Another name for the same would be taken for it.
    for name in ["messages", "response_format", "reasoning_effort", "verbosity"] {
        if fields.value(name).is_some() {
            let message = format!("Unrecognized request argument supplied: {name}");
            return Err(ApiError::bad_request(message).of(name).coded("unknown_parameter"));
        }
    }
    fields.put("messages", messages.into());
    text(fields)?;
    reasoning(fields)?;
    tools(fields)?;
    tool_choice(fields)?;
    Ok(Asked { echo, logprobs })
}

/// A fault in a field of the chat, under the name that the response's request has for it.
pub(super) fn in_its_words(mut error: ApiError) -> ApiError {
    const NAMES: &[(&str, &str)] = &[
        ("response_format.json_schema", "text.format"),
        ("response_format", "text.format"),
        ("reasoning_effort", "reasoning.effort"),
        ("verbosity", "text.verbosity"),
        ("tool_choice.allowed_tools", "tool_choice"),
        ("tool_choice.function", "tool_choice"),
    ];
    let Some(param) = error.param.take() else { return error };
    let renamed = NAMES.iter().find_map(|(of_chat, own)| param.strip_prefix(of_chat).map(|rest| [*own, rest].concat()));
    let renamed = renamed.unwrap_or_else(|| match param.split_once(']') {
        // Items do not become messages one by one, and each was looked at before.
        Some((head, _)) if head.starts_with("messages[") => "input".into(),
        _ if param == "messages" => "input".into(),
        Some((head, rest)) if head.starts_with("tools[") => format!("{head}]{}", rest.replacen(".function", "", 1)),
        _ => param.clone(),
    });
    error.message = error.message.replace(&format!("`{param}`"), &format!("`{renamed}`"));
    error.param = Some(renamed);
    error
}

/// Streams are not padded, and tell usage always.
fn stream_options(fields: &mut Fields) -> Result<(), ApiError> {
    let only = |v: &Value| {
        v.as_object().is_some_and(|v| v.iter().all(|(name, v)| name == "include_obfuscation" && (v.is_boolean() || v.is_null())))
    };
    fields.only("stream_options", only, "it may hold `include_obfuscation`, and no padding is sent")
}

/// `include` and `top_logprobs`.
fn logprobs(fields: &mut Fields, most: usize) -> Result<Option<usize>, ApiError> {
    let top = fields.integer("top_logprobs", 0..=most as i64)?.map(|n| n as usize);
    let include = match fields.value("include") {
        None => vec![],
        Some(Value::Array(list)) => list,
        Some(other) => return Err(wrong_type("include", "an array of strings", &other)),
    };
    let mut wanted = false;
    for (i, name) in include.iter().enumerate() {
        match name.as_str() {
            Some("message.output_text.logprobs") => wanted = true,
            // Reasoning is there as it is; as nothing is stored, clients send it back themselves.
            Some("reasoning.encrypted_content") => {}
            Some(other) => {
                let message = format!("`include[{i}]` is not supported: `{}`", shorten(other));
                return Err(ApiError::unsupported(format!("include[{i}]"), message));
            }
            None => return Err(wrong_type(&format!("include[{i}]"), "a string", name)),
        }
    }
    match (wanted, top) {
        (false, Some(1..)) => {
            let message = "`top_logprobs` needs `message.output_text.logprobs` in `include`";
            Err(ApiError::invalid("top_logprobs", message))
        }
        (wanted, top) => Ok(wanted.then_some(top.unwrap_or(0))),
    }
}

/// `text`: the form of the answer.
fn text(fields: &mut Fields) -> Result<(), ApiError> {
    let mut text = match fields.value("text") {
        None => return Ok(()),
        Some(Value::Object(text)) => text,
        Some(other) => return Err(wrong_type("text", "an object", &other)),
    };
    if let Some(verbosity) = text.remove("verbosity").filter(|v| !v.is_null()) {
        fields.put("verbosity", verbosity);
    }
    match text.remove("format") {
        None | Some(Value::Null) => {}
        Some(Value::Object(mut format)) => {
            let kind = format.remove("type").unwrap_or_default();
            let format = if kind == "json_schema" {
                json!({ "type": kind, "json_schema": format })
            } else {
                format.insert("type".into(), kind);
                format.into()
            };
            fields.put("response_format", format);
        }
        Some(other) => return Err(wrong_type("text.format", "an object", &other)),
    }
    nothing_left("text", &text)
}

/// `reasoning`. No summaries are made, whoever asks for one gets the reasoning itself.
fn reasoning(fields: &mut Fields) -> Result<(), ApiError> {
    let mut reasoning = match fields.value("reasoning") {
        None => return Ok(()),
        Some(Value::Object(reasoning)) => reasoning,
        Some(other) => return Err(wrong_type("reasoning", "an object", &other)),
    };
    if let Some(effort) = reasoning.remove("effort").filter(|v| !v.is_null()) {
        fields.put("reasoning_effort", effort);
    }
    for name in ["summary", "generate_summary"] {
        match reasoning.remove(name) {
            None | Some(Value::Null) => {}
            Some(Value::String(how)) if ["auto", "concise", "detailed"].contains(&how.as_str()) => {}
            Some(_) => {
                let at = format!("reasoning.{name}");
                return Err(ApiError::invalid(&at, format!("`{at}` must be auto, concise or detailed")));
            }
        }
    }
    nothing_left("reasoning", &reasoning)
}

/// `tools`, whose functions are not within an object of their own here.
fn tools(fields: &mut Fields) -> Result<(), ApiError> {
    let tools = match fields.value("tools") {
        None => return Ok(()),
        Some(Value::Array(tools)) => tools,
        Some(other) => return Err(wrong_type("tools", "an array of tools", &other)),
    };
    let mut out = Vec::with_capacity(tools.len());
    for (i, tool) in tools.into_iter().enumerate() {
        let Value::Object(mut tool) = tool else { return Err(wrong_type(&format!("tools[{i}]"), "an object", &tool)) };
        let kind = tool.remove("type").unwrap_or_default();
        for name in tool.keys() {
            if !["name", "description", "parameters", "strict"].contains(&name.as_str()) && kind == "function" {
                let at = format!("tools[{i}].{}", shorten(name));
                return Err(ApiError::bad_request(format!("Unrecognized request argument supplied: {at}"))
                    .of(at)
                    .coded("unknown_parameter"));
            }
        }
        out.push(json!({ "type": kind, "function": tool }));
    }
    fields.put("tools", out.into());
    Ok(())
}

fn tool_choice(fields: &mut Fields) -> Result<(), ApiError> {
    let nested = |mut tool: Map<String, Value>| {
        let kind = tool.remove("type").unwrap_or_default();
        json!({ "type": kind, "function": tool })
    };
    let choice = match fields.value("tool_choice") {
        None => return Ok(()),
        Some(Value::Object(mut choice)) if choice.get("type") == Some(&json!("allowed_tools")) => {
            choice.remove("type");
            if let Some(Value::Array(tools)) = choice.get_mut("tools") {
                for tool in tools {
                    if let Value::Object(map) = tool {
                        *tool = nested(std::mem::take(map));
                    }
                }
            }
            json!({ "type": "allowed_tools", "allowed_tools": choice })
        }
        Some(Value::Object(choice)) => nested(choice),
        Some(other) => other,
    };
    fields.put("tool_choice", choice);
    Ok(())
}

/// Items as messages: what an assistant thought, said and called in a row is one message.
fn items(list: Vec<Value>, messages: &mut Vec<Value>) -> Result<(), ApiError> {
    // Whether the last message is an assistant's that may go on.
    let mut goes_on = false;
    for (i, item) in list.into_iter().enumerate() {
        let at = format!("input[{i}]");
        let Value::Object(item) = item else { return Err(wrong_type(&at, "an object", &item)) };
        let kind = match item.get("type") {
            None | Some(Value::Null) => "message",
            Some(Value::String(kind)) => kind.as_str(),
            Some(other) => return Err(wrong_type(&format!("{at}.type"), "a string", other)),
        };
        match kind {
            "message" => {
                let role = item.get("role").and_then(Value::as_str).unwrap_or_default();
                if !["user", "assistant", "system", "developer"].contains(&role) {
                    let at = format!("{at}.role");
                    return Err(ApiError::invalid(&at, format!("`{at}` must be one of user, assistant, system, developer")));
                }
                let content = content(&format!("{at}.content"), item.get("content"))?;
                let is_assistant = role == "assistant";
                match messages.last_mut() {
                    Some(last) if goes_on && is_assistant && last["content"] == "" && last.get("tool_calls").is_none() => {
                        last["content"] = content;
                    }
                    _ => messages.push(json!({ "role": role, "content": content })),
                }
                goes_on = is_assistant;
            }
            "reasoning" => {
                let text = thought(&at, &item)?;
                messages.push(json!({ "role": "assistant", "content": "", "reasoning_content": text }));
                goes_on = true;
            }
            "function_call" => {
                let text = |name: &str| string(&at, &item, name);
                let call = json!({ "id": text("call_id")?, "type": "function", "function": { "name": text("name")?, "arguments": text("arguments")? } });
                if !goes_on {
                    messages.push(json!({ "role": "assistant", "content": "" }));
                }
                if let Some(last) = messages.last_mut() {
                    match last.get_mut("tool_calls").and_then(Value::as_array_mut) {
                        Some(calls) => calls.push(call),
                        None => last["tool_calls"] = json!([call]),
                    }
                }
                goes_on = true;
            }
            "function_call_output" => {
                let output = content(&format!("{at}.output"), item.get("output"))?;
                messages.push(json!({ "role": "tool", "tool_call_id": string(&at, &item, "call_id")?, "content": output }));
                goes_on = false;
            }
            "item_reference" => {
                let message = format!("`{at}` refers to an item, but nothing is stored: send the item itself");
                return Err(ApiError::unsupported(at, message));
            }
            other => {
                let message = format!("`{at}.type` is not supported: `{}`", shorten(other));
                return Err(ApiError::unsupported(format!("{at}.type"), message));
            }
        }
    }
    Ok(())
}

fn string(at: &str, item: &Map<String, Value>, name: &str) -> Result<String, ApiError> {
    match item.get(name) {
        Some(Value::String(text)) => Ok(text.clone()),
        None | Some(Value::Null) => Err(ApiError::invalid(format!("{at}.{name}"), format!("`{at}.{name}` is missing"))),
        Some(other) => Err(wrong_type(&format!("{at}.{name}"), "a string", other)),
    }
}

/// What was thought: the text, or else what was summed up of it.
fn thought(at: &str, item: &Map<String, Value>) -> Result<String, ApiError> {
    let texts = |name: &str| -> Result<Vec<String>, ApiError> {
        match item.get(name) {
            None | Some(Value::Null) => Ok(vec![]),
            Some(Value::Array(parts)) => Ok(parts.iter().filter_map(|part| part["text"].as_str().map(str::to_owned)).collect()),
            Some(other) => Err(wrong_type(&format!("{at}.{name}"), "an array of parts", other)),
        }
    };
    let (own, summary) = (texts("content")?, texts("summary")?);
    Ok(if own.is_empty() { summary } else { own }.join("\n"))
}

/// Content as chats have it.
fn content(at: &str, content: Option<&Value>) -> Result<Value, ApiError> {
    let parts = match content {
        Some(text @ Value::String(_)) => return Ok(text.clone()),
        Some(Value::Array(parts)) => parts,
        None | Some(Value::Null) => return Err(ApiError::invalid(at, format!("`{at}` is missing"))),
        Some(other) => return Err(wrong_type(at, "a string or an array of parts", other)),
    };
    let mut out = Vec::with_capacity(parts.len());
    for (j, part) in parts.iter().enumerate() {
        let at = format!("{at}[{j}]");
        let Value::Object(part) = part else { return Err(wrong_type(&at, "an object", part)) };
        out.push(match part.get("type").and_then(Value::as_str) {
            Some("input_text" | "output_text" | "text") => json!({ "type": "text", "text": string(&at, part, "text")? }),
            Some("refusal") => json!({ "type": "refusal", "refusal": string(&at, part, "refusal")? }),
            Some("input_image") => {
                if part.get("file_id").is_some_and(|id| !id.is_null()) {
                    let message = format!("`{at}.file_id` is not supported: no files are stored; send `image_url`");
                    return Err(ApiError::unsupported(format!("{at}.file_id"), message));
                }
                let mut image = json!({ "url": string(&at, part, "image_url")? });
                if let Some(detail) = part.get("detail") {
                    image["detail"] = detail.clone();
                }
                json!({ "type": "image_url", "image_url": image })
            }
            other => {
                let found =
                    other.map_or_else(|| part.get("type").map_or("missing", kind_of).to_owned(), |kind| format!("`{}`", shorten(kind)));
                return Err(ApiError::unsupported(format!("{at}.type"), format!("`{at}.type` is not supported: {found}")));
            }
        });
    }
    // Texts alone are one text.
    Ok(out.into())
}

fn nothing_left(at: &str, rest: &Map<String, Value>) -> Result<(), ApiError> {
    match rest.iter().find(|(_, value)| !value.is_null()) {
        None => Ok(()),
        Some((name, _)) => {
            let param = format!("{at}.{}", shorten(name));
            Err(ApiError::bad_request(format!("Unrecognized request argument supplied: {param}")).of(param).coded("unknown_parameter"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Limits;

    fn asked(body: Value) -> Result<Fields, ApiError> {
        let mut fields = crate::json::object(body.to_string().as_bytes(), &Limits::default())?;
        chat(&mut fields, 20)?;
        Ok(fields)
    }

    #[test]
    fn items_become_messages() {
        let fields = asked(json!({ "instructions": "Be brief.", "input": [
            { "role": "user", "content": "Q" },
            { "type": "reasoning", "id": "rs_1", "summary": [], "content": [{ "type": "reasoning_text", "text": "Hm." }] },
            { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "I look.", "annotations": [] }] },
            { "type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}", "id": "fc_1", "status": "completed" },
            { "type": "function_call", "call_id": "c2", "name": "g", "arguments": "{\"a\":1}" },
            { "type": "function_call_output", "call_id": "c1", "output": "r1" },
            { "type": "function_call_output", "call_id": "c2", "output": [{ "type": "input_text", "text": "r2" }] },
            { "type": "function_call", "call_id": "c3", "name": "f", "arguments": "{}" },
            { "type": "message", "role": "user", "content": [{ "type": "input_image", "image_url": "data:x", "detail": "auto" }] },
        ] }))
        .expect("valid");
        let call = |id: &str, name: &str, arguments: &str| json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } });
        let expected = json!([
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": "Q" },
            { "role": "assistant", "content": [{ "type": "text", "text": "I look." }], "reasoning_content": "Hm.", "tool_calls": [call("c1", "f", "{}"), call("c2", "g", "{\"a\":1}")] },
            { "role": "tool", "tool_call_id": "c1", "content": "r1" },
            { "role": "tool", "tool_call_id": "c2", "content": [{ "type": "text", "text": "r2" }] },
            { "role": "assistant", "content": "", "tool_calls": [call("c3", "f", "{}")] },
            { "role": "user", "content": [{ "type": "image_url", "image_url": { "url": "data:x", "detail": "auto" } }] },
        ]);
        assert_eq!(fields.peek("messages"), Some(&expected));
    }

    #[test]
    fn other_fields_become_those_of_a_chat() {
        let schema = json!({ "type": "object" });
        let fields = asked(json!({
            "input": "Q", "text": { "format": { "type": "json_schema", "name": "n", "schema": schema, "strict": true }, "verbosity": "medium" },
            "reasoning": { "effort": "low", "summary": "auto" },
            "tools": [{ "type": "function", "name": "f", "parameters": schema, "strict": true }],
            "tool_choice": { "type": "allowed_tools", "mode": "auto", "tools": [{ "type": "function", "name": "f" }] },
        }))
        .expect("valid");
        let format = json!({ "type": "json_schema", "json_schema": { "name": "n", "schema": schema, "strict": true } });
        for (name, expected) in [
            ("response_format", format),
            ("verbosity", json!("medium")),
            ("reasoning_effort", json!("low")),
            ("tools", json!([{ "type": "function", "function": { "name": "f", "parameters": schema, "strict": true } }])),
            (
                "tool_choice",
                json!({ "type": "allowed_tools", "allowed_tools": { "mode": "auto", "tools": [{ "type": "function", "function": { "name": "f" } }] } }),
            ),
        ] {
            assert_eq!(fields.peek(name), Some(&expected), "{name}");
        }
    }

    #[test]
    fn refusals_name_the_field() {
        for (body, param) in [
            (json!({}), "input"),
            (json!({ "input": 1 }), "input"),
            (json!({ "input": ["x"] }), "input[0]"),
            (json!({ "input": [{ "role": "wizard", "content": "x" }] }), "input[0].role"),
            (json!({ "input": [{ "role": "user" }] }), "input[0].content"),
            (json!({ "input": [{ "role": "user", "content": [{ "type": "input_file" }] }] }), "input[0].content[0].type"),
            (json!({ "input": [{ "role": "user", "content": [{ "type": "input_text" }] }] }), "input[0].content[0].text"),
            (
                json!({ "input": [{ "role": "user", "content": [{ "type": "input_image", "file_id": "f" }] }] }),
                "input[0].content[0].file_id",
            ),
            (json!({ "input": [{ "type": "item_reference", "id": "x" }] }), "input[0]"),
            (json!({ "input": [{ "type": "web_search_call" }] }), "input[0].type"),
            (json!({ "input": [{ "type": "function_call", "name": "f", "arguments": "{}" }] }), "input[0].call_id"),
            (json!({ "input": [{ "type": "function_call_output", "call_id": "c" }] }), "input[0].output"),
            (json!({ "input": "x", "previous_response_id": "r" }), "previous_response_id"),
            (json!({ "input": "x", "conversation": "c" }), "conversation"),
            (json!({ "input": "x", "prompt": { "id": "p" } }), "prompt"),
            (json!({ "input": "x", "background": true }), "background"),
            (json!({ "input": "x", "truncation": "auto" }), "truncation"),
            (json!({ "input": "x", "include": ["file_search_call.results"] }), "include[0]"),
            (json!({ "input": "x", "top_logprobs": 2 }), "top_logprobs"),
            (json!({ "input": "x", "messages": [] }), "messages"),
            (json!({ "input": "x", "text": { "form": 1 } }), "text.form"),
            (json!({ "input": "x", "reasoning": { "summary": "long" } }), "reasoning.summary"),
            (json!({ "input": "x", "reasoning": { "budget": 1 } }), "reasoning.budget"),
            (json!({ "input": "x", "tools": [{ "type": "function", "name": "f", "wat": 1 }] }), "tools[0].wat"),
            (json!({ "input": "x", "stream_options": { "include_usage": true } }), "stream_options"),
        ] {
            assert_eq!(asked(body.clone()).expect_err("refused").param.as_deref(), Some(param), "{body}");
        }
    }

    #[test]
    fn faults_have_the_names_of_a_response() {
        for (of_chat, own) in [
            ("messages[3].content", "input"),
            ("response_format.json_schema.schema", "text.format.schema"),
            ("response_format.type", "text.format.type"),
            ("tools[2].function.parameters", "tools[2].parameters"),
            ("tools[2].type", "tools[2].type"),
            ("tool_choice.function.name", "tool_choice.name"),
            ("tool_choice.allowed_tools.mode", "tool_choice.mode"),
            ("reasoning_effort", "reasoning.effort"),
            ("temperature", "temperature"),
        ] {
            let error = in_its_words(ApiError::invalid(of_chat, format!("`{of_chat}` is wrong")));
            assert_eq!((error.param.as_deref(), error.message), (Some(own), format!("`{own}` is wrong")));
        }
    }
}
