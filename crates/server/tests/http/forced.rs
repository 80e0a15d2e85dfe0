//! Calls that an answer is held to, whatever the model would rather write.

use crate::client::{TestServer, options};
use crate::toy::Toy;
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";

fn server(script: &'static str) -> TestServer {
    TestServer::with(options(), Toy { script: Some(script), context: 2048, ..Toy::default() })
}

fn schema() -> Value {
    json!({ "type": "object", "properties": { "city": { "enum": ["Bern", "Basel"] }, "days": { "type": "integer", "minimum": 1, "maximum": 9 } },
        "required": ["city", "days"], "additionalProperties": false })
}

fn tool(name: &str, strict: bool) -> Value {
    json!({ "type": "function", "function": { "name": name, "description": "d", "strict": strict, "parameters": schema() } })
}

fn body(more: Value) -> Value {
    let mut body = json!({ "messages": [{ "role": "user", "content": "hi" }], "temperature": 0, "max_tokens": 1500,
        "tools": [tool("f", false), tool("g", false)] });
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    body
}

/// The calls of a choice: names and arguments, which are as the schema says.
fn calls(message: &Value) -> Vec<(String, Value)> {
    let call = |call: &Value| {
        let arguments: Value = serde_json::from_str(call["function"]["arguments"].as_str().expect("text")).expect("JSON");
        let (city, days) = (arguments["city"].as_str(), arguments["days"].as_i64());
        assert!(matches!(city, Some("Bern" | "Basel")) && matches!(days, Some(1..=9)), "{arguments}");
        assert_eq!(arguments.as_object().map(serde_json::Map::len), Some(2));
        (call["function"]["name"].as_str().expect("a name").to_owned(), arguments)
    };
    message["tool_calls"].as_array().into_iter().flatten().map(call).collect()
}

/// The same request whole and streamed, which have to agree: content, calls, and why it ended.
fn ask(server: &TestServer, more: Value) -> (Option<String>, Vec<(String, Value)>, String) {
    let reply = server.post(CHAT, &body(more.clone())).ok();
    let choice = &reply["choices"][0];
    let whole = (choice["message"]["content"].as_str().map(str::to_owned), calls(&choice["message"]), choice["finish_reason"].clone());
    let mut streaming = body(more.clone());
    streaming["stream"] = true.into();
    let (mut content, mut parts, mut reason) = (String::new(), Vec::<Value>::new(), Value::Null);
    for event in server.post(CHAT, &streaming).events() {
        let choice = &event["choices"][0];
        content.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
        for part in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
            match part["id"].is_string() {
                true => parts.push(part.clone()),
                false => {
                    let last = parts.last_mut().expect("a call that began");
                    let text =
                        [last["function"]["arguments"].as_str().expect("text"), part["function"]["arguments"].as_str().expect("text")]
                            .concat();
                    last["function"]["arguments"] = text.into();
                }
            }
        }
        if choice["finish_reason"].is_string() {
            reason = choice["finish_reason"].clone();
        }
    }
    let streamed = (Some(content).filter(|text| !text.is_empty()), calls(&json!({ "tool_calls": parts })), reason);
    assert_eq!((&streamed.0, &streamed.1, &streamed.2), (&whole.0, &whole.1, &whole.2), "{more}");
    (whole.0, whole.1, whole.2.as_str().expect("a reason").to_owned())
}

fn names(calls: &[(String, Value)]) -> Vec<&str> {
    calls.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn a_model_that_would_rather_talk_calls() {
    let server = server("I would rather talk about something else.");
    let named = json!({ "type": "function", "function": { "name": "g" } });
    let allowed = json!({ "type": "allowed_tools", "allowed_tools": { "mode": "required", "tools": [{ "type": "function", "function": { "name": "g" } }] } });
    for (choice, expected) in [(json!("required"), None), (named, Some("g")), (allowed, Some("g"))] {
        let (content, calls, reason) = ask(&server, json!({ "tool_choice": choice, "parallel_tool_calls": false }));
        assert_eq!((content, calls.len(), reason.as_str()), (None, 1, "tool_calls"), "{choice}");
        assert!(expected.is_none_or(|name| names(&calls) == [name]), "{choice} {calls:?}");
    }
    let (content, calls, reason) = ask(&server, json!({ "tool_choice": "auto" }));
    assert_eq!((content.as_deref(), calls.len(), reason.as_str()), (Some("I would rather talk about something else."), 0, "stop"));
}

/// A high temperature makes of the toy a model of random weights.
#[test]
fn random_weights_write_valid_calls() {
    for server in [server("x"), TestServer::with(options(), Toy { context: 2048, ..Toy::default() })] {
        let body = body(
            json!({ "tool_choice": "required", "parallel_tool_calls": false, "n": 6, "temperature": 50, "seed": 5, "max_tokens": 800 }),
        );
        let reply = server.post(CHAT, &body).ok();
        let mut whole = 0;
        for choice in reply["choices"].as_array().expect("choices") {
            // White space takes tokens: some may be cut.
            if choice["finish_reason"] == "length" {
                continue;
            }
            assert_eq!((calls(&choice["message"]).len(), &choice["finish_reason"]), (1, &json!("tool_calls")), "{choice}");
            whole += 1;
        }
        assert!(whole >= 3, "{reply}");
    }
}

#[test]
fn strict_functions_are_held_to_their_schema_and_texts_stay() {
    let strict = json!({ "tools": [tool("f", true), tool("g", true)] });
    let wrong = "I look.<tool_call>{\"name\": \"h\", \"arguments\": {\"city\": \"Paris\", \"days\": 77}}</tool_call>";
    let (content, calls, reason) = ask(&server(wrong), strict.clone());
    assert_eq!((content.as_deref(), reason.as_str()), (Some("I look."), "tool_calls"));
    assert!(!calls.is_empty());
    let (content, calls, reason) = ask(&server("I know it: nothing <is> to be called."), strict);
    assert_eq!((content.as_deref(), calls.len(), reason.as_str()), (Some("I know it: nothing <is> to be called."), 0, "stop"));
}

#[test]
fn one_call_at_most_and_only_of_what_is_allowed() {
    let two = "<tool_call>{\"name\": \"f\", \"arguments\": {\"city\": \"Bern\", \"days\": 1}}</tool_call>\n\
               <tool_call>{\"name\": \"g\", \"arguments\": {\"city\": \"Bern\", \"days\": 2}}</tool_call>";
    let server = server(two);
    assert_eq!(names(&ask(&server, json!({})).1), ["f", "g"]);
    assert_eq!(names(&ask(&server, json!({ "parallel_tool_calls": false })).1), ["f"]);
    let allowed = json!({ "type": "allowed_tools", "allowed_tools": { "mode": "auto", "tools": [{ "type": "function", "function": { "name": "g" } }] } });
    assert!(names(&ask(&server, json!({ "tool_choice": allowed })).1).iter().all(|name| *name == "g"));
    // All are in the prompt all the same, so that it stays the same.
    let prompt = |more: Value| {
        let mut body = body(more);
        body.as_object_mut().expect("an object").retain(|name, _| !["temperature", "max_tokens"].contains(&name.as_str()));
        server.post("/apply-template", &body).ok()["prompt"].clone()
    };
    assert_eq!(prompt(json!({ "tool_choice": allowed })), prompt(json!({})));
}

#[test]
fn a_form_or_calls() {
    let form = json!({ "response_format": { "type": "json_schema", "json_schema": { "name": "n", "strict": true, "schema": { "enum": ["yes", "no"] } } } });
    let (content, calls, _) = ask(&server("<think>Hm.</think>\"no\" it is"), form.clone());
    assert_eq!((content.as_deref(), calls.len()), (Some("\"no\""), 0));
    let call = "<tool_call>{\"name\": \"f\", \"arguments\": {\"city\": \"Bern\", \"days\": 1}}</tool_call>";
    let (content, calls, reason) = ask(&server(call), form);
    assert_eq!((content, names(&calls), reason.as_str()), (None, vec!["f"], "tool_calls"));
}

/// A template that has no place for tools: they are described in a message, and calls are JSON.
#[test]
fn templates_without_tools() {
    let server = TestServer::with(options(), Toy { context: 4096, ..Toy::default() });
    let (content, calls, reason) = ask(&server, json!({ "tool_choice": "required", "parallel_tool_calls": false }));
    assert_eq!((content, calls.len(), reason.as_str()), (None, 1, "tool_calls"));
    let call = json!({ "id": "c", "type": "function", "function": { "name": "f", "arguments": "{\"city\": \"Bern\", \"days\": 1}" } });
    let messages = json!([{ "role": "user", "content": "hi" }, { "role": "assistant", "content": null, "tool_calls": [call] }, { "role": "tool", "tool_call_id": "c", "content": "rain" }]);
    let prompt = server.post("/apply-template", &json!({ "messages": messages, "tools": [tool("f", false)] })).ok();
    let prompt = prompt["prompt"].as_str().expect("text");
    assert!(prompt.starts_with("<|im_start|>system You can call these functions"), "{prompt}");
    let rest = "<|im_start|>user hi<|im_end|><|im_start|>assistant {\"name\":\"f\",\"arguments\":{\"city\":\"Bern\",\"days\":1}}<|im_end|>\
                <|im_start|>user <tool_response>\nrain\n</tool_response><|im_end|><|im_start|>assistant ";
    assert!(prompt.contains("\n{\"name\":\"f\",\"description\":\"d\"") && prompt.ends_with(rest), "{prompt}");
}

#[test]
fn refusals_name_the_field() {
    let server = server("x");
    let with = |function: Value| json!([{ "type": "function", "function": function }]);
    let unenforceable = json!({ "type": "object", "properties": { "a": { "not": {} } }, "required": ["a"] });
    for (more, param) in [
        (json!({ "tool_choice": "required", "tools": [] }), "tool_choice"),
        (json!({ "tool_choice": { "type": "function", "function": { "name": "h" } } }), "tool_choice.function.name"),
        (json!({ "tools": with(json!({ "name": "f", "strict": true, "parameters": unenforceable })) }), "tools[0].function.parameters"),
        (
            json!({ "tools": with(json!({ "name": "f", "strict": true, "parameters": { "type": "array" } })) }),
            "tools[0].function.parameters",
        ),
    ] {
        assert_eq!(server.post(CHAT, &body(more.clone())).error(400)["param"], param, "{more}");
    }
    // Of a function that is not strict the rest of the schema counts.
    let loose = with(
        json!({ "name": "f", "parameters": { "type": "object", "properties": { "a": { "enum": ["x"], "not": {} } }, "additionalProperties": false } }),
    );
    let reply = server.post(CHAT, &body(json!({ "tools": loose, "tool_choice": "required", "parallel_tool_calls": false }))).ok();
    assert_eq!(reply["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "f");
}
