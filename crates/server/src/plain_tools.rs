//! Tools for models whose template has no place for them: described in the system's message, their calls written as JSON, what calls
//! gave told by the user.

use serde_json::{Value, json};
use std::fmt::Write;

/// What the model is told of its tools.
fn description(tools: &Value) -> String {
    let mut text = String::from("You can call these functions, one a line, each with a JSON schema of its arguments:\n");
    for tool in tools.as_array().into_iter().flatten() {
        let _ = writeln!(text, "{}", tool["function"]);
    }
    text.push_str(
        "\nTo call a function, answer with nothing but a JSON object: {\"name\": \"FUNCTION\", \"arguments\": {...}}. To call several, write \
         one such object a line. What they give comes with the next message, between <tool_response> and </tool_response>. Where no function \
         helps, answer as usual.",
    );
    text
}

/// Where tools are described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the first message, which is the system's.
    System,
    /// In front of the user's first message, for templates that take none of the system.
    User,
}

/// Messages as a template takes them that knows neither tools nor calls.
pub(crate) fn rewrite(messages: &Value, tools: Option<&Value>, place: Place) -> Value {
    let mut out: Vec<Value> = Vec::new();
    let mut after_response = false;
    for message in messages.as_array().into_iter().flatten() {
        let mut message = message.clone();
        let is_response = message["role"] == "tool";
        if is_response {
            let text = format!("<tool_response>\n{}\n</tool_response>", text_of(&message["content"]));
            if after_response && let Some(last) = out.last_mut() {
                append(last, &text);
                continue;
            }
            message = json!({ "role": "user", "content": text });
        } else if after_response
            && message["role"] == "user"
            && let (Some(text), Some(last)) = (message["content"].as_str(), out.last_mut())
        {
            // Many templates want users and assistants to take turns.
            append(last, text);
            after_response = false;
            continue;
        }
        let calls = message.as_object_mut().and_then(|message| message.remove("tool_calls"));
        for call in calls.as_ref().and_then(Value::as_array).into_iter().flatten() {
            let function = &call["function"];
            append(&mut message, &json!({ "name": function["name"], "arguments": function["arguments"] }).to_string());
        }
        after_response = is_response;
        out.push(message);
    }
    let Some(tools) = tools else { return out.into() };
    let described = description(tools);
    match place {
        Place::System => match out.first_mut() {
            Some(first) if first["role"] == "system" || first["role"] == "developer" => append(first, &described),
            _ => out.insert(0, json!({ "role": "system", "content": described })),
        },
        Place::User => {
            let system = out.first().is_some_and(|first| first["role"] == "system" || first["role"] == "developer").then(|| out.remove(0));
            let begin = system.map_or(described.clone(), |system| format!("{}\n\n{described}", text_of(&system["content"])));
            match out.iter_mut().find(|message| message["role"] == "user") {
                Some(user) => prepend(user, &begin),
                None => out.insert(0, json!({ "role": "user", "content": begin })),
            }
        }
    }
    out.into()
}

/// The text of a message's content.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}

fn append(message: &mut Value, text: &str) {
    match &mut message["content"] {
        Value::Array(parts) => parts.push(json!({ "type": "text", "text": text })),
        Value::String(content) if !content.is_empty() => {
            content.push('\n');
            content.push_str(text);
        }
        content => *content = text.into(),
    }
}

fn prepend(message: &mut Value, text: &str) {
    match &mut message["content"] {
        Value::Array(parts) => parts.insert(0, json!({ "type": "text", "text": text })),
        content => *content = format!("{text}\n\n{}", text_of(content)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_without_tools() {
        let call = |name: &str| json!({ "id": "c", "type": "function", "function": { "name": name, "arguments": { "a": 1 } } });
        let messages = json!([
            { "role": "system", "content": "S" },
            { "role": "user", "content": "Q" },
            { "role": "assistant", "content": "I look.", "tool_calls": [call("f"), call("g")] },
            { "role": "tool", "content": "r1" },
            { "role": "tool", "content": "r2" },
            { "role": "user", "content": "And this?" },
        ]);
        let tools = json!([{ "type": "function", "function": { "name": "f" } }]);
        let got = rewrite(&messages, Some(&tools), Place::System);
        let system = got[0]["content"].as_str().expect("text");
        assert!(system.starts_with("S\nYou can call") && system.contains("\n{\"name\":\"f\"}\n"), "{system}");
        let rest = json!([
            { "role": "user", "content": "Q" },
            { "role": "assistant", "content": "I look.\n{\"name\":\"f\",\"arguments\":{\"a\":1}}\n{\"name\":\"g\",\"arguments\":{\"a\":1}}" },
            { "role": "user", "content": "<tool_response>\nr1\n</tool_response>\n<tool_response>\nr2\n</tool_response>\nAnd this?" },
        ]);
        assert_eq!(json!(got.as_array().expect("messages")[1..]), rest);
        let got = rewrite(&messages, Some(&tools), Place::User);
        let first = got[0]["content"].as_str().expect("text");
        assert!(got[0]["role"] == "user" && first.starts_with("S\n\nYou can call") && first.ends_with("\n\nQ"), "{first}");
        assert_eq!(rewrite(&messages, None, Place::System)[0]["content"], "S");
    }
}
