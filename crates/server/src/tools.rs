//! The tools of a request, and the calls of them in its messages.

use crate::error::ApiError;
use crate::json::{Fields, shorten, too_many, wrong_type};
use crate::options::Limits;
use serde_json::{Map, Value};

/// Takes `tools` and what governs their use. None are left where the model is not to call any, so that its template does not
/// show them either. `has_place` says whether the template has a place for them.
pub(crate) fn take(fields: &mut Fields, limits: &Limits, has_place: bool) -> Result<Option<Value>, ApiError> {
    let is_empty = |v: &Value| v.as_array().is_some_and(Vec::is_empty);
    fields.only("functions", is_empty, "use `tools`")?;
    fields.only("function_call", |v| v == "none" || v == "auto", "use `tool_choice`")?;
    let parallel = fields.boolean("parallel_tool_calls")?.unwrap_or(true);
    let is_off = match fields.value("tool_choice") {
        None => false,
        Some(Value::String(choice)) if choice == "auto" => false,
        Some(Value::String(choice)) if choice == "none" => true,
        Some(Value::String(choice)) if choice != "required" => {
            let message = format!("Invalid value for `tool_choice`: `{}` is not one of none, auto, required", shorten(&choice));
            return Err(ApiError::invalid("tool_choice", message));
        }
        Some(Value::String(_) | Value::Object(_)) => {
            let message = "`tool_choice` is not supported with this value: a call cannot be forced yet; send `auto` or `none`";
            return Err(ApiError::unsupported("tool_choice", message));
        }
        Some(other) => return Err(wrong_type("tool_choice", "a string or an object", &other)),
    };
    let tools = match fields.value("tools") {
        None => return Ok(None),
        Some(Value::Array(tools)) => tools,
        Some(other) => return Err(wrong_type("tools", "an array of tools", &other)),
    };
    if tools.len() > limits.tools {
        return Err(too_many("tools", tools.len(), limits.tools));
    }
    let tools = tools.into_iter().enumerate().map(|(i, t)| tool(&format!("tools[{i}]"), t)).collect::<Result<Vec<Value>, _>>()?;
    if tools.is_empty() || is_off {
        return Ok(None);
    }
    if !has_place {
        return Err(ApiError::unsupported("tools", "`tools` is not supported with this model: its chat template has no place for them"));
    }
    if !parallel {
        let message = "`parallel_tool_calls` must not be false: answers cannot be held to one call yet";
        return Err(ApiError::unsupported("parallel_tool_calls", message));
    }
    Ok(Some(tools.into()))
}

/// `{"type": "function", "function": {"name", "description", "parameters"}}`, without what says nothing.
fn tool(at: &str, tool: Value) -> Result<Value, ApiError> {
    let mut tool = object(at, tool)?;
    is_function(at, &tool)?;
    let at = format!("{at}.function");
    let mut function = object(&at, tool.remove("function").unwrap_or_default())?;
    name(&at, &function)?;
    match function.get("description") {
        None | Some(Value::Null | Value::String(_)) => {}
        Some(other) => return Err(wrong_type(&format!("{at}.description"), "a string", other)),
    }
    match function.get("parameters") {
        None | Some(Value::Null | Value::Object(_)) => {}
        Some(other) => return Err(wrong_type(&format!("{at}.parameters"), "an object", other)),
    }
    match function.remove("strict") {
        None | Some(Value::Null | Value::Bool(false)) => {}
        Some(Value::Bool(true)) => {
            let message = format!("`{at}.strict` must not be true: arguments cannot be held to their schema yet");
            return Err(ApiError::unsupported(format!("{at}.strict"), message));
        }
        Some(other) => return Err(wrong_type(&format!("{at}.strict"), "a boolean", &other)),
    }
    function.retain(|_, value| !value.is_null());
    tool.insert("type".into(), "function".into());
    tool.insert("function".into(), function.into());
    Ok(tool.into())
}

/// An assistant's calls, their arguments as objects, which is what templates take.
pub(crate) fn calls(at: &str, calls: Value) -> Result<Value, ApiError> {
    let Value::Array(calls) = calls else { return Err(wrong_type(at, "an array of calls", &calls)) };
    calls.into_iter().enumerate().map(|(i, c)| call(&format!("{at}[{i}]"), c)).collect::<Result<Vec<Value>, _>>().map(Value::from)
}

fn call(at: &str, call: Value) -> Result<Value, ApiError> {
    let mut call = object(at, call)?;
    is_function(at, &call)?;
    if let Some(other) = call.get("id").filter(|id| !id.is_string() && !id.is_null()) {
        return Err(wrong_type(&format!("{at}.id"), "a string", other));
    }
    let at = format!("{at}.function");
    let mut function = object(&at, call.remove("function").unwrap_or_default())?;
    name(&at, &function)?;
    let at = format!("{at}.arguments");
    let arguments = match function.remove("arguments") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::String(text)) if text.trim().is_empty() => Map::new(),
        Some(Value::Object(arguments)) => arguments,
        Some(Value::String(text)) => {
            serde_json::from_str(&text).map_err(|e| ApiError::invalid(&at, format!("`{at}` is not a JSON object: {e}")))?
        }
        Some(other) => return Err(wrong_type(&at, "a string", &other)),
    };
    function.insert("arguments".into(), arguments.into());
    call.insert("type".into(), "function".into());
    call.insert("function".into(), function.into());
    Ok(call.into())
}

/// The arguments of all calls as text, for templates that put them into the prompt as they are. False if there are no calls.
pub(crate) fn write_arguments(messages: &mut Value) -> bool {
    let mut found = false;
    let messages = messages.as_array_mut().into_iter().flatten();
    for call in messages.filter_map(|m| m.get_mut("tool_calls")?.as_array_mut()).flatten() {
        if let Some(arguments) = call.pointer_mut("/function/arguments") {
            *arguments = arguments.to_string().into();
            found = true;
        }
    }
    found
}

fn object(at: &str, value: Value) -> Result<Map<String, Value>, ApiError> {
    match value {
        Value::Object(map) => Ok(map),
        Value::Null => Err(ApiError::invalid(at, format!("`{at}` is missing"))),
        other => Err(wrong_type(at, "an object", &other)),
    }
}

/// `type` may be left out, as the only one is `function`.
fn is_function(at: &str, map: &Map<String, Value>) -> Result<(), ApiError> {
    let at = format!("{at}.type");
    match map.get("type") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(kind)) if kind == "function" => Ok(()),
        Some(Value::String(kind)) => {
            let message = format!("`{at}` is not supported: `{}` (only functions can be called)", shorten(kind));
            Err(ApiError::unsupported(at, message))
        }
        Some(other) => Err(wrong_type(&at, "a string", other)),
    }
}

fn name(at: &str, function: &Map<String, Value>) -> Result<(), ApiError> {
    let at = format!("{at}.name");
    match function.get("name") {
        Some(Value::String(name)) if !name.is_empty() && name.len() <= 256 => Ok(()),
        Some(Value::String(name)) => Err(ApiError::invalid(&at, format!("`{at}` has {} bytes; 1 to 256 are allowed", name.len()))),
        None | Some(Value::Null) => Err(ApiError::invalid(&at, format!("`{at}` is missing"))),
        Some(other) => Err(wrong_type(&at, "a string", other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tools(body: Value) -> Result<Option<Value>, ApiError> {
        let limits = Limits { tools: 2, ..Limits::default() };
        let mut fields = crate::json::object(body.to_string().as_bytes(), &limits)?;
        let tools = take(&mut fields, &limits, true)?;
        fields.finish()?;
        Ok(tools)
    }

    #[test]
    fn tools_as_templates_take_them() {
        let f = json!({ "type": "function", "function": { "name": "f", "strict": false, "description": null, "parameters": {} } });
        let plain = json!([{ "type": "function", "function": { "name": "f", "parameters": {} } }]);
        assert_eq!(tools(json!({ "tools": [f], "tool_choice": "auto", "parallel_tool_calls": true })), Ok(Some(plain)));
        for none in [json!({ "tools": [f], "tool_choice": "none" }), json!({ "tools": [] }), json!({ "parallel_tool_calls": false })] {
            assert_eq!(tools(none), Ok(None));
        }
    }

    #[test]
    fn refusals_name_the_field() {
        let f = json!({ "type": "function", "function": { "name": "f" } });
        let strict = json!({ "type": "function", "function": { "name": "f", "strict": true } });
        for (body, param) in [
            (json!({ "tools": {} }), "tools"),
            (json!({ "tools": [f, f, f] }), "tools"),
            (json!({ "tools": [1] }), "tools[0]"),
            (json!({ "tools": [f, { "type": "custom" }] }), "tools[1].type"),
            (json!({ "tools": [{ "type": "function" }] }), "tools[0].function"),
            (json!({ "tools": [{ "function": {} }] }), "tools[0].function.name"),
            (json!({ "tools": [{ "function": { "name": "f", "parameters": 1 } }] }), "tools[0].function.parameters"),
            (json!({ "tools": [strict] }), "tools[0].function.strict"),
            (json!({ "tools": [f], "tool_choice": "required" }), "tool_choice"),
            (json!({ "tools": [f], "tool_choice": f }), "tool_choice"),
            (json!({ "tools": [f], "tool_choice": "maybe" }), "tool_choice"),
            (json!({ "tools": [f], "tool_choice": 1 }), "tool_choice"),
            (json!({ "tools": [f], "parallel_tool_calls": false }), "parallel_tool_calls"),
            (json!({ "functions": [f] }), "functions"),
        ] {
            assert_eq!(tools(body.clone()).expect_err("refused").param.as_deref(), Some(param), "{body}");
        }
    }

    #[test]
    fn calls_have_objects_as_arguments() {
        let call = |arguments: Value| json!([{ "id": "c", "type": "function", "function": { "name": "f", "arguments": arguments } }]);
        for text in [json!("{\"a\": 1}"), json!({ "a": 1 })] {
            assert_eq!(calls("x", call(text)), Ok(call(json!({ "a": 1 }))));
        }
        assert_eq!(calls("x", call(json!(""))), Ok(call(json!({}))));
        for bad in [json!("{"), json!("[]"), json!(1)] {
            assert_eq!(calls("x", call(bad)).expect_err("refused").param.as_deref(), Some("x[0].function.arguments"));
        }
        let mut messages = json!([{ "tool_calls": call(json!({ "a": 1 })) }]);
        assert!(write_arguments(&mut messages));
        assert_eq!(messages[0]["tool_calls"], call(json!("{\"a\":1}")));
    }
}
