//! What those who watch a server are told: metrics, slots, properties.

use crate::client::{TestServer, options, post_request};
use crate::toy::Toy;
use onebit_server::ServeOptions;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

const TEXT: &str = "/v1/completions";

fn watched(toy: Toy) -> TestServer {
    TestServer::with(ServeOptions { metrics: true, slots: true, props: true, ..options() }, toy)
}

fn slow(max_sequences: usize) -> Toy {
    Toy { step: Duration::from_millis(10), max_sequences, ..Toy::default() }
}

fn long(prompt: &str) -> String {
    post_request(TEXT, &json!({ "prompt": prompt, "max_tokens": 200, "temperature": 0, "stream": true }).to_string())
}

/// All samples by name and labels, as they are written.
fn samples(server: &TestServer) -> BTreeMap<String, f64> {
    let reply = server.get("/metrics");
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/plain; version=0.0.4")));
    let lines = reply.text().lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line}"));
        (
            name.replace(",model_name=\"toy\"", "").replace("model_name=\"toy\",", "").replace("{model_name=\"toy\"}", ""),
            value.parse().expect("a number"),
        )
    };
    lines.map(sample).collect()
}

#[test]
fn nothing_is_told_unasked() {
    let server = TestServer::start();
    for (path, flag) in [("/metrics", "--metrics"), ("/slots", "--slots"), ("/props", "--props")] {
        let error = server.get(path).error(501);
        assert!(error["message"].as_str().is_some_and(|m| m.contains(flag)), "{path}: {error}");
    }
}

#[test]
fn metrics_count_what_was_done() {
    let server = watched(Toy::default());
    for (prompt, n) in [("abc", 5), ("x", 2), ("ab", 1)] {
        server.post(TEXT, &json!({ "prompt": prompt, "max_tokens": n, "temperature": 0 })).ok();
    }
    // What follows is the mark that ends an answer.
    server.post(TEXT, &json!({ "prompt": "!", "max_tokens": 9, "temperature": 0 })).ok();
    server.post(TEXT, &json!({ "prompt": [] })).error(400);
    let samples = samples(&server);
    for (name, value) in [
        ("onebit_requests_total", 4.0),
        ("onebit_prompt_tokens_total", 7.0),
        ("vllm:prompt_tokens_total", 7.0),
        ("llamacpp:prompt_tokens_total", 7.0),
        ("vllm:generation_tokens_total", 9.0),
        ("llamacpp:tokens_predicted_total", 9.0),
        ("vllm:num_requests_running", 0.0),
        ("vllm:num_requests_waiting", 0.0),
        ("vllm:kv_cache_usage_perc", 0.0),
        ("vllm:request_success_total{finished_reason=\"stop\"}", 1.0),
        ("vllm:request_success_total{finished_reason=\"length\"}", 3.0),
        ("vllm:request_success_total{finished_reason=\"abort\"}", 0.0),
        ("onebit_requests_ended_total{finished_reason=\"error\"}", 0.0),
        ("vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"128\"}", 1.0),
        // A step for each token.
        ("llamacpp:n_decode_total", 9.0),
        ("llamacpp:n_busy_slots_per_decode", 1.0),
        ("llamacpp:n_tokens_max", 8.0),
        // Of four requests the first tokens, and the others.
        ("vllm:time_to_first_token_seconds_count", 4.0),
        ("vllm:inter_token_latency_seconds_count", 5.0),
        ("vllm:time_per_output_token_seconds_count", 5.0),
        ("vllm:e2e_request_latency_seconds_count", 4.0),
        ("vllm:request_queue_time_seconds_count", 4.0),
        ("vllm:time_to_first_token_seconds_bucket{le=\"+Inf\"}", 4.0),
        // Prompts of 3, 1, 2 and 1 tokens, and 5 steps of one token.
        ("vllm:iteration_tokens_total_sum", 12.0),
        ("vllm:iteration_tokens_total_bucket{le=\"1\"}", 7.0),
        ("vllm:iteration_tokens_total_bucket{le=\"2\"}", 8.0),
        ("vllm:iteration_tokens_total_bucket{le=\"4\"}", 9.0),
        ("onebit_http_responses_total{class=\"4xx\"}", 1.0),
    ] {
        let told = samples.get(name).or_else(|| samples.get(&name.replace('}', ",model_name=\"toy\"}")));
        assert_eq!(told, Some(&value), "{name}: {samples:#?}");
    }
}

#[test]
fn metrics_tell_of_queue_and_pages() {
    let server = watched(slow(1));
    let (mut first, mut second) = (server.connect(), server.connect());
    first.write(long(&"a".repeat(20)).as_bytes());
    server.wait_until("running", |s| s.running == 1);
    second.write(long("b").as_bytes());
    server.wait_until("waiting", |s| s.waiting == 1);
    let samples = samples(&server);
    for name in ["vllm:num_requests_running", "vllm:num_requests_waiting", "llamacpp:requests_processing", "llamacpp:requests_deferred"] {
        assert_eq!(samples[name], 1.0, "{name}");
    }
    // Two of 128 pages of 16 tokens hold the prompt, and more the answer.
    let usage = samples["vllm:kv_cache_usage_perc"];
    assert!((2.0 / 128.0..=16.0 / 128.0).contains(&usage), "{usage}");
    assert_eq!(usage, samples["vllm:gpu_cache_usage_perc"]);
}

/// Prometheus's own reader for Python finds every family with a type and a help, and no sample without.
const READER: &str = "
import sys, urllib.request
from prometheus_client.parser import text_string_to_metric_families
text = urllib.request.urlopen(sys.argv[1] + '/metrics').read().decode()
families = {f.name: f for f in text_string_to_metric_families(text)}
assert all(f.type != 'unknown' and f.documentation for f in families.values()), families
assert families['vllm:time_to_first_token_seconds'].type == 'histogram'
assert families['vllm:prompt_tokens'].type == 'counter' and families['vllm:num_requests_waiting'].type == 'gauge'
buckets = [s for s in families['onebit_request_seconds'].samples if s.name.endswith('_bucket')]
assert [s.labels['le'] for s in buckets][:3] == ['0.001', '0.002', '0.005'], buckets
assert {s.labels['model_name'] for s in buckets} == {'toy'}
";

#[test]
fn prometheus_reads_it() {
    let python = ["ONEBIT_PYTHON"].iter().filter_map(|name| std::env::var(name).ok());
    let venv = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/check-venv/bin/python");
    let has = |python: &String| Command::new(python).args(["-c", "import prometheus_client"]).output().is_ok_and(|o| o.status.success());
    let Some(python) = python.chain([venv.into(), "python3".into()]).find(has) else {
        eprintln!("SKIPPED: no Python with the `prometheus-client` package (ONEBIT_PYTHON names one)");
        return;
    };
    let server = watched(Toy::default());
    server.post(TEXT, &json!({ "prompt": "a", "max_tokens": 3 })).ok();
    let output = Command::new(python).args(["-c", READER, &format!("http://{}", server.address)]).output().expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn slots_tell_who_runs_and_no_text() {
    let server = watched(slow(2));
    assert_eq!(server.get("/slots").ok()[1]["id_task"], -1);
    let mut client = server.connect();
    client.write(long("secret words").as_bytes());
    server.wait_until("running", |s| s.running == 1 && s.completion_tokens > 3);
    let reply = server.get("/slots");
    assert!(!reply.text().contains("secret"));
    let slots = reply.ok();
    let one = &slots[0];
    assert_eq!(slots.as_array().map(Vec::len), Some(2));
    assert_eq!((&one["id"], &one["id_task"], &one["is_processing"], &one["n_ctx"]), (&json!(0), &json!(0), &json!(true), &json!(256)));
    assert_eq!((&one["n_prompt_tokens"], &one["params"]["temperature"]), (&json!(12), &json!(0.0)));
    let (decoded, remain) = (one["next_token"]["n_decoded"].as_i64(), one["next_token"]["n_remain"].as_i64());
    assert!(decoded > Some(3) && decoded.zip(remain).is_some_and(|(a, b)| a + b == 200), "{one}");
    assert_eq!((&slots[1]["is_processing"], &slots[1]["id_task"]), (&json!(false), &json!(-1)));
    // A place is free, and then none is.
    assert_eq!(server.get("/slots?fail_on_no_slot=1").status, 200);
    let mut second = server.connect();
    second.write(long("b").as_bytes());
    server.wait_until("running", |s| s.running == 2);
    assert_eq!(server.get("/slots?fail_on_no_slot=1").error(503)["code"], "no_slot");
    drop((client, second));
    server.wait_until("empty", |s| s.running == 0);
    let slots = server.get("/slots").ok();
    let idle: Vec<&Value> = slots.as_array().into_iter().flatten().map(|slot| &slot["is_processing"]).collect();
    assert_eq!(idle, [&json!(false), &json!(false)]);
}

#[test]
fn properties_are_those_of_the_model() {
    let server = watched(Toy { max_sequences: 3, ..Toy::default() });
    let props = server.get("/props").ok();
    assert_eq!((&props["total_slots"], &props["model_alias"]), (&json!(3), &json!("toy")));
    assert_eq!(props["default_generation_settings"]["n_ctx"], 256);
    assert_eq!(props["default_generation_settings"]["params"]["top_p"], 1.0);
    assert!(props["chat_template"].as_str().is_some_and(|t| t.contains("<|im_start|>")));
    assert_eq!(props["modalities"]["vision"], false);
    let plain = watched(Toy { template: false, ..Toy::default() });
    assert_eq!(plain.get("/props").ok()["chat_template"], Value::Null);
}

#[test]
fn a_deadline_is_an_error_and_not_a_wait() {
    let server = TestServer::with(options(), slow(1));
    let body = json!({ "prompt": "a", "max_tokens": 200, "temperature": 0, "deadline_ms": 100 });
    assert_eq!(server.post(TEXT, &body).error(503)["code"], "deadline");
    // Also for one that waits for its place.
    let mut first = server.connect();
    first.write(long("a").as_bytes());
    server.wait_until("running", |s| s.running == 1);
    assert_eq!(server.post(TEXT, &body).error(503)["code"], "deadline");
    // One of a lower priority takes the place at once.
    let urgent = json!({ "prompt": "a", "max_tokens": 3, "temperature": 0, "deadline_ms": 5000, "priority": -1 });
    assert_eq!(server.post(TEXT, &urgent).ok()["choices"][0]["text"], "bcd");
    assert_eq!(server.stats().preemptions, 1);
}

#[test]
fn a_full_queue_says_when_to_come_again() {
    let server = TestServer::with(options(), Toy { queue: 1, step: Duration::from_millis(20), max_sequences: 1, ..Toy::default() });
    // A request takes 70 steps, which is 1.4 seconds.
    server.post(TEXT, &json!({ "prompt": "a", "max_tokens": 70, "temperature": 0 })).ok();
    let (mut first, mut second) = (server.connect(), server.connect());
    first.write(long("a").as_bytes());
    server.wait_until("running", |s| s.running == 1);
    second.write(long("a").as_bytes());
    server.wait_until("waiting", |s| s.waiting == 1);
    let reply = server.post(TEXT, &json!({ "prompt": "a" }));
    assert_eq!(reply.error(429)["code"], "queue_full");
    let seconds: u64 = reply.header("retry-after").and_then(|s| s.parse().ok()).expect("a number of seconds");
    assert!((2..20).contains(&seconds), "{seconds}");
}
