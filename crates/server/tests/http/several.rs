//! Several models behind one server: loaded when they are asked for, and put away where there is no room.

use crate::client::{Client, PATIENCE, TestServer, options, post_request};
use crate::toy::{DIES, Toy};
use onebit_server::{Limits, LoadFault, Offer, ServeOptions, ShelfLimits};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const TEXT: &str = "/v1/completions";
/// Bytes that each toy says it takes.
const BYTES: usize = 100;

/// What loaders did, in order.
type Log = Arc<Mutex<Vec<String>>>;

fn offer(name: &str, toy: Toy, log: &Log) -> Offer {
    let (its_name, log) = (name.to_string(), log.clone());
    let load = move |_: onebit_server::LoadProgress, room: Option<usize>| {
        if room.is_some_and(|room| room < BYTES) {
            return Err(LoadFault::Memory("too large".into()));
        }
        log.lock().expect("a log").push(its_name.clone());
        let mut loaded = toy.load();
        loaded.info.memory = BYTES;
        Ok(loaded)
    };
    Offer { name: name.into(), aliases: vec![format!("{name}-alias")], load: Arc::new(load) }
}

fn three(limits: ShelfLimits, toy: Toy) -> (TestServer, Log) {
    let log = Log::default();
    let offers = ["a", "b", "c"].map(|name| offer(name, toy, &log)).to_vec();
    (TestServer::several(options(), offers, limits), log)
}

fn ask(server: &TestServer, model: &str) -> Value {
    let answer = server.post(TEXT, &json!({ "model": model, "prompt": "x", "max_tokens": 3, "temperature": 0 })).ok();
    assert_eq!(answer["choices"][0]["text"], "yza");
    answer["model"].clone()
}

/// Names and states, as `/v1/models` tells them.
fn states(server: &TestServer) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().expect("a text").to_string();
    let listed = server.get("/v1/models").ok();
    listed["data"].as_array().expect("a list").iter().map(|model| (text(&model["id"]), text(&model["status"]["value"]))).collect()
}

fn loaded(server: &TestServer) -> Vec<String> {
    states(server).into_iter().filter(|(_, state)| state == "loaded").map(|(name, _)| name).collect()
}

#[test]
fn models_are_loaded_when_they_are_asked_for() {
    let (server, log) = three(ShelfLimits::default(), Toy::default());
    assert_eq!(server.get("/health").ok(), json!({ "status": "ok" }), "nothing has to be loaded for that");
    assert_eq!(loaded(&server), [] as [&str; 0]);
    assert_eq!(ask(&server, "b"), "b");
    assert_eq!(ask(&server, "a-alias"), "a", "an alias means its model");
    assert_eq!(ask(&server, "b"), "b");
    assert_eq!((loaded(&server), log.lock().expect("a log").clone()), (vec!["a".into(), "b".into()], vec!["b".to_string(), "a".into()]));
    // What is known of a model is told of it alone, and an absent one's is not known.
    let one = server.get("/v1/models/b-alias").ok();
    assert_eq!((&one["id"], &one["aliases"], &one["meta"]["architecture"]), (&json!("b"), &json!(["b-alias"]), &json!("toy")));
    assert_eq!(server.get("/v1/models/c").ok()["meta"], Value::Null);
    // All other endpoints take the name, too.
    for (path, body) in [
        ("/v1/chat/completions", json!({ "model": "c", "messages": [{ "role": "user", "content": "x" }], "max_tokens": 1 })),
        ("/tokenize", json!({ "model": "c", "content": "x" })),
        ("/v1/responses", json!({ "model": "c", "input": "x", "max_output_tokens": 1 })),
        ("/completion", json!({ "model": "c", "prompt": "x", "n_predict": 1 })),
    ] {
        server.post(path, &body).ok();
    }
    assert_eq!(log.lock().expect("a log").len(), 3);
}

#[test]
fn a_model_that_is_not_named_or_not_there_is_refused() {
    let (server, log) = three(ShelfLimits::default(), Toy::default());
    let error = server.post(TEXT, &json!({ "prompt": "x" })).error(400);
    assert_eq!((&error["param"], &error["code"]), (&json!("model"), &json!("invalid_value")));
    let error = server.post(TEXT, &json!({ "model": "d", "prompt": "x" })).error(404);
    assert_eq!((&error["param"], &error["code"]), (&json!("model"), &json!("model_not_found")));
    assert_eq!(server.get("/v1/models/d").error(404)["code"], "model_not_found");
    assert_eq!(server.post(TEXT, &json!({ "model": 7, "prompt": "x" })).error(400)["param"], "model");
    assert!(log.lock().expect("a log").is_empty(), "nothing is loaded for these");
    let offers = ["a", "b"].map(|name| offer(name, Toy::default(), &log)).to_vec();
    let any = TestServer::several(ServeOptions { any_model: true, ..options() }, offers, ShelfLimits::default());
    for (asked, model) in [(json!("gpt-4"), "a"), (json!("b"), "b"), (Value::Null, "a")] {
        let answer = any.post(TEXT, &json!({ "model": asked, "prompt": "x", "max_tokens": 1 })).ok();
        assert_eq!(answer["model"], model);
    }
}

#[test]
fn the_longest_unused_model_leaves() {
    for limits in [ShelfLimits { models: Some(2), memory: None }, ShelfLimits { models: None, memory: Some(2 * BYTES + BYTES / 2) }] {
        let (server, log) = three(limits, Toy::default());
        for name in ["a", "b", "a", "c"] {
            ask(&server, name);
        }
        assert_eq!(loaded(&server), ["a", "c"], "b was not asked for lately");
        ask(&server, "b");
        assert_eq!(loaded(&server), ["b", "c"]);
        assert_eq!(log.lock().expect("a log").join(" "), "a b c b");
    }
}

#[test]
fn a_model_that_never_fits_is_a_503_and_the_others_go_on() {
    let log = Log::default();
    let small = offer("small", Toy::default(), &log);
    let large = Offer { name: "large".into(), aliases: vec![], load: Arc::new(|_, _| Err(LoadFault::Memory("9 TB are needed".into()))) };
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = tries.clone();
    let broken = Offer {
        name: "broken".into(),
        aliases: vec![],
        load: Arc::new(move |_, _| {
            counted.fetch_add(1, Ordering::Relaxed);
            Err(LoadFault::Other("/secret/broken.gguf: byte 7 is wrong".into()))
        }),
    };
    let panics = Offer { name: "panics".into(), aliases: vec![], load: Arc::new(|_, _| panic!("the loader broke")) };
    let server = TestServer::several(options(), vec![small, large, broken, panics], ShelfLimits::default());
    let refused = |name: &str| server.post(TEXT, &json!({ "model": name, "prompt": "x" })).error(503);
    ask(&server, "small");
    assert_eq!(refused("large")["code"], "no_memory");
    for expected in 1..3 {
        let error = refused("broken");
        assert_eq!(error["code"], "model_failed");
        assert!(!error["message"].as_str().expect("a message").contains("secret"), "{error}");
        assert_eq!(tries.load(Ordering::Relaxed), expected, "it is tried again for whoever asks again");
    }
    assert_eq!(refused("panics")["code"], "model_failed");
    let listed = server.get("/v1/models").ok();
    assert_eq!(listed["data"][2]["status"], json!({ "value": "unloaded", "failed": true }));
    ask(&server, "small");
}

/// One at a time: what is being answered is not cut for another model, and who waits gets a turn although the first is asked for on and on.
#[test]
fn answers_end_before_their_model_leaves() {
    let (server, log) = three(ShelfLimits { models: Some(1), memory: None }, Toy { step: Duration::from_millis(5), ..Toy::default() });
    ask(&server, "a");
    let long = json!({ "model": "a", "prompt": "x", "max_tokens": 100, "temperature": 0, "stream": true }).to_string();
    let mut stream: Client = server.connect();
    stream.write(post_request(TEXT, &long).as_bytes());
    assert_eq!(stream.head().status, 200, "it is under way");
    let server = Arc::new(server);
    let other = std::thread::spawn({
        let server = server.clone();
        move || (ask(&server, "b"), Instant::now())
    });
    let deadline = Instant::now() + PATIENCE;
    while states(&server)[0].1 != "unloading" {
        assert!(Instant::now() < deadline, "a never leaves: {:?}", states(&server));
    }
    // It comes after b, and waits for it.
    let again = std::thread::spawn({
        let server = server.clone();
        move || (ask(&server, "a"), Instant::now())
    });
    let mut text = String::new();
    while let Some(chunk) = stream.chunk() {
        text.push_str(&String::from_utf8(chunk).expect("UTF-8"));
    }
    assert!(text.ends_with("data: [DONE]\n\n") && text.matches("data: {").count() >= 100, "{text}");
    let (b, a) = (other.join().expect("b is answered"), again.join().expect("a is answered"));
    assert!((b.0 == "b") && (a.0 == "a") && (b.1 < a.1));
    assert_eq!(log.lock().expect("a log").join(" "), "a b a");
    assert_eq!(loaded(&server), ["a"]);
}

/// Many who ask for three models of which one has room: all are answered, each by its own.
#[test]
fn a_crowd_is_answered() {
    let (server, _) = three(ShelfLimits { models: Some(1), memory: None }, Toy::default());
    std::thread::scope(|scope| {
        for i in 0..24 {
            let (server, name) = (&server, ["a", "b", "c"][i % 3]);
            scope.spawn(move || assert_eq!(ask(server, name), name));
        }
    });
    assert_eq!(loaded(&server).len(), 1);
}

#[test]
fn a_request_waits_for_its_model_only_so_long() {
    let load: Arc<onebit_server::Loader> = Arc::new(|_, _| {
        std::thread::sleep(Duration::from_secs(3));
        Ok(Toy::default().load())
    });
    let slow = Offer { name: "slow".into(), aliases: vec![], load };
    let limits = Limits { load_time: Duration::from_millis(200), ..Limits::default() };
    let server = TestServer::several(ServeOptions { limits, ..options() }, vec![slow], ShelfLimits::default());
    let reply = server.post(TEXT, &json!({ "model": "slow", "prompt": "x" }));
    assert_eq!(reply.error(503)["code"], "loading");
    assert!(reply.header("retry-after").is_some());
    // It goes on being loaded, for the next one.
    let deadline = Instant::now() + PATIENCE;
    while loaded(&server).is_empty() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(20));
    }
    server.post(TEXT, &json!({ "model": "slow", "prompt": "x", "max_tokens": 1 })).ok();
}

/// A client that leaves does not take the load with it, and one that stops the server waits for nobody.
#[test]
fn stopping_ends_those_who_wait() {
    let load: Arc<onebit_server::Loader> = Arc::new(|_, _| {
        std::thread::sleep(Duration::from_secs(3));
        Ok(Toy::default().load())
    });
    let slow = Offer { name: "slow".into(), aliases: vec![], load };
    let mut server = TestServer::several(options(), vec![slow], ShelfLimits::default());
    let mut client = server.connect();
    client.write(post_request(TEXT, &json!({ "model": "slow", "prompt": "x" }).to_string()).as_bytes());
    let deadline = Instant::now() + PATIENCE;
    while states(&server)[0].1 != "loading" {
        assert!(Instant::now() < deadline);
    }
    let begin = Instant::now();
    server.stop();
    assert_eq!(client.reply().error(503)["code"], "shutting_down");
    server.join().expect("it ends well");
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
}

#[test]
fn a_model_that_dies_is_loaded_again() {
    let (server, log) = three(ShelfLimits::default(), Toy::default());
    let dead = server.post(TEXT, &json!({ "model": "a", "prompt": DIES.to_string(), "max_tokens": 3 }));
    assert_eq!(dead.status, 500, "{}", dead.text());
    let deadline = Instant::now() + PATIENCE;
    loop {
        let reply = server.post(TEXT, &json!({ "model": "a", "prompt": "x", "max_tokens": 1 }));
        if reply.status == 200 {
            break;
        }
        assert!(Instant::now() < deadline, "{}", reply.text());
    }
    assert_eq!(log.lock().expect("a log").join(" "), "a a");
}

#[test]
fn those_who_watch_see_each_model() {
    let log = Log::default();
    let offers = ["a", "b"].map(|name| offer(name, Toy::default(), &log)).to_vec();
    let told = ServeOptions { metrics: true, slots: true, props: true, ..options() };
    let server = TestServer::several(told, offers, ShelfLimits { models: Some(1), memory: None });
    assert_eq!(server.get("/slots").error(400)["param"], "model");
    assert_eq!(server.get("/slots?model=a").error(503)["code"], "not_loaded");
    assert_eq!(server.get("/slots?model=x").error(404)["code"], "model_not_found");
    ask(&server, "a");
    ask(&server, "b");
    assert_eq!(server.get("/slots").ok().as_array().map(Vec::len), Some(4), "the only one that is loaded");
    assert_eq!(server.get("/props?model=b%2Dalias").ok()["model_alias"], "b");
    let metrics = server.get("/metrics");
    let text = metrics.text();
    for line in [
        "onebit_requests_total{model_name=\"b\"} 1",
        "llamacpp:prompt_tokens_total{model_name=\"b\"} 1",
        "onebit_models_loaded 1",
        "onebit_model_loads_total 2",
        "onebit_model_evictions_total 1",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}: {text}");
    }
    assert_eq!(text.matches("# TYPE onebit_requests_total ").count(), 1);
}
