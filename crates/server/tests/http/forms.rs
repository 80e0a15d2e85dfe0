//! Answers that are held to a schema, an expression or a grammar.

use crate::client::{TestServer, options};
use crate::toy::Toy;
use onebit_server::ServeOptions;
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";

fn chat(more: Value) -> Value {
    let mut body = json!({ "messages": [{ "role": "user", "content": "hi" }], "temperature": 0 });
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    body
}

fn content(server: &TestServer, more: Value) -> (String, String) {
    let reply = server.post(CHAT, &chat(more)).ok();
    let choice = &reply["choices"][0];
    (choice["message"]["content"].as_str().expect("text").into(), choice["finish_reason"].as_str().expect("a reason").into())
}

/// The toy likes the next letter best, and `a` after what is no letter.
#[test]
fn each_form_is_held() {
    let server = TestServer::start();
    let schema =
        json!({ "type": "object", "properties": { "k": { "enum": ["bcd", 7] } }, "required": ["k"], "additionalProperties": false });
    for (more, expected) in [
        (
            json!({ "response_format": { "type": "json_schema", "json_schema": { "name": "x", "strict": true, "schema": schema } } }),
            "{\"k\":\"bcd\"}",
        ),
        (json!({ "json_schema": schema }), "{\"k\":\"bcd\"}"),
        (json!({ "grammar": "root ::= \"x\" [a-c]{3} \"!\"" }), "xabc!"),
        (json!({ "grammar": "start: \"<\" /[d-f]{2}/ \">\"" }), "<de>"),
        (json!({ "guided_regex": "[x-z]{2}-" }), "xy-"),
        (json!({ "guided_choice": ["zebra", "ant"] }), "ant"),
        (json!({ "structured_outputs": { "regex": "m[a-z]{3}" } }), "mnop"),
    ] {
        let reply = server.post(CHAT, &chat(more.clone())).ok();
        let text = reply["choices"][0]["message"]["content"].as_str().expect("text");
        // White space of JSON is free, within bounds.
        assert_eq!(text.split_whitespace().collect::<String>(), expected, "{more}");
        assert_eq!(reply["choices"][0]["finish_reason"], "stop", "{more}");
    }
    let text = server.post(TEXT, &json!({ "prompt": "a", "guided_regex": "[a-z]{3}", "temperature": 0, "max_tokens": 9 })).ok();
    assert_eq!((&text["choices"][0]["text"], &text["choices"][0]["finish_reason"]), (&json!("bcd"), &json!("stop")));
    let text = server.post("/completion", &json!({ "prompt": "a", "grammar": "root ::= [a-z] \"?\"", "temperature": 0 })).ok();
    assert_eq!((&text["content"], &text["stop_type"]), (&json!("b?"), &json!("eos")));
}

#[test]
fn streams_choices_and_ends() {
    let server = TestServer::start();
    let events = server.post(CHAT, &chat(json!({ "guided_regex": "[a-z]{4}", "stream": true }))).events();
    let text: String = events.iter().filter_map(|e| e["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, "abcd");
    assert!(events.iter().any(|e| e["choices"][0]["finish_reason"] == "stop"));
    let reply = server.post(CHAT, &chat(json!({ "guided_regex": "[a-f]{2,5}", "n": 5, "temperature": 50, "seed": 3 }))).ok();
    let texts: Vec<&str> = reply["choices"].as_array().expect("choices").iter().filter_map(|c| c["message"]["content"].as_str()).collect();
    assert!(
        texts.len() == 5 && texts.iter().all(|t| (2..=5).contains(&t.len()) && t.bytes().all(|b| (b'a'..=b'f').contains(&b))),
        "{texts:?}"
    );
    assert_eq!(content(&server, json!({ "guided_regex": "[a-z]{9}", "max_tokens": 3 })), ("abc".into(), "length".into()));
    assert_eq!(content(&server, json!({ "guided_regex": "[a-z]{9}", "stop": "de" })), ("abc".into(), "stop".into()));
    assert_eq!(content(&server, json!({ "guided_regex": "[a-c]{1,3}", "ignore_eos": true })), ("abc".into(), "stop".into()));
}

/// The form begins when the thinking ends.
#[test]
fn reasoning_comes_first() {
    let script = "Well<think>, <b>\n</think>\n{\"a\": 1}";
    let server = TestServer::with(options(), Toy { script: Some(script), context: 512, ..Toy::default() });
    let ask = |more: Value| server.post(CHAT, &chat(more)).ok()["choices"][0]["message"].clone();
    // The script's first word is no JSON, and the toy gives all other tokens the same logit.
    let schema = json!({ "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"] });
    let message = ask(json!({ "json_schema": schema, "chat_template_kwargs": { "enable_thinking": true }, "max_tokens": 200 }));
    let reasoning = message["reasoning_content"].as_str().expect("reasoning");
    assert_eq!(reasoning, "Well<think>, <b>");
    let answer: Value = serde_json::from_str(message["content"].as_str().expect("text")).expect("JSON");
    assert_eq!(answer, json!({ "a": 1 }));
}

#[test]
fn what_is_hostile_costs_little() {
    let limits =
        onebit_server::Limits { grammar: onebit_grammar::Limits { bytes: 20_000, depth: 20, ..Default::default() }, ..Default::default() };
    let server = TestServer::with(ServeOptions { limits, ..options() }, Toy::default());
    let deep = (0..40).fold(json!({ "type": "string" }), |inner, _| json!({ "type": "array", "items": inner }));
    let chain = |n: usize| (0..n).map(|i| format!("r{i} ::= r{}\n", i + 1)).collect::<String>() + &format!("root ::= r0\nr{n} ::= \"a\"");
    for (field, value, word) in [
        ("guided_regex", json!("a".repeat(20_001)), "20000 are allowed"),
        ("guided_choice", json!(["b".repeat(30_000)]), "20000 are allowed"),
        ("json_schema", json!({ "enum": vec!["some text"; 4000] }), "20000 are allowed"),
        ("json_schema", deep, "20 levels"),
        ("guided_regex", json!("(".repeat(5000) + &")".repeat(5000)), "20 levels"),
        ("grammar", json!("root ::= ".to_string() + &"(".repeat(5000) + "\"a\"" + &")".repeat(5000)), "20 levels"),
        ("guided_regex", json!("((a{1,900}){1,900}){1,900}"), "complex"),
        ("grammar", json!("root ::= (([a-z]{1,2000}){1,2000}){1,2000} root"), "complex"),
        ("grammar", json!("root ::= \"a\"{1,2001}"), "2000"),
        ("grammar", json!("root ::= root"), ""),
        ("grammar", json!("start: start"), ""),
        ("json_schema", json!({ "$ref": "#/nowhere" }), ""),
        ("json_schema", json!({ "$ref": "http://example.com/x.json" }), ""),
        ("json_schema", json!({ "type": "string", "pattern": "(?=a)b" }), ""),
        ("json_schema", json!({ "type": "string", "minLength": 5, "maxLength": 4 }), ""),
        ("json_schema", json!({ "é".repeat(80): { "type": "é" }, "type": "é" }), ""),
    ] {
        let begun = std::time::Instant::now();
        let reply = server.post(CHAT, &chat(json!({ field: value })));
        let error = reply.json()["error"].clone();
        assert_eq!(reply.status, 400, "{field} {error}");
        // What turns out to be too complex while the answer is made names no field.
        assert!(error["param"] == json!(field) || (error["param"].is_null() && word == "complex"), "{field} {error}");
        assert!(error["message"].as_str().is_some_and(|m| m.contains(word)), "{field} {error}");
        assert!(begun.elapsed().as_secs_f32() < 5.0, "{field} {error} took {:?}", begun.elapsed());
    }
    // These are large or strange, and can be had.
    for (field, value) in [
        ("grammar", json!(chain(1500))),
        ("json_schema", json!({ "$ref": "#" })),
        (
            "json_schema",
            json!({ "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "anyOf": [{ "type": "null" }, { "$ref": "#/$defs/a" }] } }, "$ref": "#/$defs/a" }),
        ),
        ("json_schema", json!({ "enum": (0..1500).collect::<Vec<_>>() })),
        ("guided_regex", json!("(a+)+(a+)+(a+)+b")),
        ("guided_regex", json!("(?i)\\p{L}{1000}{1000}")),
    ] {
        let begun = std::time::Instant::now();
        let reply = server.post(CHAT, &chat(json!({ field: value, "max_tokens": 5 })));
        assert!(reply.status == 200 || reply.status == 400, "{field} {}", reply.status);
        assert!(begun.elapsed().as_secs_f32() < 5.0, "{field} took {:?}", begun.elapsed());
    }
}
