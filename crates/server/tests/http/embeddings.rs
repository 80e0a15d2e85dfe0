//! Vectors of texts. The toy's hidden states are the id of each token, 1, and half of the id below zero.

use crate::client::{TestServer, options};
use crate::toy::{NAN, Toy};
use onebit_engine::Pool;
use onebit_server::{Limits, ServeOptions};
use serde_json::{Value, json};

const PATH: &str = "/v1/embeddings";

fn server(pool: Pool) -> TestServer {
    TestServer::with(options(), Toy { embeds: Some(pool), ..Toy::default() })
}

/// Divided by its length, in the way of these tests.
fn unit(vector: [f64; 3]) -> [f64; 3] {
    let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
    vector.map(|x| x / length)
}

fn close(found: &Value, wanted: &[f64]) {
    let found: Vec<f64> = found.as_array().expect("numbers").iter().map(|x| x.as_f64().expect("a number")).collect();
    assert_eq!(found.len(), wanted.len(), "{found:?}");
    found.iter().zip(wanted).for_each(|(a, b)| assert!((a - b).abs() <= 1e-6 * b.abs().max(1.0), "{found:?} for {wanted:?}"));
}

/// Of `ab`: 97 and 98.
const AB: [f64; 3] = [97.5, 1.0, -48.75];

#[test]
fn inputs_of_all_forms() {
    let server = server(Pool::Mean);
    let reply = server.post(PATH, &json!({ "model": "toy", "input": "ab", "user": "u" })).ok();
    assert_eq!((&reply["object"], &reply["model"]), (&json!("list"), &json!("toy")));
    assert_eq!((&reply["data"][0]["object"], &reply["data"][0]["index"]), (&json!("embedding"), &json!(0)));
    assert_eq!(reply["usage"], json!({ "prompt_tokens": 2, "total_tokens": 2 }));
    close(&reply["data"][0]["embedding"], &unit(AB));
    for (input, count) in
        [(json!([97, 98]), 1), (json!(["a", "ab"]), 2), (json!([[9, 10, 11], [97, 98]]), 2), (json!(["a", [98], "ab"]), 3)]
    {
        let reply = server.post(PATH, &json!({ "input": input, "encoding_format": "float" })).ok();
        let data = reply["data"].as_array().expect("a list");
        assert_eq!(data.len(), count);
        assert!(data.iter().zip(0..).all(|(datum, i)| datum["index"] == i));
        close(&data[count - 1]["embedding"], &unit(AB));
    }
    // Marks are read as such, as in prompts; and more texts than fit into the queue.
    close(&server.post(PATH, &json!({ "input": "<|im_end|>" })).ok()["data"][0]["embedding"], &unit([257.0, 1.0, -128.5]));
    let reply = server.post(PATH, &json!({ "input": vec!["ab"; 100] })).ok();
    assert_eq!(reply["usage"]["total_tokens"], 200);
    close(&reply["data"][99]["embedding"], &unit(AB));
}

#[test]
fn forms_of_vectors() {
    let server = server(Pool::Mean);
    let embed = |mut more: Value| {
        more["input"] = "ab".into();
        server.post(PATH, &more).ok()["data"][0]["embedding"].clone()
    };
    // Cut, and then of length 1 again.
    close(&embed(json!({ "dimensions": 3 })), &unit(AB));
    let length = (97.5f64 * 97.5 + 1.0).sqrt();
    close(&embed(json!({ "dimensions": 2 })), &[97.5 / length, 1.0 / length]);
    close(&embed(json!({ "dimensions": 1 })), &[1.0]);
    close(&embed(json!({ "embd_normalize": -1 })), &AB);
    close(&embed(json!({ "embd_normalize": 1 })), &AB.map(|x| x / 147.25));
    close(&embed(json!({ "embd_normalize": 0 })), &AB.map(|x| x * 32760.0 / 97.5));
    // Of 97.5, 1 and -48.75 as little-endian f32, by Python's base64.
    assert_eq!(embed(json!({ "encoding_format": "base64", "embd_normalize": -1 })), json!("AADDQgAAgD8AAEPC"));
}

#[test]
fn poolings() {
    for (pool, wanted) in [(Pool::Cls, [97.0, 1.0, -48.5]), (Pool::Last, [98.0, 1.0, -49.0]), (Pool::Max, [98.0, 1.0, -48.5])] {
        let reply = server(pool).post(PATH, &json!({ "input": "ab", "embd_normalize": -1 })).ok();
        close(&reply["data"][0]["embedding"], &wanted);
    }
    let server = server(Pool::None);
    let error = server.post(PATH, &json!({ "input": "ab" })).error(400);
    assert!(error["message"].as_str().is_some_and(|m| m.contains("pooling `none`")), "{error}");
    let reply = server.post("/embedding", &json!({ "content": "ab" })).ok();
    assert_eq!(reply[0]["index"], 0);
    close(&reply[0]["embedding"][0], &[97.0, 1.0, -48.5]);
    close(&reply[0]["embedding"][1], &[98.0, 1.0, -49.0]);
}

#[test]
fn as_llama_server() {
    let server = server(Pool::Mean);
    for (path, body) in [("/embedding", json!({ "content": ["a", "ab"] })), ("/embeddings", json!({ "input": ["a", [97, 98]] }))] {
        let reply = server.post(path, &body).ok();
        assert_eq!((reply.as_array().map(Vec::len), &reply[1]["index"]), (Some(2), &json!(1)));
        close(&reply[1]["embedding"][0], &unit(AB));
    }
}

#[test]
fn refusals() {
    let few = ServeOptions { limits: Limits { inputs: 3, ..Limits::default() }, ..options() };
    let server = TestServer::with(few, Toy { embeds: Some(Pool::Mean), context: 8, ..Toy::default() });
    for (body, status, param) in [
        (json!({}), 400, json!("input")),
        (json!({ "input": "" }), 400, json!("input")),
        (json!({ "input": [] }), 400, json!("input")),
        (json!({ "input": ["a", ""] }), 400, json!("input")),
        (json!({ "input": 1 }), 400, json!("input")),
        (json!({ "input": ["a", 1] }), 400, json!("input[1]")),
        (json!({ "input": [[1], [258]] }), 400, json!("input[1][0]")),
        (json!({ "input": ["a", "b", "c", "d"] }), 400, json!("input")),
        (json!({ "input": "a", "content": "b" }), 400, json!("content")),
        (json!({ "input": "a", "dimensions": 0 }), 400, json!("dimensions")),
        (json!({ "input": "a", "dimensions": 4 }), 400, json!("dimensions")),
        (json!({ "input": "a", "dimensions": "3" }), 400, json!("dimensions")),
        (json!({ "input": "a", "encoding_format": "int8" }), 400, json!("encoding_format")),
        (json!({ "input": "a", "embd_normalize": -2 }), 400, json!("embd_normalize")),
        (json!({ "input": "a", "truncate": true }), 400, json!("truncate")),
        (json!({ "input": "a", "model": "other" }), 404, json!("model")),
        (json!({ "input": "123456789" }), 413, json!("input")),
        (json!({ "input": format!("a{NAN}") }), 500, json!(null)),
    ] {
        let error = server.post(PATH, &body).error(status);
        assert_eq!(error["param"], param, "{body}: {error}");
    }
    let error = server.post("/embedding", &json!({ "content": "a", "encoding_format": "base64" })).error(400);
    assert_eq!(error["param"], "encoding_format");
    // What is loaded to embed does not write, and the other way round.
    for (path, body) in [("/v1/completions", json!({ "prompt": "a" })), ("/completion", json!({ "prompt": "a" }))] {
        assert_eq!(server.post(path, &body).error(501)["type"], "not_supported_error");
    }
    assert_eq!(TestServer::start().post(PATH, &json!({ "input": "a" })).error(501)["code"], "not_supported");
}
