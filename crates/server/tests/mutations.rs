//! Requests that were broken at random: each gets one answer of the right shape, and the server goes on.
//!
//! `ONEBIT_MUTATION_SECONDS` says how long each test goes on. `ONEBIT_MUTATION_SEED` says where the random
//! numbers start.

mod common;
#[path = "../../../tests/random.rs"]
mod random;

use common::client::{Client, Reply, TestServer, options, post_request};
use common::toy::Toy;
use onebit_server::{Limits, ServeOptions};
use random::Random;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

fn requests() -> Vec<(&'static str, Value)> {
    let messages = json!([
        { "role": "system", "content": "s" },
        { "role": "user", "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }] },
        { "role": "assistant", "content": "c", "tool_calls": [] },
        { "role": "user", "content": "d" },
    ]);
    vec![
        (
            "/v1/chat/completions",
            json!({ "model": "toy", "messages": messages, "max_tokens": 5, "n": 2, "temperature": 0.5, "top_p": 0.9, "top_k": 3, "stop": ["x", "y"],
                    "logit_bias": { "5": 1.5 }, "seed": 1, "logprobs": true, "top_logprobs": 2, "user": "u", "response_format": { "type": "text" } }),
        ),
        (
            "/v1/chat/completions",
            json!({ "messages": messages, "max_completion_tokens": 5, "stream": true, "stream_options": { "include_usage": true },
                    "chat_template_kwargs": { "enable_thinking": true }, "reasoning_effort": "none", "dry_multiplier": 0.5, "xtc_probability": 0.5 }),
        ),
        (
            "/v1/completions",
            json!({ "prompt": ["ab", [97, 98]], "max_tokens": 3, "echo": true, "logprobs": 2, "n": 2, "best_of": 2, "min_p": 0.1 }),
        ),
        ("/v1/completions", json!({ "prompt": [97, 98, 99], "max_tokens": 3, "stream": true, "mirostat": 2, "repeat_penalty": 1.1 })),
        ("/completion", json!({ "prompt": "ab", "n_predict": 4, "cache_prompt": false, "ignore_eos": true, "logit_bias": [[5, false]] })),
        ("/tokenize", json!({ "content": "ab", "add_special": true, "with_pieces": true })),
        ("/detokenize", json!({ "tokens": [97, 256, 98] })),
        ("/apply-template", json!({ "messages": messages })),
    ]
}

/// Values at the edges of what fields take, and beyond.
fn nasty() -> Vec<Value> {
    let deep = (0..80).fold(json!(1), |inner, _| json!([inner]));
    let text = ["", "\u{0}", "é\u{301}\u{200f}", "<|im_end|>", "raise", "-1", "none"];
    let mut values: Vec<Value> = text.into_iter().map(Value::from).collect();
    values.extend([json!(null), json!(true), json!(false), json!([]), json!({}), json!([[]]), json!({ "": {} }), deep]);
    values.extend([
        json!(-1),
        json!(0),
        json!(1),
        json!(-2),
        json!(0.5),
        json!(1e308),
        json!(-1e308),
        json!(1e-308),
        json!(257),
        json!(258),
    ]);
    values.extend([json!(i64::MIN), json!(i64::MAX), json!(u64::MAX), json!(1u64 << 53), json!(1000000)]);
    values.extend([
        json!("x".repeat(5000)),
        json!(vec![97; 3000]),
        json!(vec!["x"; 3000]),
        json!(vec![json!({ "role": "user", "content": "x" }); 300]),
    ]);
    values
}

/// Puts `value` in the place of a random node of `tree`.
fn graft(tree: &mut Value, value: &Value, random: &mut Random) {
    let children = match tree {
        Value::Array(list) => list.len(),
        Value::Object(map) => map.len(),
        _ => 0,
    };
    if children == 0 || random.below(5) == 0 {
        *tree = value.clone();
        return;
    }
    let child = random.below(children);
    match tree {
        Value::Array(list) => graft(&mut list[child], value, random),
        Value::Object(map) => {
            if let Some((_, inner)) = map.iter_mut().nth(child) {
                graft(inner, value, random);
            }
        }
        _ => {}
    }
}

/// Breaks the text itself.
fn damage(text: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(3) {
        let (at, len) = (random.below(text.len()), 1 + random.below(12));
        let end = (at + len).min(text.len());
        match random.below(6) {
            0 => text.truncate(at),
            1 => drop(text.drain(at..end)),
            2 => {
                let copy = text[at..end].to_vec();
                text.splice(at..at, copy.repeat(1 + random.below(40)));
            }
            3 => text.insert(at, *random.pick(b"{}[]\",:\\\0\xff0-eu ")),
            4 => text[at..end].iter_mut().for_each(|b| *b ^= 1 << (len % 8)),
            _ => text[at..end].reverse(),
        }
        if text.is_empty() {
            text.push(b' ');
        }
    }
}

/// An answer that a client can read, and no fault of ours.
fn assert_proper(reply: &Reply, request: &[u8]) {
    let shown = || String::from_utf8_lossy(&request[..request.len().min(2000)]).into_owned();
    match reply.status {
        200 if reply.header("content-type") == Some("text/event-stream") => drop(reply.events()),
        200 => drop(reply.json()),
        400 | 404 | 413 | 429 => drop(reply.error(reply.status)),
        other => panic!("status {other}: {} for {}", reply.text(), shown()),
    }
}

fn server() -> TestServer {
    let limits = Limits { head_time: Duration::from_millis(300), body_time: Duration::from_millis(300), ..Limits::default() };
    TestServer::with(ServeOptions { limits, any_model: true, ..options() }, Toy { breaks: false, ..Toy::default() })
}

/// After all of it, nothing is left over and a plain request is answered.
fn assert_well(server: &TestServer) {
    server.wait_until("empty", |s| s.running == 0 && s.waiting == 0 && s.pages_used == 0);
    let reply = server.post("/v1/completions", &json!({ "prompt": "a", "max_tokens": 3, "temperature": 0 })).ok();
    assert_eq!(reply["choices"][0]["text"], "bcd");
}

#[test]
fn bodies() {
    let (server, requests, nasty, mut random) = (server(), requests(), nasty(), Random(random::seed()));
    let (begin, budget, mut count, mut fine) = (Instant::now(), random::time(), 0u32, 0u32);
    let mut client: Option<Client> = None;
    while begin.elapsed() < budget {
        let (path, mut body) = random.pick(&requests).clone();
        for _ in 0..random.below(3) {
            graft(&mut body, random.pick(&nasty), &mut random);
        }
        let mut text = body.to_string().into_bytes();
        if random.below(3) == 0 {
            damage(&mut text, &mut random);
        }
        let mut request = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", text.len()).into_bytes();
        request.extend(&text);
        let started = Instant::now();
        let connection = client.get_or_insert_with(|| server.connect());
        connection.write(&request);
        let reply = connection.reply();
        assert_proper(&reply, &request);
        assert!(started.elapsed() < Duration::from_secs(10), "{path} took {:?}", started.elapsed());
        // The server keeps an idle connection for a short time only, here.
        client = client.filter(|_| count % 50 != 49);
        count += 1;
        fine += u32::from(reply.status == 200);
    }
    eprintln!("{count} requests, {fine} of them answered with 200");
    assert!(count > 20 && fine > 0 && fine < count, "{fine} of {count}");
    assert_well(&server);
}

#[test]
fn heads() {
    let (server, requests, mut random) = (server(), requests(), Random(!random::seed()));
    let (begin, budget, mut count) = (Instant::now(), random::time(), 0u32);
    while begin.elapsed() < budget {
        let (path, body) = random.pick(&requests);
        let mut request = post_request(path, &body.to_string()).into_bytes();
        let head = request.len() - body.to_string().len();
        let mut start = request[..head].to_vec();
        damage(&mut start, &mut random);
        request.splice(..head, start);
        let client = server.connect();
        let mut socket = client.socket();
        // It may close while we write, and need not answer at all; it must not stay silent for ever.
        let sent = socket.write_all(&request).and_then(|()| socket.shutdown(std::net::Shutdown::Write));
        if sent.is_ok() {
            let mut answer = vec![];
            let read = socket.read_to_end(&mut answer);
            assert!(!read.is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock), "no end: {}", String::from_utf8_lossy(&request));
            assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "{}", String::from_utf8_lossy(&answer));
        }
        count += 1;
    }
    eprintln!("{count} requests");
    assert!(count > 20);
    assert_well(&server);
}
