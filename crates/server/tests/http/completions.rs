//! `/v1/completions`.

use crate::client::{TestServer, options};
use crate::toy::Toy;
use serde_json::{Value, json};

fn ask(server: &TestServer, more: Value) -> Value {
    let mut body = json!({ "model": "toy", "temperature": 0, "max_tokens": 3 });
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    server.post("/v1/completions", &body).ok()
}

fn texts(reply: &Value) -> Vec<&str> {
    reply["choices"].as_array().expect("choices").iter().map(|c| c["text"].as_str().expect("text")).collect()
}

#[test]
fn all_forms_of_prompts() {
    let server = TestServer::start();
    assert_eq!(texts(&ask(&server, json!({ "prompt": "xa" }))), ["bcd"]);
    assert_eq!(texts(&ask(&server, json!({ "prompt": [120, 97] }))), ["bcd"]);
    assert_eq!(texts(&ask(&server, json!({ "prompt": ["a", "m"] }))), ["bcd", "nop"]);
    assert_eq!(texts(&ask(&server, json!({ "prompt": [[97], [109]] }))), ["bcd", "nop"]);
    let reply = ask(&server, json!({ "prompt": ["ab", [109]], "n": 2, "echo": true }));
    assert_eq!(texts(&reply), ["abcde", "abcde", "mnop", "mnop"]);
    assert_eq!(reply["usage"]["prompt_tokens"], 3, "two and one, and not once more for each choice");
    assert_eq!(reply["usage"]["completion_tokens"], 12);
    assert_eq!(reply["object"], "text_completion");
    let indexes: Vec<_> = reply["choices"].as_array().expect("choices").iter().map(|c| c["index"].as_u64()).collect();
    assert_eq!(indexes, [Some(0), Some(1), Some(2), Some(3)]);
}

#[test]
fn lengths() {
    let server = TestServer::start();
    let reply = server.post("/v1/completions", &json!({ "prompt": "a", "temperature": 0 })).ok();
    assert_eq!(texts(&reply), ["bcdefghijklmnopq"], "16 tokens, as OpenAI documents it");
    let reply = ask(&server, json!({ "prompt": "a", "max_tokens": 0, "echo": true }));
    assert_eq!((texts(&reply), &reply["usage"]["completion_tokens"]), (vec!["a"], &json!(0)));
    for most in [json!(-1), json!(1u64 << 40)] {
        let reply = ask(&server, json!({ "prompt": "a", "max_tokens": most }));
        assert_eq!(reply["usage"]["total_tokens"], 256, "to the end of the context");
        assert_eq!(reply["choices"][0]["finish_reason"], "length");
    }
}

#[test]
fn logprobs_with_and_without_echo() {
    let server = TestServer::start();
    let logprobs = |more: Value| ask(&server, more)["choices"][0]["logprobs"].clone();
    let plain = logprobs(json!({ "prompt": "xa", "logprobs": 2 }));
    assert_eq!((&plain["tokens"], &plain["text_offset"]), (&json!(["b", "c", "d"]), &json!([0, 1, 2])));
    let echoed = logprobs(json!({ "prompt": "xa", "logprobs": 2, "echo": true }));
    assert_eq!((&echoed["tokens"], &echoed["text_offset"]), (&json!(["x", "a", "b", "c", "d"]), &json!([0, 1, 2, 3, 4])));
    assert_eq!((&echoed["token_logprobs"][0], &echoed["top_logprobs"][0]), (&Value::Null, &Value::Null));
    let tail: Vec<Value> = echoed["token_logprobs"].as_array().expect("a list")[2..].to_vec();
    assert_eq!(json!(tail), plain["token_logprobs"]);
    // `a` does not follow `x`, so it is not among the most probable: it comes in addition.
    assert!(echoed["token_logprobs"][1].as_f64().expect("a number") < -9.0, "{echoed}");
    let alternatives = echoed["top_logprobs"][1].as_object().expect("a map");
    assert_eq!((alternatives.len(), &alternatives["a"]), (3, &echoed["token_logprobs"][1]));
    assert_eq!(plain["top_logprobs"][0].as_object().expect("a map").len(), 2, "`b` is the most probable itself");
    assert!(echoed["top_logprobs"][1]["y"].as_f64().expect("a number") > -0.1);
    // What lm-eval asks for: only the prompt's own.
    let only = logprobs(json!({ "prompt": "xa", "logprobs": 1, "echo": true, "max_tokens": 0 }));
    assert_eq!(only["token_logprobs"][1], echoed["token_logprobs"][1]);
    assert_eq!(only["tokens"], json!(["x", "a"]));
    // Characters count, not bytes, and a token that is not a whole one has its bytes for a name.
    let split = logprobs(json!({ "prompt": "é!a", "logprobs": 0, "echo": true, "max_tokens": 1 }));
    assert_eq!((&split["tokens"], &split["text_offset"]), (&json!(["bytes:\\xc3", "bytes:\\xa9", "!", "a", "b"]), &json!([0, 1, 1, 2, 3])));
}

#[test]
fn streams_the_same() {
    let server = TestServer::start();
    for more in [json!({}), json!({ "echo": true }), json!({ "logprobs": 1 }), json!({ "echo": true, "logprobs": 1 })] {
        let mut body = json!({ "prompt": ["ab", "m"], "n": 2, "temperature": 0, "max_tokens": 4 });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let whole = server.post("/v1/completions", &body).ok();
        body["stream"] = true.into();
        let events = server.post("/v1/completions", &body).events();
        assert_eq!(events.last(), Some(&json!("[DONE]")));
        for (index, choice) in whole["choices"].as_array().expect("choices").iter().enumerate() {
            let pieces: Vec<&Value> = events.iter().map(|e| &e["choices"][0]).filter(|c| c["index"] == index).collect();
            let text: String = pieces.iter().filter_map(|c| c["text"].as_str()).collect();
            assert_eq!(choice["text"], text, "{more}");
            for list in ["tokens", "token_logprobs", "text_offset", "top_logprobs"] {
                let joined: Vec<Value> = pieces.iter().filter_map(|c| c["logprobs"][list].as_array()).flatten().cloned().collect();
                let expected = choice["logprobs"][list].as_array().cloned().unwrap_or_default();
                assert_eq!(joined, expected, "{list} of {more}");
            }
            assert_eq!(pieces.last().map(|c| &c["finish_reason"]), Some(&json!("length")));
        }
    }
}

#[test]
fn text_is_never_half_a_character() {
    let server = TestServer::start();
    // 0xC3 and 0xA9 in turn: the bias makes one and the penalty for presence the other.
    let body = json!({ "prompt": "a", "max_tokens": 9, "temperature": 0, "stream": true, "logit_bias": { "195": 100, "169": 99 },
                       "frequency_penalty": 2 });
    let events = server.post("/v1/completions", &body).events();
    let text: String = events.iter().filter_map(|e| e["choices"][0]["text"].as_str()).collect();
    assert!(text.contains('é'), "{text}");
    let pieces = events.iter().filter_map(|e| e["choices"][0]["text"].as_str());
    assert!(pieces.filter(|t| t.contains('é')).count() > 1, "it is streamed in pieces");
}

#[test]
fn many_at_once_get_what_each_would_alone() {
    let server = TestServer::start();
    std::thread::scope(|scope| {
        for (i, first) in "abcdefghij".chars().enumerate() {
            let server = &server;
            scope.spawn(move || {
                let reply = ask(server, json!({ "prompt": first.to_string(), "max_tokens": 20 + i, "seed": 1 }));
                let expected: String = (1..=20 + i as u8).map(|k| char::from(b'a' + (first as u8 - b'a' + k) % 26)).collect();
                assert_eq!(texts(&reply), [expected]);
            });
        }
    });
    server.wait_until("empty", |s| s.running == 0 && s.pages_used == 0);
}

/// The prompt that is read: `x` before the gap, `yz` after it. The toy goes on from the last byte; from a mark it begins with `a`.
#[test]
fn gaps_are_filled() {
    let server = TestServer::with(options(), Toy { more_marks: true, ..Toy::default() });
    let reply = ask(&server, json!({ "prompt": "x", "suffix": "yz<|im_end|>" }));
    assert_eq!((texts(&reply), &reply["usage"]["prompt_tokens"]), (vec!["abc"], &json!(3 + 1 + 2 + "<|im_end|>".len())));
    let reply = ask(&server, json!({ "prompt": [[120], "xx"], "suffix": "y", "echo": true }));
    assert_eq!((texts(&reply), &reply["usage"]["prompt_tokens"]), (vec!["xabc", "xxabc"], &json!(3 + 2 + 3 + 3)));
    // An empty suffix is none.
    assert_eq!(ask(&server, json!({ "prompt": "x", "suffix": "" }))["usage"]["prompt_tokens"], 1);
    let body = json!({ "prompt": "x", "suffix": "y", "echo": true, "logprobs": 1 });
    assert_eq!(server.post("/v1/completions", &body).error(400)["param"], "suffix");
    assert_eq!(TestServer::start().post("/v1/completions", &json!({ "prompt": "x", "suffix": "y" })).error(400)["param"], "suffix");
}

#[test]
fn infill_as_llama_server_has_it() {
    let server = TestServer::with(options(), Toy { more_marks: true, ..Toy::default() });
    let body = |more: Value| {
        let mut body = json!({ "input_prefix": "ab", "input_suffix": "z", "temperature": 0, "n_predict": 3 });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        body
    };
    let reply = server.post("/infill", &body(json!({}))).ok();
    assert_eq!((&reply["content"], &reply["tokens_evaluated"]), (&json!("abc"), &json!(3 + 3)));
    let reply = server.post("/infill", &body(json!({ "prompt": "cd" }))).ok();
    assert_eq!(reply["tokens_evaluated"], json!(3 + 5));
    let extra = json!([{ "filename": "a.rs", "text": "b" }]);
    let reply = server.post("/infill", &body(json!({ "input_extra": extra }))).ok();
    assert_eq!(reply["tokens_evaluated"], json!(3 + 3 + 2 + "a.rs\nb".len()));
    let events = server.post("/infill", &body(json!({ "stream": true }))).events();
    assert_eq!(events.iter().filter_map(|e| e["content"].as_str()).collect::<String>(), "abc");
    for (more, param) in [
        (json!({ "input_prefix": null }), "input_prefix"),
        (json!({ "input_suffix": 1 }), "input_suffix"),
        (json!({ "prompt": {} }), "prompt"),
        (json!({ "input_extra": [{ "text": "b" }] }), "input_extra[0].filename"),
        (json!({ "wat": 1 }), "wat"),
    ] {
        assert_eq!(server.post("/infill", &body(more.clone())).error(400)["param"], param, "{more}");
    }
    assert_eq!(TestServer::start().post("/infill", &body(json!({}))).error(400)["param"], "input_suffix");
}

/// The best of several are those of the highest mean logprob, the best first.
#[test]
fn the_best_of_several() {
    let server = TestServer::start();
    let several = json!({ "prompt": ["a", "m"], "temperature": 2, "seed": 3, "max_tokens": 4, "logprobs": 0 });
    let with = |more: Value| {
        let mut body = several.clone();
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        ask(&server, body)
    };
    let all = with(json!({ "n": 6 }));
    let mean = |choice: &Value| {
        let logprobs = choice["logprobs"]["token_logprobs"].as_array().expect("a list");
        logprobs.iter().filter_map(Value::as_f64).sum::<f64>() / logprobs.len() as f64
    };
    let best = with(json!({ "n": 2, "best_of": 6 }));
    assert_eq!(best["choices"].as_array().map(Vec::len), Some(4));
    for (i, choices) in best["choices"].as_array().expect("choices").chunks(2).enumerate() {
        let mut group: Vec<&Value> = all["choices"].as_array().expect("choices")[6 * i..][..6].iter().collect();
        group.sort_by(|a, b| mean(b).total_cmp(&mean(a)));
        let got: Vec<&str> = choices.iter().map(|c| c["text"].as_str().expect("text")).collect();
        assert_eq!(got, [group[0]["text"].as_str().expect("text"), group[1]["text"].as_str().expect("text")]);
    }
    assert_eq!(best["usage"]["completion_tokens"], all["usage"]["completion_tokens"], "all that were made count");
    // Logprobs that nobody asked for are not told.
    let plain = with(json!({ "logprobs": null, "best_of": 3 }));
    assert_eq!(plain["choices"][0]["logprobs"], Value::Null);
}
