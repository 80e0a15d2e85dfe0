//! The tools of a request, and the calls of them in its messages.

use crate::error::ApiError;
use crate::forms::{self, Form};
use crate::json::{Fields, shorten, too_many, wrong_type};
use crate::options::Limits;
use crate::state::Model;
use onebit_grammar::{Answer, Calls, Function, Grammar, GrammarError};
use onebit_text::parse::{Opening, Output};
use serde_json::{Map, Value, json};

/// The tools of a request, and what of them an answer may or must call.
#[derive(Debug, PartialEq)]
pub(crate) struct Tools {
    /// As templates and those who read calls take them.
    pub(crate) shown: Value,
    /// Those that may be called, by their places in `tools`.
    pub(crate) allowed: Vec<usize>,
    /// Of each tool, whether its arguments are held to its schema.
    strict: Vec<bool>,
    /// There is no answer without a call.
    pub(crate) required: bool,
    /// There is no more than one call.
    pub(crate) single: bool,
    /// The field that asked for what an answer has to be held to.
    asked: String,
}

impl Tools {
    /// Whether an answer has to be held to calls of these tools. Otherwise the model writes as it likes, and what is a call is read as one.
    pub(crate) fn is_held(&self) -> bool {
        let all = self.strict.len();
        self.required || self.single || self.allowed.len() < all || self.allowed.iter().any(|i| self.strict[*i])
    }

    /// What an answer is held to.
    fn calls(&self, output: &Output, loosened: &[usize]) -> Calls {
        let function = |i: &usize| {
            let function = &self.shown[*i]["function"];
            let name = function["name"].as_str().unwrap_or_default().to_owned();
            let is_loose = loosened.contains(i);
            let parameters = if is_loose { Some(json!({ "type": "object" })) } else { function.get("parameters").cloned() };
            Function { name, parameters, strict: self.strict[*i] }
        };
        Calls {
            functions: self.allowed.iter().map(function).collect(),
            written: output.written().to_vec(),
            required: self.required,
            single: self.single,
        }
    }

    /// The grammar of answers that are calls, or a text or `form` where a call is not required.
    pub(crate) fn compile(
        &self,
        form: Option<Form>,
        output: &Output,
        opening: Opening,
        model: &Model,
        limits: &Limits,
    ) -> Result<Grammar, ApiError> {
        if model.engine.config().denoising.is_some() {
            let message =
                format!("`{}` is not supported: the model does not write from left to right, so it cannot be held to calls", self.asked);
            return Err(ApiError::unsupported(&self.asked, message));
        }
        let (source, param) = form.map_or((None, None), |form| (Some(form.source), Some(form.param)));
        let source = source.filter(|_| !self.required);
        let answer = |calls: Calls| Answer { source: source.clone(), calls: Some(calls), opening: opening.clone() };
        let whole = match model.compile(&answer(self.calls(output, &[])), &limits.grammar) {
            Ok(grammar) => return Ok(grammar),
            Err(error) => error,
        };
        // Whose fault is it? Schemas that need not be held to are let go.
        let mut loosened = Vec::new();
        for i in &self.allowed {
            let alone = Self { shown: self.shown.clone(), strict: self.strict.clone(), allowed: vec![*i], asked: String::new(), ..*self };
            let alone = Calls { required: true, ..alone.calls(output, &[]) };
            let alone = Answer { source: None, calls: Some(alone), opening: opening.clone() };
            match model.compile(&alone, &limits.grammar) {
                Ok(_) => {}
                Err(_) if !self.strict[*i] => loosened.push(*i),
                Err(error) => return Err(forms::refused(&format!("tools[{i}].function.parameters"), &error)),
            }
        }
        let fault = |error: GrammarError| forms::refused(param.as_deref().unwrap_or(&self.asked), &error);
        if loosened.is_empty() {
            return Err(fault(whole));
        }
        model.compile(&answer(self.calls(output, &loosened)), &limits.grammar).map_err(fault)
    }
}

/// Which tools an answer may or must call.
enum Choice {
    /// Any, or none: as the model sees fit.
    Auto,
    None,
    Required,
    /// Those of these names, and one of them at least if it is said so.
    Named {
        names: Vec<String>,
        required: bool,
        param: &'static str,
    },
}

/// Takes `tools` and what governs their use. None are left where the model is not to call any, so that its template does not
/// show them either.
pub(crate) fn take(fields: &mut Fields, limits: &Limits) -> Result<Option<Tools>, ApiError> {
    let is_empty = |v: &Value| v.as_array().is_some_and(Vec::is_empty);
    fields.only("functions", is_empty, "use `tools`")?;
    fields.only("function_call", |v| v == "none" || v == "auto", "use `tool_choice`")?;
    let parallel = fields.boolean("parallel_tool_calls")?.unwrap_or(true);
    let choice = choice(fields)?;
    let tools = match fields.value("tools") {
        None => vec![],
        Some(Value::Array(tools)) => tools,
        Some(other) => return Err(wrong_type("tools", "an array of tools", &other)),
    };
    if tools.len() > limits.tools {
        return Err(too_many("tools", tools.len(), limits.tools));
    }
    let tools = tools.into_iter().enumerate().map(|(i, t)| tool(&format!("tools[{i}]"), t)).collect::<Result<Vec<_>, _>>()?;
    let (tools, strict): (Vec<Value>, Vec<bool>) = tools.into_iter().unzip();
    let (allowed, required, asked) = match choice {
        Choice::None => return Ok(None),
        Choice::Auto => ((0..tools.len()).collect(), false, "tools"),
        Choice::Required => ((0..tools.len()).collect::<Vec<_>>(), true, "tool_choice"),
        Choice::Named { names, required, param } => {
            let find = |name: &String| {
                tools.iter().position(|tool| tool["function"]["name"] == **name).ok_or_else(|| {
                    ApiError::invalid(param, format!("Invalid value for `{param}`: none of `tools` is named `{}`", shorten(name)))
                })
            };
            let mut places = names.iter().map(find).collect::<Result<Vec<usize>, _>>()?;
            places.sort_unstable();
            places.dedup();
            (places, required, param)
        }
    };
    if tools.is_empty() {
        return match required {
            true => {
                Err(ApiError::invalid("tool_choice", "Invalid value for `tool_choice`: there are no `tools` of which one could be called"))
            }
            false => Ok(None),
        };
    }
    if allowed.is_empty() {
        return Ok(None);
    }
    let asked = match allowed.iter().find(|i| strict[**i]) {
        _ if required || allowed.len() < tools.len() => asked.to_owned(),
        Some(i) => format!("tools[{i}].function.strict"),
        None => "parallel_tool_calls".into(),
    };
    Ok(Some(Tools { shown: tools.into(), allowed, strict, required, single: !parallel, asked }))
}

/// `tool_choice`: a word; a function, which must be called; or the tools that are allowed.
fn choice(fields: &mut Fields) -> Result<Choice, ApiError> {
    const NAME: &str = "tool_choice";
    let mut map = match fields.value(NAME) {
        None => return Ok(Choice::Auto),
        Some(Value::String(word)) => {
            return match word.as_str() {
                "auto" => Ok(Choice::Auto),
                "none" => Ok(Choice::None),
                // Mistral's word.
                "required" | "any" => Ok(Choice::Required),
                _ => {
                    let message = format!("Invalid value for `{NAME}`: `{}` is not one of none, auto, required", shorten(&word));
                    Err(ApiError::invalid(NAME, message))
                }
            };
        }
        Some(Value::Object(map)) => map,
        Some(other) => return Err(wrong_type(NAME, "a string or an object", &other)),
    };
    match map.get("type").and_then(Value::as_str) {
        Some("function") => {
            let at = "tool_choice.function";
            let function = object(at, map.remove("function").unwrap_or_default())?;
            name(at, &function)?;
            let names = function.get("name").and_then(Value::as_str).map(str::to_owned).into_iter().collect();
            Ok(Choice::Named { names, required: true, param: "tool_choice.function.name" })
        }
        Some("allowed_tools") => {
            let at = "tool_choice.allowed_tools";
            let mut allowed = object(at, map.remove("allowed_tools").unwrap_or_default())?;
            let required = match allowed.get("mode").and_then(Value::as_str) {
                Some("auto") => false,
                Some("required") => true,
                _ => {
                    let at = format!("{at}.mode");
                    return Err(ApiError::invalid(&at, format!("`{at}` must be auto or required")));
                }
            };
            let at = format!("{at}.tools");
            let Some(Value::Array(tools)) = allowed.remove("tools") else {
                return Err(ApiError::invalid(&at, format!("`{at}` must be an array of tools")));
            };
            let named = |(i, tool): (usize, Value)| {
                let at = format!("{at}[{i}]");
                let mut tool = object(&at, tool)?;
                is_function(&at, &tool)?;
                let at = format!("{at}.function");
                let function = object(&at, tool.remove("function").unwrap_or_default())?;
                name(&at, &function)?;
                Ok(function.get("name").and_then(Value::as_str).unwrap_or_default().to_owned())
            };
            let names = tools.into_iter().enumerate().map(named).collect::<Result<Vec<_>, ApiError>>()?;
            Ok(Choice::Named { names, required, param: "tool_choice.allowed_tools.tools" })
        }
        _ => Err(ApiError::invalid("tool_choice.type", "`tool_choice.type` must be function or allowed_tools")),
    }
}

/// `{"type": "function", "function": {"name", "description", "parameters"}}`, without what says nothing; and whether it is strict.
fn tool(at: &str, tool: Value) -> Result<(Value, bool), ApiError> {
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
    let strict = match function.remove("strict") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(strict)) => strict,
        Some(other) => return Err(wrong_type(&format!("{at}.strict"), "a boolean", &other)),
    };
    function.retain(|_, value| !value.is_null());
    tool.insert("type".into(), "function".into());
    tool.insert("function".into(), function.into());
    Ok((tool.into(), strict))
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

    fn tools(body: Value) -> Result<Option<Tools>, ApiError> {
        let limits = Limits { tools: 2, ..Limits::default() };
        let mut fields = crate::json::object(body.to_string().as_bytes(), &limits)?;
        let tools = take(&mut fields, &limits)?;
        fields.finish()?;
        Ok(tools)
    }

    fn function(name: &str, strict: bool) -> Value {
        json!({ "type": "function", "function": { "name": name, "strict": strict } })
    }

    #[test]
    fn tools_as_templates_take_them() {
        let f = json!({ "type": "function", "function": { "name": "f", "strict": false, "description": null, "parameters": {} } });
        let plain = json!([{ "type": "function", "function": { "name": "f", "parameters": {} } }]);
        let found = tools(json!({ "tools": [f], "tool_choice": "auto", "parallel_tool_calls": true })).expect("valid").expect("tools");
        assert_eq!((&found.shown, found.is_held()), (&plain, false));
        for none in [
            json!({ "tools": [f], "tool_choice": "none" }),
            json!({ "tools": [] }),
            json!({ "parallel_tool_calls": false }),
            json!({ "tools": [f], "tool_choice": { "type": "allowed_tools", "allowed_tools": { "mode": "auto", "tools": [] } } }),
        ] {
            assert_eq!(tools(none), Ok(None));
        }
    }

    /// What is asked for: the tools that may be called, whether one must be, whether there is one at most, and the field that says so.
    #[test]
    fn what_an_answer_is_held_to() {
        let both = json!([function("f", false), function("g", false)]);
        let allowed = |mode: &str| json!({ "type": "allowed_tools", "allowed_tools": { "mode": mode, "tools": [function("g", false)] } });
        for (body, expected) in [
            (json!({ "tools": both, "tool_choice": "required" }), (vec![0, 1], true, false, "tool_choice")),
            (json!({ "tools": both, "parallel_tool_calls": false }), (vec![0, 1], false, true, "parallel_tool_calls")),
            (
                json!({ "tools": both, "tool_choice": { "type": "function", "function": { "name": "g" } } }),
                (vec![1], true, false, "tool_choice.function.name"),
            ),
            (json!({ "tools": both, "tool_choice": allowed("auto") }), (vec![1], false, false, "tool_choice.allowed_tools.tools")),
            (json!({ "tools": both, "tool_choice": allowed("required") }), (vec![1], true, false, "tool_choice.allowed_tools.tools")),
            (json!({ "tools": [function("f", false), function("g", true)] }), (vec![0, 1], false, false, "tools[1].function.strict")),
        ] {
            let found = tools(body.clone()).expect("valid").expect("tools");
            assert!(found.is_held(), "{body}");
            assert_eq!((found.allowed, found.required, found.single, found.asked.as_str()), expected, "{body}");
        }
    }

    #[test]
    fn refusals_name_the_field() {
        let f = function("f", false);
        let choose = |choice: Value| json!({ "tools": [f], "tool_choice": choice });
        for (body, param) in [
            (json!({ "tools": {} }), "tools"),
            (json!({ "tools": [f, f, f] }), "tools"),
            (json!({ "tools": [1] }), "tools[0]"),
            (json!({ "tools": [f, { "type": "custom" }] }), "tools[1].type"),
            (json!({ "tools": [{ "type": "function" }] }), "tools[0].function"),
            (json!({ "tools": [{ "function": {} }] }), "tools[0].function.name"),
            (json!({ "tools": [{ "function": { "name": "f", "parameters": 1 } }] }), "tools[0].function.parameters"),
            (json!({ "tools": [{ "function": { "name": "f", "strict": 1 } }] }), "tools[0].function.strict"),
            (json!({ "tool_choice": "required" }), "tool_choice"),
            (choose(json!("maybe")), "tool_choice"),
            (choose(json!(1)), "tool_choice"),
            (choose(json!({})), "tool_choice.type"),
            (choose(json!({ "type": "custom" })), "tool_choice.type"),
            (choose(json!({ "type": "function" })), "tool_choice.function"),
            (choose(json!({ "type": "function", "function": { "name": 1 } })), "tool_choice.function.name"),
            (choose(json!({ "type": "function", "function": { "name": "g" } })), "tool_choice.function.name"),
            (choose(json!({ "type": "allowed_tools" })), "tool_choice.allowed_tools"),
            (choose(json!({ "type": "allowed_tools", "allowed_tools": { "mode": "all", "tools": [] } })), "tool_choice.allowed_tools.mode"),
            (choose(json!({ "type": "allowed_tools", "allowed_tools": { "mode": "auto" } })), "tool_choice.allowed_tools.tools"),
            (
                choose(json!({ "type": "allowed_tools", "allowed_tools": { "mode": "auto", "tools": [{ "type": "mcp" }] } })),
                "tool_choice.allowed_tools.tools[0].type",
            ),
            (
                choose(json!({ "type": "allowed_tools", "allowed_tools": { "mode": "auto", "tools": [function("g", false)] } })),
                "tool_choice.allowed_tools.tools",
            ),
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
