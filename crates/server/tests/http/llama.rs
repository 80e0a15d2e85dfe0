//! The endpoints in llama-server's shape.

use crate::client::TestServer;
use serde_json::{Value, json};

#[test]
fn completion_as_the_tools_for_measuring_ask_for_it() {
    let server = TestServer::start();
    let body = json!({ "prompt": [120, 97], "n_predict": 4, "temperature": 0, "cache_prompt": false, "ignore_eos": true });
    for path in ["/completion", "/completions"] {
        let reply = server.post(path, &body).ok();
        assert_eq!((&reply["content"], &reply["stop"], &reply["stop_type"]), (&json!("bcde"), &json!(true), &json!("limit")));
        assert_eq!((&reply["tokens_predicted"], &reply["tokens_evaluated"]), (&json!(4), &json!(2)));
        let timings = &reply["timings"];
        assert_eq!((&timings["prompt_n"], &timings["predicted_n"]), (&json!(2), &json!(4)));
        for name in ["prompt_ms", "prompt_per_second", "predicted_ms", "predicted_per_second"] {
            assert!(timings[name].as_f64().is_some_and(|t| t > 0.0), "{name}: {timings}");
        }
        let per_second = timings["predicted_per_second"].as_f64().zip(timings["predicted_ms"].as_f64()).map(|(a, b)| a * b / 1e3);
        assert!(per_second.is_some_and(|n| (n - 4.0).abs() < 1e-6), "{timings}");
    }
}

#[test]
fn completion_streams_and_stops() {
    let server = TestServer::start();
    let body = json!({ "prompt": "a", "temperature": 0, "stop": ["ef"], "stream": true, "return_tokens": true });
    let events = server.post("/completion", &body).events();
    let (last, parts) = events.split_last().expect("events");
    let text: String = events.iter().filter_map(|e| e["content"].as_str()).collect();
    assert_eq!(text, "bcd");
    assert_eq!((&last["stop"], &last["stop_type"], &last["stopping_word"]), (&json!(true), &json!("word"), &json!("ef")));
    assert!(parts.iter().all(|e| e["stop"] == false));
    let tokens: Vec<Value> = parts.iter().filter_map(|e| e["tokens"].as_array()).flatten().cloned().collect();
    assert_eq!(json!(tokens[..3]), json!([98, 99, 100]));
    assert!(last["timings"]["predicted_n"].is_u64());
}

#[test]
fn tokens_and_back() {
    let server = TestServer::start();
    let reply = server.post("/tokenize", &json!({ "content": "é<|im_end|>" })).ok();
    assert_eq!(reply, json!({ "tokens": [0xc3, 0xa9, 257] }));
    let reply = server.post("/tokenize", &json!({ "content": "<|im_end|>", "parse_special": false })).ok();
    assert_eq!(reply["tokens"].as_array().map(Vec::len), Some(10));
    let reply = server.post("/tokenize", &json!({ "content": "aé", "with_pieces": true })).ok();
    let pieces = json!([{ "id": 97, "piece": "a" }, { "id": 0xc3, "piece": [0xc3] }, { "id": 0xa9, "piece": [0xa9] }]);
    assert_eq!(reply, json!({ "tokens": pieces }));
    let reply = server.post("/detokenize", &json!({ "tokens": [0xc3, 0xa9, 257] })).ok();
    assert_eq!(reply, json!({ "content": "é<|im_end|>" }));
    for (path, body, param) in [
        ("/tokenize", json!({}), "content"),
        ("/tokenize", json!({ "content": 1 }), "content"),
        ("/tokenize", json!({ "content": "", "other": 1 }), "other"),
        ("/detokenize", json!({}), "tokens"),
        ("/detokenize", json!({ "tokens": "a" }), "tokens"),
        ("/detokenize", json!({ "tokens": [1, 258] }), "tokens[1]"),
        ("/detokenize", json!({ "tokens": [-1] }), "tokens[0]"),
        ("/detokenize", json!({ "tokens": [1.5] }), "tokens[0]"),
    ] {
        assert_eq!(server.post(path, &body).error(400)["param"], param, "{path} {body}");
    }
}
