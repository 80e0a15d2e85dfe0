//! Starting, loading, stopping.

use crate::client::{PATIENCE, TestServer, options, post_request};
use crate::toy::{DIES, Toy};
use onebit_server::{ServeError, ServeOptions, Server};
use serde_json::{Value, json};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const TEXT: &str = "/v1/completions";

#[test]
fn says_how_far_it_is_while_loading() {
    let (go_on, wait) = mpsc::channel::<()>();
    let (reported, has_reported) = mpsc::channel::<()>();
    let server = TestServer::loading(options(), move |progress| {
        progress.report(25, 100);
        reported.send(())?;
        wait.recv()?;
        Ok(Toy::default().load())
    });
    has_reported.recv_timeout(PATIENCE).expect("loading begins");
    for path in ["/health", "/v1/health", "/v1/models", "/nothing"] {
        let reply = server.get(path);
        let error = reply.error(503);
        assert_eq!((&error["message"], &error["progress"]), (&json!("Loading model"), &json!(0.25)), "{path}");
        assert_eq!(reply.header("retry-after"), Some("1"));
    }
    assert_eq!(server.post(TEXT, &json!({ "prompt": "a" })).error(503)["code"], "loading");
    go_on.send(()).expect("the loader waits");
    let deadline = Instant::now() + PATIENCE;
    while server.get("/health").status == 503 {
        assert!(Instant::now() < deadline);
    }
    assert_eq!(server.get("/health").ok(), json!({ "status": "ok" }));
    assert_eq!(server.get("/v1/health").ok(), json!({ "status": "ok" }));
}

#[test]
fn a_model_that_cannot_be_loaded_ends_it() {
    let server = TestServer::loading(options(), |_| Err("model.gguf: no such file".into()));
    let error = server.join().expect_err("it ends");
    assert!(matches!(error, ServeError::Load(_)));
    assert_eq!(error.to_string(), "model.gguf: no such file");
    let server = TestServer::loading(options(), |_| panic!("the loader broke"));
    assert!(server.join().expect_err("it ends").to_string().contains("the loader broke"));
}

#[test]
fn stops_while_loading() {
    let (_never, wait) = mpsc::channel::<()>();
    let mut server = TestServer::loading(options(), move |_| {
        wait.recv()?;
        Err("never".into())
    });
    assert_eq!(server.get("/health").status, 503);
    let begin = Instant::now();
    server.stop();
    server.join().expect("it ends well");
    assert!(begin.elapsed() < Duration::from_secs(3));
}

fn bind(options: ServeOptions) -> Result<Server, ServeError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(Server::bind(options))
}

fn bind_error(options: ServeOptions) -> ServeError {
    bind(options).err().expect("refused")
}

#[test]
fn where_it_listens() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("an address").port();
    let error = bind_error(ServeOptions { port, ..options() });
    assert!(matches!(error, ServeError::Taken { .. }));
    assert!(error.to_string().contains(&format!("127.0.0.1:{port} is taken")) && error.to_string().contains("--port"));

    let error = bind_error(ServeOptions { host: "0.0.0.0".into(), ..options() });
    assert!(matches!(error, ServeError::NeedsKey { .. }) && error.to_string().contains("--api-key"));
    assert!(matches!(bind_error(ServeOptions { host: "::".into(), ..options() }), ServeError::NeedsKey { .. }));
    for keys in [vec![String::new()], vec!["good".into(), " ".into()]] {
        let empty = bind_error(ServeOptions { host: "0.0.0.0".into(), api_keys: keys.clone(), ..options() });
        assert!(matches!(empty, ServeError::EmptyKey), "{keys:?}: {empty}");
        assert!(matches!(bind_error(ServeOptions { api_keys: keys, ..options() }), ServeError::EmptyKey));
    }
    assert!(matches!(bind_error(ServeOptions { host: "not a host".into(), ..options() }), ServeError::Host { .. }));
    assert!(bind(ServeOptions { host: "0.0.0.0".into(), api_keys: vec!["k".into()], ..options() }).is_ok());
    assert!(bind(ServeOptions { host: "0.0.0.0".into(), allow_no_auth: true, ..options() }).is_ok());
    let server = bind(ServeOptions { host: "localhost".into(), ..options() }).expect("it listens");
    assert!(server.address().ip().is_loopback() && server.address().port() != 0);
}

fn long() -> String {
    post_request(TEXT, &json!({ "prompt": "a", "max_tokens": 100, "temperature": 0, "stream": true }).to_string())
}

#[test]
fn streams_end_before_it_stops() {
    let mut server = TestServer::with(options(), Toy { step: Duration::from_millis(5), ..Toy::default() });
    let mut idle = server.connect();
    idle.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(idle.reply().status, 200);
    let mut client = server.connect();
    client.write(long().as_bytes());
    server.wait_until("running", |s| s.running == 1);
    server.stop();
    let reply = client.reply();
    let events = reply.events();
    assert_eq!(events.last(), Some(&json!("[DONE]")));
    let text: String = events.iter().filter_map(|e| e["choices"][0]["text"].as_str()).collect();
    assert_eq!(text.len(), 100);
    assert!(idle.is_closed(), "those that idle are closed at once");
    let address = server.address;
    server.join().expect("it ends well");
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn streams_that_take_too_long_get_an_error_event() {
    let toy = Toy { step: Duration::from_millis(50), ..Toy::default() };
    let mut server = TestServer::with(ServeOptions { drain: Duration::from_millis(300), ..options() }, toy);
    let (mut stream, mut whole) = (server.connect(), server.connect());
    stream.write(long().as_bytes());
    whole.write(long().replace("\"stream\":true", "\"stream\":null").as_bytes());
    server.wait_until("running", |s| s.running == 2);
    let begin = Instant::now();
    server.stop();
    let events = stream.reply().events();
    let error: &Value = &events.last().expect("events")["error"];
    assert_eq!((&error["code"], &error["type"]), (&json!("shutting_down"), &json!("unavailable_error")));
    assert_eq!(whole.reply().error(503)["code"], "shutting_down");
    server.join().expect("it ends well");
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
}

#[test]
fn a_second_signal_cuts_it_short() {
    let toy = Toy { step: Duration::from_millis(50), ..Toy::default() };
    let mut server = TestServer::with(ServeOptions { drain: Duration::from_secs(60), ..options() }, toy);
    let mut stream = server.connect();
    stream.write(long().as_bytes());
    server.wait_until("running", |s| s.running == 1);
    server.stop();
    std::thread::sleep(Duration::from_millis(200));
    let begin = Instant::now();
    server.hurry();
    assert_eq!(stream.reply().events().last().expect("events")["error"]["code"], "shutting_down");
    server.join().expect("it ends well");
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
}

#[test]
fn a_model_that_works_no_more_is_told_by_health() {
    let server = TestServer::start();
    server.post(TEXT, &json!({ "prompt": format!("a{DIES}") })).error(500);
    for path in ["/health", "/v1/models"] {
        assert_eq!(server.get(path).error(503)["code"], "engine_stopped");
    }
    assert_eq!(server.post(TEXT, &json!({ "prompt": "a" })).error(503)["code"], "engine_stopped");
}
