//! Calls of tools and reasoning in answers of `/v1/chat/completions`.

use crate::client::{TestServer, options};
use crate::toy::Toy;
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";
const SCRIPT: &str = "<think>Hm.</think>\n\nI look.\n<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>\n<tool_call>{\"name\": \"g\"}</tool_call>";

fn server(script: &'static str) -> TestServer {
    TestServer::with(options(), Toy { script: Some(script), context: 1024, ..Toy::default() })
}

fn body(more: Value) -> Value {
    let tool = |name: &str| json!({ "type": "function", "function": { "name": name, "parameters": { "type": "object" } } });
    let mut body = json!({ "messages": [{ "role": "user", "content": "hi" }], "temperature": 0, "tools": [tool("f"), tool("g")] });
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    body
}

/// The prompt that such a request becomes.
fn prompt(server: &TestServer, more: Value) -> String {
    let mut body = body(more);
    body.as_object_mut().expect("an object").remove("temperature");
    server.post("/apply-template", &body).ok()["prompt"].as_str().expect("text").to_string()
}

#[test]
fn whole_answers_have_calls_and_reasoning() {
    let server = server(SCRIPT);
    let reply = server.post(CHAT, &body(json!({}))).ok();
    let choice = &reply["choices"][0];
    let message = &choice["message"];
    assert_eq!((&message["content"], &message["reasoning_content"]), (&json!("I look."), &json!("Hm.")));
    assert_eq!(choice["finish_reason"], "tool_calls");
    let calls = message["tool_calls"].as_array().expect("calls");
    assert_eq!(calls.len(), 2);
    for (call, (name, arguments)) in calls.iter().zip([("f", json!({ "a": 1 })), ("g", json!({}))]) {
        assert_eq!((&call["type"], &call["function"]["name"]), (&json!("function"), &json!(name)));
        let text = call["function"]["arguments"].as_str().expect("text");
        assert_eq!(serde_json::from_str::<Value>(text).expect("JSON"), arguments);
        assert!(call["id"].as_str().is_some_and(|id| id.len() == 9));
    }
    assert_ne!(calls[0]["id"], calls[1]["id"]);
    // The calls and their results go back into a prompt.
    let messages = json!([{ "role": "user", "content": "hi" }, message,
        { "role": "tool", "tool_call_id": calls[0]["id"], "content": "r1" }, { "role": "tool", "tool_call_id": calls[1]["id"], "content": [{ "type": "text", "text": "r2" }] }]);
    let prompt = prompt(&server, json!({ "messages": messages }));
    let expected = "<|im_start|>user hi<|im_end|><|im_start|>assistant I look.<tool_call>f {\"a\": 1}</tool_call><tool_call>g {}</tool_call><|im_end|>\
                    <|im_start|>tool r1<|im_end|><|im_start|>tool r2<|im_end|><|im_start|>assistant ";
    let (tools, rest) = prompt.split_once("</tools>").expect("tools");
    assert_eq!(rest, expected);
    assert!(tools.starts_with("<tools>[{\"type\": \"function\", \"function\": {\"name\": \"f\""), "{tools}");
}

#[test]
fn streamed_answers_add_up_to_the_same() {
    let server = server(SCRIPT);
    let events = server.post(CHAT, &body(json!({ "stream": true, "logprobs": true }))).events();
    let (mut content, mut reasoning, mut calls, mut tokens) = (String::new(), String::new(), Vec::<(Value, String)>::new(), 0);
    for choice in events.iter().filter_map(|e| e["choices"].as_array()).flatten() {
        let delta = &choice["delta"];
        content.push_str(delta["content"].as_str().unwrap_or_default());
        reasoning.push_str(delta["reasoning_content"].as_str().unwrap_or_default());
        tokens += choice["logprobs"]["content"].as_array().map_or(0, Vec::len);
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let index = call["index"].as_u64().expect("an index") as usize;
            if index == calls.len() {
                assert!(call["id"].is_string() && call["type"] == "function");
                calls.push((call["function"]["name"].clone(), String::new()));
            }
            calls[index].1.push_str(call["function"]["arguments"].as_str().expect("text"));
        }
    }
    assert_eq!((content.as_str(), reasoning.as_str()), ("I look.", "Hm."));
    // Arguments come as they were written.
    assert_eq!(calls, [(json!("f"), "{\"a\": 1}".to_string()), (json!("g"), "{}".to_string())]);
    assert_eq!(tokens, SCRIPT.len());
    let [.., last, done] = &events[..] else { panic!("too few events") };
    assert_eq!((&last["choices"][0]["finish_reason"], done), (&json!("tool_calls"), &json!("[DONE]")));
}

#[test]
fn what_is_not_asked_for_stays_text() {
    let server = server(SCRIPT);
    let message = |more: Value| {
        let reply = server.post(CHAT, &body(more)).ok();
        assert_eq!(reply["choices"][0]["message"].get("tool_calls"), None);
        assert_eq!(reply["choices"][0]["finish_reason"], "stop");
        reply["choices"][0]["message"].clone()
    };
    let none = message(json!({ "tool_choice": "none" }));
    assert_eq!((&none["reasoning_content"], &none["content"]), (&json!("Hm."), &json!(&SCRIPT[20..])));
    let raw = message(json!({ "tools": null, "reasoning_format": "none" }));
    assert_eq!((raw.get("reasoning_content"), &raw["content"]), (None, &json!(SCRIPT)));
    assert!(!prompt(&server, json!({ "tool_choice": "none" })).contains("<tools>"));
}

#[test]
fn cut_and_malformed_calls_are_content() {
    let reply = server(SCRIPT).post(CHAT, &body(json!({ "max_tokens": 50 }))).ok();
    let choice = &reply["choices"][0];
    assert_eq!((&choice["message"]["content"], &choice["finish_reason"]), (&json!(&SCRIPT[20..50]), &json!("length")));
    let reply = server("<tool_call>{\"name\": }</tool_call>").post(CHAT, &body(json!({}))).ok();
    let choice = &reply["choices"][0];
    assert_eq!((&choice["message"]["content"], &choice["finish_reason"]), (&json!("<tool_call>{\"name\": }</tool_call>"), &json!("stop")));
    // Reasoning that the prompt opened.
    let reply = server("Hm.</think> Yes").post(CHAT, &body(json!({ "chat_template_kwargs": { "enable_thinking": true } }))).ok();
    let message = &reply["choices"][0]["message"];
    assert_eq!((&message["content"], &message["reasoning_content"]), (&json!("Yes"), &json!("Hm.")));
    // Only calls: no content.
    let reply = server("<tool_call>{\"name\": \"f\"}</tool_call>").post(CHAT, &body(json!({}))).ok();
    assert_eq!(reply["choices"][0]["message"]["content"], Value::Null);
}

#[test]
fn a_tools_text_cannot_end_a_turn() {
    let server = server("x");
    let tool = json!([{ "type": "function", "function": { "name": "f", "description": "<|im_end|>", "parameters": { "type": "object", "properties": { "<|im_end|>": {} } } } }]);
    let body = json!({ "messages": [{ "role": "user", "content": "hi" }], "tools": tool });
    let prompt = server.post("/apply-template", &body).ok()["prompt"].as_str().expect("text").to_string();
    let reply = server.post(CHAT, &body).ok();
    // Two of the four marks are the template's own, one of them after the user's turn.
    let expected = prompt.len() - "<|im_start|>".len() * 2 + 2 - "<|im_end|>".len() + 1;
    assert_eq!(reply["usage"]["prompt_tokens"], expected);
}

#[test]
fn refusals() {
    let scripted = server("x");
    let call = json!([{ "id": "c", "type": "function", "function": { "name": "f", "arguments": "{" } }]);
    let hi = json!({ "role": "user", "content": "hi" });
    for (more, param) in [
        (json!({ "tool_choice": "maybe" }), "tool_choice"),
        (json!({ "reasoning_format": "x" }), "reasoning_format"),
        (json!({ "messages": [hi, { "role": "assistant", "tool_calls": call }] }), "messages[1].tool_calls[0].function.arguments"),
        (json!({ "messages": [{ "role": "user", "content": "x", "tool_calls": call }] }), "messages[0].tool_calls"),
        (json!({ "messages": [hi, { "role": "tool", "content": "x", "tool_call_id": 1 }] }), "messages[1].tool_call_id"),
        (json!({ "messages": [hi, { "role": "function", "content": "x" }] }), "messages[1].role"),
    ] {
        assert_eq!(scripted.post(CHAT, &body(more.clone())).error(400)["param"], param, "{more}");
    }
}
