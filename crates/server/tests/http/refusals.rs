//! Requests that are refused, and how.

use crate::client::{TestServer, options, post_request};
use crate::toy::Toy;
use onebit_server::{Limits, ServeOptions};
use serde_json::{Value, json};
use std::time::Duration;

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";

/// Everything that must get a 400, with the field that is at fault. (Types and ranges that do not depend on the endpoint are
/// tested beside the code.)
#[test]
fn fields() {
    let server = TestServer::start();
    let messages = json!([{ "role": "user", "content": "hi" }]);
    let schema = json!({ "type": "json_schema", "json_schema": { "name": "x", "strict": true, "schema": { "uniqueItems": true } } });
    let tool = json!([{ "type": "function", "function": { "name": "f" } }]);
    let cases = [
        (CHAT, json!({}), "messages"),
        (CHAT, json!({ "messages": [] }), "messages"),
        (CHAT, json!({ "messages": [{ "role": "wizard", "content": "hi" }] }), "messages[0].role"),
        (
            CHAT,
            json!({ "messages": [{ "role": "user", "content": [{ "type": "image_url", "image_url": { "url": "data:," } }] }] }),
            "messages[0].content[0]",
        ),
        (CHAT, json!({ "messages": messages, "n": 1_000_000 }), "n"),
        (CHAT, json!({ "messages": messages, "n": 0 }), "n"),
        (CHAT, json!({ "messages": messages, "max_tokens": 0 }), "max_tokens"),
        (CHAT, json!({ "messages": messages, "max_tokens": -7 }), "max_tokens"),
        (CHAT, json!({ "messages": messages, "max_completion_tokens": "many" }), "max_completion_tokens"),
        (CHAT, json!({ "messages": messages, "temperature": -0.5 }), "temperature"),
        (CHAT, json!({ "messages": messages, "temperature": 101 }), "temperature"),
        (CHAT, json!({ "messages": messages, "top_p": 0 }), "top_p"),
        (CHAT, json!({ "messages": messages, "top_p": 1.5 }), "top_p"),
        (CHAT, json!({ "messages": messages, "min_p": 2 }), "min_p"),
        (CHAT, json!({ "messages": messages, "repeat_penalty": 0 }), "repeat_penalty"),
        (CHAT, json!({ "messages": messages, "dry_allowed_length": 0 }), "dry_allowed_length"),
        (CHAT, json!({ "messages": messages, "mirostat": 1 }), "mirostat"),
        (CHAT, json!({ "messages": messages, "logit_bias": { "258": 1 } }), "logit_bias"),
        (CHAT, json!({ "messages": messages, "stop": vec!["x"; 65] }), "stop"),
        (CHAT, json!({ "messages": messages, "stop": "x".repeat(1025) }), "stop[0]"),
        (CHAT, json!({ "messages": messages, "top_logprobs": 2 }), "top_logprobs"),
        (CHAT, json!({ "messages": messages, "logprobs": true, "top_logprobs": 21 }), "top_logprobs"),
        (CHAT, json!({ "messages": messages, "logprobs": 3 }), "logprobs"),
        (CHAT, json!({ "messages": messages, "stream": "yes" }), "stream"),
        (CHAT, json!({ "messages": messages, "stream_options": { "include_usage": true } }), "stream_options"),
        (CHAT, json!({ "messages": messages, "tools": tool, "tool_choice": "maybe" }), "tool_choice"),
        (CHAT, json!({ "messages": messages, "tool_choice": "required" }), "tool_choice"),
        (CHAT, json!({ "messages": messages, "functions": [{}] }), "functions"),
        (CHAT, json!({ "messages": messages, "response_format": schema }), "response_format.json_schema.schema"),
        (CHAT, json!({ "messages": messages, "response_format": { "type": "yaml" } }), "response_format.type"),
        (CHAT, json!({ "messages": messages, "grammar": "root ::= other" }), "grammar"),
        (TEXT, json!({ "prompt": "a", "guided_regex": "(" }), "guided_regex"),
        (TEXT, json!({ "prompt": "a", "json_schema": { "type": "string", "not": {} } }), "json_schema"),
        (CHAT, json!({ "messages": messages, "modalities": ["text", "audio"] }), "modalities"),
        (CHAT, json!({ "messages": messages, "audio": { "voice": "x" } }), "audio"),
        (CHAT, json!({ "messages": messages, "web_search_options": {} }), "web_search_options"),
        (CHAT, json!({ "messages": messages, "store": true }), "store"),
        (CHAT, json!({ "messages": messages, "reasoning_effort": "high" }), "reasoning_effort"),
        (CHAT, json!({ "messages": messages, "chat_template_kwargs": 1 }), "chat_template_kwargs"),
        (CHAT, json!({ "messages": messages, "chat_template": "x" }), "chat_template"),
        (CHAT, json!({ "messages": messages, "prompt": "x" }), "prompt"),
        (CHAT, json!({ "messages": messages, "temprature": 1 }), "temprature"),
        (TEXT, json!({}), "prompt"),
        (TEXT, json!({ "prompt": null }), "prompt"),
        (TEXT, json!({ "prompt": 1 }), "prompt"),
        (TEXT, json!({ "prompt": "" }), "prompt"),
        (TEXT, json!({ "prompt": [] }), "prompt"),
        (TEXT, json!({ "prompt": [""] }), "prompt"),
        (TEXT, json!({ "prompt": ["a", 1] }), "prompt[1]"),
        (TEXT, json!({ "prompt": [1, "a"] }), "prompt[1]"),
        (TEXT, json!({ "prompt": [[1], [258]] }), "prompt[1][0]"),
        (TEXT, json!({ "prompt": vec!["x"; 129] }), "prompt"),
        (TEXT, json!({ "prompt": vec!["x"; 100], "n": 2 }), "n"),
        (TEXT, json!({ "prompt": "x", "best_of": 2, "stream": true }), "best_of"),
        (TEXT, json!({ "prompt": "x", "best_of": 1, "n": 2 }), "best_of"),
        (TEXT, json!({ "prompt": "x", "suffix": "y" }), "suffix"),
        (TEXT, json!({ "prompt": "x", "logprobs": 21 }), "logprobs"),
        (TEXT, json!({ "prompt": "x", "logprobs": true }), "logprobs"),
        (TEXT, json!({ "prompt": "x", "messages": messages }), "messages"),
        ("/completion", json!({ "prompt": ["a", "b"] }), "prompt[0]"),
        ("/completion", json!({ "prompt": "a", "n_probs": 3 }), "n_probs"),
        ("/completion", json!({ "prompt": "a", "n_predict": 1, "max_tokens": 2 }), "max_tokens"),
        ("/apply-template", json!({ "messages": [1] }), "messages[0]"),
    ];
    for (path, body, param) in cases {
        let error = server.post(path, &body).error(400);
        assert_eq!(error["param"], param, "{path} {body}: {error}");
        assert_eq!(error["type"], "invalid_request_error");
        assert!(error["message"].as_str().is_some_and(|m| m.contains(param.split('[').next().expect("a name"))), "{error}");
    }
    assert_eq!(server.stats().running + server.stats().waiting, 0);
}

/// What clients send by habit and what says "nothing of that" is taken.
#[test]
fn harmless_fields() {
    let server = TestServer::start();
    let body = json!({
        "model": "alias/of-toy", "messages": [{ "role": "user", "content": "hi", "name": "me" }], "temperature": 0, "max_tokens": 1,
        "user": "u", "metadata": {}, "store": false, "service_tier": "auto", "safety_identifier": "s", "prompt_cache_key": "k",
        "tools": null, "tool_choice": "none", "parallel_tool_calls": true, "response_format": { "type": "text" }, "modalities": ["text"],
        "logit_bias": {}, "stop": null, "seed": null, "n": 1, "logprobs": false, "top_logprobs": 0, "stream": false, "stream_options": null,
        "cache_prompt": true, "id_slot": -1, "prediction": { "type": "content", "content": "x" }, "anything": null,
    });
    assert_eq!(server.post(CHAT, &body).ok()["choices"][0]["message"]["content"], "a");
}

#[test]
fn bodies() {
    let limits = Limits { body: 100_000, values: 1000, ..Limits::default() };
    let server = TestServer::with(ServeOptions { limits, ..options() }, Toy::default());
    let message = |body: &str| server.post_text(CHAT, body).error(400)["message"].as_str().expect("text").to_string();
    assert!(message("").contains("line 1 column 0"));
    assert!(message("{\"messages\": [,]}").contains("line 1 column 15"));
    assert!(message("[]").contains("object"));
    assert!(message("{\"temperature\": NaN}").contains("line 1"));
    assert!(message("{\"temperature\": 1e999}").contains("out of range"));
    assert!(message("{\"n\": 1, \"n\": 2}").contains("`n` comes twice"));
    assert!(message(&"[".repeat(50_000)).contains("levels deep"));
    assert!(message(&"{\"a\":".repeat(10_000)).contains("levels deep"));
    assert_eq!(server.post_text(CHAT, &format!("[{}1]", "1,".repeat(2000))).error(413)["code"], "request_too_large");
    assert_eq!(server.post_text(CHAT, &" ".repeat(100_001)).error(413)["code"], "request_too_large");
    let chunked = format!(
        "POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n",
        format!("2000\r\n{}\r\n", "x".repeat(0x2000)).repeat(20)
    );
    assert_eq!(server.send(&chunked).error(413)["code"], "request_too_large");
    // Whatever the type says, JSON is read as JSON.
    let body = json!({ "prompt": "a", "max_tokens": 1, "temperature": 0 }).to_string();
    for kind in ["text/plain", "application/json; charset=utf-8", "application/x-www-form-urlencoded"] {
        let request = post_request(TEXT, &body).replace("application/json", kind);
        assert_eq!(server.send(&request).ok()["choices"][0]["text"], "b");
    }
}

#[test]
fn a_prompt_beyond_the_context() {
    let server = TestServer::start();
    for (path, body, param) in [
        (TEXT, json!({ "prompt": "a".repeat(256) }), "prompt"),
        (CHAT, json!({ "messages": [{ "role": "user", "content": "a".repeat(300) }], "stream": true }), "messages"),
    ] {
        let error = server.post(path, &body).error(413);
        assert_eq!((&error["code"], &error["param"]), (&json!("context_length_exceeded"), &json!(param)));
        assert!(error["message"].as_str().is_some_and(|m| m.starts_with("This model's maximum context length is 256 tokens")));
    }
    // One token fits still.
    assert_eq!(server.post(TEXT, &json!({ "prompt": "a".repeat(255) })).ok()["usage"]["completion_tokens"], 1);
}

#[test]
fn a_megabyte_of_one_letter_takes_no_time() {
    let server = TestServer::start();
    let begin = std::time::Instant::now();
    server.post(TEXT, &json!({ "prompt": "a".repeat(10 << 20) })).error(413);
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
}

#[test]
fn models_and_routes() {
    let server = TestServer::start();
    let models = server.get("/v1/models").ok();
    assert_eq!(
        (&models["object"], &models["data"][0]["id"], &models["data"][0]["object"]),
        (&json!("list"), &json!("toy"), &json!("model"))
    );
    let meta = &models["data"][0]["meta"];
    assert_eq!((&meta["n_ctx"], &meta["n_vocab"], &meta["n_params"]), (&json!(256), &json!(258), &json!(7)));
    assert_eq!(server.get("/v1/models/toy").ok()["id"], "toy");
    assert_eq!(server.get("/v1/models/alias/of-toy").ok()["id"], "toy");
    assert_eq!(server.get("/v1/models/other").error(404)["code"], "model_not_found");
    let error = server.post(CHAT, &json!({ "model": "gpt-4", "messages": [{ "role": "user", "content": "hi" }] })).error(404);
    assert_eq!((&error["code"], &error["param"]), (&json!("model_not_found"), &json!("model")));
    assert_eq!(server.get("/v1/nothing").error(404)["code"], "unknown_url");
    assert_eq!(server.get("/").error(404)["code"], "unknown_url");
    let reply = server.get(CHAT);
    assert_eq!(reply.error(405)["code"], "method_not_allowed");
    assert_eq!(reply.header("allow"), Some("POST"));
    let any = TestServer::with(ServeOptions { any_model: true, ..options() }, Toy::default());
    assert_eq!(
        any.post(TEXT, &json!({ "model": "gpt-4", "prompt": "a", "max_tokens": 1, "temperature": 0 })).ok()["choices"][0]["text"],
        "b"
    );
}

#[test]
fn hosts_origins_and_keys() {
    let server = TestServer::start();
    let with = |header: &str| server.send(&format!("GET /v1/models HTTP/1.1\r\n{header}\r\nConnection: close\r\n\r\n"));
    assert_eq!(with("Host: evil.example").error(403)["code"], "host_not_allowed");
    assert_eq!(with("Host: localhost\r\nOrigin: https://evil.example").error(403)["code"], "origin_not_allowed");
    assert_eq!(with("Accept: */*").status, 400, "no host");
    let absolute = server.send("GET http://evil.example/v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_eq!(absolute.error(403)["code"], "host_not_allowed");
    let preflight = "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: https://app.example\r\n\
                     Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization,x-stainless-os\r\n\r\n";
    assert_eq!(server.send(preflight).status, 403);

    let options =
        ServeOptions { allowed_origins: vec!["https://app.example".into()], api_keys: vec!["k1".into(), "k2".into()], ..options() };
    let server = TestServer::with(options, Toy::default());
    let reply = server.send(preflight);
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (204, Some("https://app.example")));
    assert_eq!(reply.header("access-control-allow-headers"), Some("authorization,x-stainless-os"));
    let with = |header: &str| server.send(&format!("GET /v1/models HTTP/1.1\r\nHost: x.example\r\n{header}\r\nConnection: close\r\n\r\n"));
    let reply = with("Origin: https://app.example\r\nAuthorization: Bearer k2");
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (200, Some("https://app.example")));
    for wrong in ["Accept: */*", "Authorization: Bearer k3", "Authorization: Bearer", "Authorization: Bearer k1k1", "X-Api-Key: k"] {
        let reply = with(wrong);
        assert_eq!(reply.error(401)["code"], "invalid_api_key", "{wrong}");
        assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
    }
    assert_eq!(with("X-Api-Key: k1").status, 200);
    // A refusal reaches also a client that is still sending.
    let large = json!({ "prompt": "a".repeat(4 << 20) }).to_string();
    assert_eq!(server.send(&post_request(TEXT, &large)).error(401)["code"], "invalid_api_key");
}

#[test]
fn a_full_queue_is_a_429() {
    let toy = Toy { step: Duration::from_millis(20), max_sequences: 1, queue: 1, ..Toy::default() };
    let server = TestServer::with(options(), toy);
    let long = json!({ "prompt": "a", "max_tokens": 200, "temperature": 0, "stream": true }).to_string();
    let mut running = server.connect();
    running.write(post_request(TEXT, &long).as_bytes());
    server.wait_until("running", |s| s.running == 1);
    let mut waiting = server.connect();
    waiting.write(post_request(TEXT, &long).as_bytes());
    server.wait_until("waiting", |s| s.waiting == 1);
    let reply = server.post_text(TEXT, &long);
    assert_eq!((&reply.error(429)["code"], reply.header("retry-after")), (&json!("queue_full"), Some("1")));
    // Of two choices one would fit: none is kept.
    drop(waiting);
    let two = json!({ "prompt": "a", "max_tokens": 200, "n": 3, "temperature": 0 });
    assert_eq!(server.post(TEXT, &two).error(429)["code"], "queue_full");
    drop(running);
    server.wait_until("empty", |s| s.running == 0 && s.waiting == 0);
}

#[test]
fn all_bodies_together_are_bounded() {
    let limits = Limits { bodies: 1000, ..Limits::default() };
    let server = TestServer::with(ServeOptions { limits, ..options() }, Toy::default());
    let mut slow = server.connect();
    slow.write(format!("POST {TEXT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 990\r\n\r\n{}", "x".repeat(980)).as_bytes());
    std::thread::sleep(Duration::from_millis(100));
    let small = json!({ "prompt": "a", "max_tokens": 1, "temperature": 0 });
    let error = server.post(TEXT, &small).error(503);
    assert_eq!(error["code"], "too_many_bodies");
    drop(slow);
    std::thread::sleep(Duration::from_millis(100));
    let reply: Value = server.post(TEXT, &small).ok();
    assert_eq!(reply["choices"][0]["text"], "b");
}
