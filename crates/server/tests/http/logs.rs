//! What the log tells, and what it does not.

use crate::client::TestServer;
use crate::toy;
use serde_json::json;
use std::io::Write;
use std::sync::{Arc, Mutex};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic while writing").extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn logs_hold_no_text() {
    let log = Log::default();
    let writer = log.clone();
    // For the whole process, as the engine and the server have threads of their own.
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter("onebit_server=trace,onebit_engine=trace,onebit_text=trace")
        .with_ansi(false)
        .with_writer(move || writer.clone());
    subscriber.init();

    let server = TestServer::start();
    let secret = "xyzzy";
    let chat = |content: String, more: serde_json::Value| {
        let mut body = json!({ "messages": [{ "role": "user", "content": content }], "max_tokens": 4, "temperature": 0, "user": secret });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        server.post("/v1/chat/completions", &body).status
    };
    assert_eq!(chat(secret.into(), json!({})), 200);
    assert_eq!(chat(secret.into(), json!({ "stream": true, "stop": secret })), 200);
    assert_eq!(chat(secret.repeat(200), json!({})), 413);
    assert_eq!(chat(secret.into(), json!({ "n": secret })), 400);
    assert_eq!(chat(secret.into(), json!({ secret: secret })), 400);
    let failing = json!({ "prompt": format!("{secret}{}", toy::NAN) });
    let reply = server.post("/v1/completions", &failing);
    let message = reply.error(500)["message"].as_str().expect("text").to_string();
    let id = message.split_whitespace().last().expect("an id").to_string();

    let text = String::from_utf8(log.0.lock().expect("no panic while writing").clone()).expect("UTF-8");
    assert!(!text.contains(secret), "{text}");
    assert!(text.contains("path=\"/v1/chat/completions\" status=413"), "{text}");
    assert!(text.contains(&id) && text.contains("NaN"), "{id}: {text}");
}
