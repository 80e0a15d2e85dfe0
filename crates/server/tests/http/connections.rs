//! Clients that are slow, gone, or odd.

use crate::client::{PATIENCE, TestServer, options, post_request};
use crate::toy::Toy;
use onebit_server::{Limits, ServeOptions};
use serde_json::{Value, json};
use std::net::Shutdown;
use std::time::{Duration, Instant};

const TEXT: &str = "/v1/completions";

fn slow_toy() -> Toy {
    Toy { step: Duration::from_millis(10), context: 1024, ..Toy::default() }
}

fn long(stream: bool) -> String {
    post_request(TEXT, &json!({ "prompt": "a", "max_tokens": 1000, "temperature": 0, "stream": stream }).to_string())
}

#[test]
fn a_client_that_leaves_frees_its_place() {
    let server = TestServer::with(options(), slow_toy());
    for stream in [true, false] {
        let mut client = server.connect();
        client.write(long(stream).as_bytes());
        if stream {
            assert_eq!(client.head().status, 200);
            client.chunk().expect("an event");
        }
        server.wait_until("running", |s| s.running == 1);
        let cancelled = server.stats().cancelled;
        drop(client);
        let begin = Instant::now();
        server.wait_until("cancelled", |s| s.running == 0 && s.cancelled == cancelled + 1 && s.pages_used == 0);
        // The answer would have taken ten seconds.
        assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    }
}

#[test]
fn one_that_waits_in_the_queue_leaves_it() {
    let server = TestServer::with(options(), Toy { max_sequences: 1, ..slow_toy() });
    let mut first = server.connect();
    first.write(long(true).as_bytes());
    server.wait_until("running", |s| s.running == 1);
    let mut second = server.connect();
    second.write(long(false).as_bytes());
    server.wait_until("waiting", |s| s.waiting == 1);
    drop(second);
    server.wait_until("alone", |s| s.waiting == 0 && s.running == 1);
}

#[test]
fn a_half_closed_connection_counts_as_gone() {
    let server = TestServer::with(options(), slow_toy());
    let mut client = server.connect();
    client.write(long(false).as_bytes());
    server.wait_until("running", |s| s.running == 1);
    client.socket().shutdown(Shutdown::Write).expect("a connected socket");
    server.wait_until("cancelled", |s| s.running == 0 && s.cancelled == 1);
}

#[test]
fn one_that_leaves_within_its_request_does_no_harm() {
    let server = TestServer::start();
    let whole = long(false);
    for end in [0, 3, 20, whole.find("\r\n\r\n").expect("a head") + 2, whole.len() - 5] {
        server.connect().write(&whole.as_bytes()[..end]);
    }
    assert_eq!(server.get("/health").status, 200);
    assert_eq!(server.stats().requests, 0);
}

#[test]
fn slow_heads_and_bodies_are_cut() {
    let limits = Limits { head_time: Duration::from_millis(300), body_time: Duration::from_millis(300), ..Limits::default() };
    let server = TestServer::with(ServeOptions { limits, ..options() }, Toy::default());
    let begin = Instant::now();
    let (mut silent, mut slow) = (server.connect(), server.connect());
    slow.write(b"GET /health HTTP/1.1\r\nHost: loc");
    assert!(silent.is_closed() && slow.is_closed());
    let mut body = server.connect();
    body.write(format!("POST {TEXT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{{").as_bytes());
    assert_eq!(body.reply().error(408)["code"], "request_timeout");
    assert!(begin.elapsed() < PATIENCE / 2);
}

#[test]
fn a_reader_that_does_not_read_is_cut_and_holds_up_nobody() {
    let limits = Limits { write_time: Duration::from_millis(500), ..Limits::default() };
    let toy = Toy { context: 2048, ..Toy::default() };
    let server = TestServer::with(ServeOptions { limits, ..options() }, toy);
    // Events with 20 alternatives for each of 2000 tokens of several choices are more than the sockets' buffers hold.
    let body = json!({ "prompt": "a", "max_tokens": 2000, "temperature": 0, "n": 16, "logprobs": 20, "stream": true }).to_string();
    let mut stuck = server.connect();
    stuck.write(post_request(TEXT, &body).as_bytes());
    server.wait_until("running", |s| s.running > 0);
    let reply = server.post(TEXT, &json!({ "prompt": "a", "max_tokens": 3, "temperature": 0 })).ok();
    assert_eq!(reply["choices"][0]["text"], "bcd");
    server.wait_until("empty", |s| s.running == 0 && s.waiting == 0);
    // It never read; what is left is not a whole answer.
    let mut rest = vec![];
    let ended = std::io::Read::read_to_end(&mut stuck.socket().try_clone().expect("a socket"), &mut rest);
    assert!(ended.is_err() || !rest.ends_with(b"0\r\n\r\n"), "all {} bytes came", rest.len());
}

#[test]
fn several_requests_on_one_connection() {
    let server = TestServer::start();
    let mut client = server.connect();
    // All at once: the answers come in order.
    let one = |first: &str| post_request(TEXT, &json!({ "prompt": first, "max_tokens": 2, "temperature": 0 }).to_string());
    client.write([one("a"), one("k"), "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n".into(), one("x")].concat().as_bytes());
    let texts: Vec<Value> = (0..4).map(|_| client.reply().ok()).map(|r| r["choices"][0]["text"].clone()).collect();
    assert_eq!(texts, [json!("bc"), json!("lm"), Value::Null, json!("yz")]);
    // After errors it goes on as well.
    client.write(post_request(TEXT, "{").as_bytes());
    assert_eq!(client.reply().status, 400);
    client.write(one("a").as_bytes());
    assert_eq!(client.reply().ok()["choices"][0]["text"], "bc");
}

#[test]
fn http_1_0() {
    let server = TestServer::start();
    let reply = server.send("GET /health HTTP/1.0\r\n\r\n");
    assert_eq!((reply.status, reply.version.as_str()), (200, "HTTP/1.0"));
    // It has no chunks: a stream ends with the connection.
    let body = json!({ "prompt": "a", "max_tokens": 3, "temperature": 0, "stream": true }).to_string();
    let reply = server.send(&post_request(TEXT, &body).replace("HTTP/1.1", "HTTP/1.0"));
    assert_eq!(reply.header("transfer-encoding"), None);
    assert_eq!(reply.events().last(), Some(&json!("[DONE]")));
}

#[test]
fn head_options_and_others() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.write(b"HEAD /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let head = client.head();
    assert_eq!((head.status, head.header("content-type")), (200, Some("application/json")));
    // No body came with it: the next answer follows at once.
    client.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.reply().ok(), json!({ "status": "ok" }));
    for method in ["OPTIONS", "DELETE", "PUT", "BREW"] {
        let reply = server.send(&format!("{method} /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
        assert_eq!(reply.error(405)["code"], "method_not_allowed", "{method}");
    }
    for garbage in ["\u{16}\u{3}\u{1} TLS?\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n"] {
        assert_eq!(server.send(garbage).status, 400, "{garbage:?}");
    }
    let huge = format!("GET /health HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(40_000));
    assert_eq!(server.send(&huge).status, 431);
}

#[test]
fn connections_beyond_the_limit_wait_for_a_place() {
    let limits = Limits { connections: 3, ..Limits::default() };
    let server = TestServer::with(ServeOptions { limits, ..options() }, Toy::default());
    let mut idle: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for client in &mut idle {
        client.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(client.reply().status, 200);
    }
    let mut fourth = server.connect();
    fourth.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    fourth.socket().set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    assert!(fourth.socket().peek(&mut [0]).is_err(), "no answer yet");
    idle.pop();
    fourth.socket().set_read_timeout(Some(PATIENCE)).expect("a timeout");
    assert_eq!(fourth.reply().status, 200);
}

#[test]
fn hundreds_of_connections() {
    let server = TestServer::start();
    let mut clients: Vec<_> = (0..400).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    for client in &mut clients {
        assert_eq!(client.reply().status, 200);
    }
}
