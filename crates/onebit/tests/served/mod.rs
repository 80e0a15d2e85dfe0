//! `1bit serve` in a process of its own, and a tiny model for it.

#![allow(dead_code)] // not all tests need all of it

use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

/// Longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A tiny model of random weights that the models crate carries, with bytes for tokens.
pub(crate) fn model(family: &str) -> tempfile::TempDir {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/tests/data").join(family);
    let folder = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(from.join(file), folder.path().join(file)).unwrap();
    }
    // Byte-level BPE writes a byte as a character that can be printed: itself, or one of those from 256 on.
    let mut others = 256u32..;
    let vocabulary: serde_json::Map<String, Value> = (0..256u32)
        .map(|byte| {
            let plain = matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
            let code = if plain { byte } else { others.next().unwrap() };
            (char::from_u32(code).unwrap().to_string(), byte.into())
        })
        .collect();
    let bytes = json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false });
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": bytes, "post_processor": null, "decoder": bytes,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,
            "fuse_unk": false, "byte_fallback": false, "vocab": vocabulary, "merges": [],
        },
    });
    std::fs::write(folder.path().join("tokenizer.json"), tokenizer.to_string()).unwrap();
    folder
}

pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_1bit"));
    command.env("ONEBIT_OFFLINE", "1").env_remove("NOTIFY_SOCKET").env_remove("ONEBIT_LOG").stdin(Stdio::null());
    command
}

/// A server that runs until it is dropped.
pub(crate) struct Served {
    pub(crate) child: Child,
    log: Arc<Mutex<String>>,
}

impl Served {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (stderr, copy) = (BufReader::new(child.stderr.take().unwrap()), log.clone());
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                copy.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        Self { child, log }
    }

    /// Serves a model at any free port, with more flags.
    pub(crate) fn with(model: &Path, flags: &[&str]) -> Self {
        let mut command = program();
        command.args(["serve", "--port", "0", "-m"]).arg(model).args(flags);
        Self::start(command)
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits until the log holds these words.
    pub(crate) fn wait_for(&self, words: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        while !self.log().contains(words) {
            assert!(Instant::now() < deadline, "never said {words:?}: {}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        self.log()
    }

    pub(crate) fn address(&self) -> String {
        let log = self.wait_for("/v1");
        let at = log.find("http://").unwrap() + 7;
        log[at..].split("/v1").next().unwrap().to_string()
    }

    /// Asks, and gives the status and what is answered. It waits while the model loads.
    pub(crate) fn ask(&self, key: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = ask(&self.address(), key, method, path, body);
            if answer.0 != 503 || Instant::now() > deadline {
                return answer;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        assert!(Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap().success());
    }

    pub(crate) fn end(mut self) -> ExitStatus {
        self.signal("TERM");
        self.child.wait().unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn ask(address: &str, key: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n");
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let status = text.split(' ').nth(1).unwrap_or_else(|| panic!("no answer: {text:?}")).parse().unwrap();
    (status, serde_json::from_str(text.split("\r\n\r\n").nth(1).unwrap_or_default()).unwrap_or_default())
}

pub(crate) fn completion(prompt: &str, n: usize) -> Value {
    json!({ "prompt": prompt, "max_tokens": n, "temperature": 0, "ignore_eos": true })
}
