//! A server in this process, and a client that can also do what no good client does.

use super::toy::Toy;
use onebit_engine::{Engine, Stats};
use onebit_server::{LoadError, LoadProgress, Loaded, Offer, ServeError, ServeOptions, Server, ShelfLimits};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::pin::Pin;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

type Signal = Pin<Box<dyn Future<Output = ()> + Send>>;
type Serving = Pin<Box<dyn Future<Output = Result<(), ServeError>>>>;

/// Longer than anything here takes, so that a test that hangs fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A server that runs until it is dropped.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    engine: Option<Engine>,
    stop: Option<oneshot::Sender<()>>,
    hurry: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
}

/// Options that suit tests: any free port, and a short time to drain.
pub(crate) fn options() -> ServeOptions {
    ServeOptions {
        port: 0,
        model: "toy".into(),
        aliases: vec!["alias/of-toy".into()],
        drain: Duration::from_secs(5),
        ..ServeOptions::default()
    }
}

impl TestServer {
    pub(crate) fn start() -> Self {
        Self::with(options(), Toy::default())
    }

    /// Waits until the model is loaded.
    pub(crate) fn with(options: ServeOptions, toy: Toy) -> Self {
        let (sender, receiver) = mpsc::channel();
        let mut server = Self::loading(options, move |_| {
            let loaded = toy.load();
            sender.send(loaded.engine.clone()).expect("the test waits");
            Ok(loaded)
        });
        server.engine = Some(receiver.recv_timeout(PATIENCE).expect("the toy loads"));
        let deadline = Instant::now() + PATIENCE;
        while server.get("/health").status != 200 {
            assert!(Instant::now() < deadline, "the server is not ready in time");
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }

    pub(crate) fn loading(options: ServeOptions, load: impl FnOnce(LoadProgress) -> Result<Loaded, LoadError> + Send + 'static) -> Self {
        Self::begin(options, move |server, stop, hurry| Box::pin(server.run(load, stop, hurry)))
    }

    /// One with several models.
    pub(crate) fn several(options: ServeOptions, offers: Vec<Offer>, limits: ShelfLimits) -> Self {
        Self::begin(options, move |server, stop, hurry| Box::pin(server.run_several(offers, limits, stop, hurry)))
    }

    fn begin(options: ServeOptions, run: impl FnOnce(Server, Signal, Signal) -> Serving + Send + 'static) -> Self {
        let (address_sender, address) = mpsc::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let (hurry, hurried) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let server = Server::bind(options).await?;
                address_sender.send(server.address()).expect("the test waits");
                let stop = Box::pin(async {
                    let _ = stopped.await;
                });
                let hurry = Box::pin(async {
                    if hurried.await.is_err() {
                        std::future::pending().await
                    }
                });
                run(server, stop, hurry).await
            })
        });
        let address = address.recv_timeout(PATIENCE).expect("the server listens");
        Self { address, engine: None, stop: Some(stop), hurry: Some(hurry), thread: Some(thread) }
    }

    pub(crate) fn stats(&self) -> Stats {
        self.engine.as_ref().expect("a loaded toy").stats()
    }

    /// Waits until the engine's state is as described.
    pub(crate) fn wait_until(&self, what: &str, is_so: impl Fn(&Stats) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(&self.stats()) {
            assert!(Instant::now() < deadline, "never {what}: {:?}", self.stats());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// As a second signal would.
    pub(crate) fn hurry(&mut self) {
        if let Some(hurry) = self.hurry.take() {
            let _ = hurry.send(());
        }
    }

    /// As a signal would.
    pub(crate) fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }

    /// How serving ended.
    pub(crate) fn join(mut self) -> Result<(), ServeError> {
        self.engine = None;
        self.thread.take().expect("a thread").join().expect("the server does not panic")
    }

    pub(crate) fn connect(&self) -> Client {
        let deadline = Instant::now() + PATIENCE;
        let stream = loop {
            match TcpStream::connect(self.address) {
                Ok(stream) => break stream,
                // So many connections were made that no port is free for a moment.
                Err(e) if e.kind() == std::io::ErrorKind::AddrNotAvailable && Instant::now() < deadline => {}
                Err(e) => panic!("the server does not accept: {e}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Client { reader: BufReader::new(stream) }
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        self.post_text(path, &body.to_string())
    }

    pub(crate) fn post_text(&self, path: &str, body: &str) -> Reply {
        self.send(&post_request(path, body))
    }

    /// Sends this as it is, and reads one answer.
    pub(crate) fn send(&self, request: &str) -> Reply {
        let mut client = self.connect();
        client.write(request.as_bytes());
        client.reply()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop();
        self.engine = None;
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.expect("the server does not panic").expect("the server ends well");
            }
        }
    }
}

pub(crate) fn post_request(path: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// One connection.
pub(crate) struct Client {
    reader: BufReader<TcpStream>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) version: String,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).expect("the server reads");
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        self.reader.get_ref()
    }

    /// Status line and headers.
    pub(crate) fn head(&mut self) -> Reply {
        let line = self.line();
        let mut words = line.split(' ');
        let version = words.next().unwrap_or_default().to_string();
        let status = words.next().and_then(|s| s.parse().ok()).unwrap_or_else(|| panic!("no status line: {line:?}"));
        let mut headers = vec![];
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_string()));
        }
        Reply { status, version, headers, body: vec![] }
    }

    /// One answer, whole.
    pub(crate) fn reply(&mut self) -> Reply {
        let mut reply = self.head();
        if reply.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk() {
                reply.body.extend(chunk);
            }
        } else if let Some(length) = reply.header("content-length") {
            reply.body.resize(length.parse().expect("a number"), 0);
            self.reader.read_exact(&mut reply.body).expect("as much as was said");
        } else if reply.status != 204 {
            self.reader.read_to_end(&mut reply.body).expect("up to the end");
        }
        reply
    }

    /// The next chunk of a chunked body.
    pub(crate) fn chunk(&mut self) -> Option<Vec<u8>> {
        let size = usize::from_str_radix(&self.line(), 16).expect("a chunk's size");
        let mut chunk = vec![0; size + 2];
        self.reader.read_exact(&mut chunk).expect("a whole chunk");
        chunk.truncate(size);
        (size > 0).then_some(chunk)
    }

    /// Whether the server closes the connection without another word.
    pub(crate) fn is_closed(&mut self) -> bool {
        matches!(self.reader.read(&mut [0]), Ok(0) | Err(_))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).expect("a line");
        line.trim_end().to_string()
    }
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("UTF-8")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    /// The answer, which must be a 200.
    pub(crate) fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        self.json()
    }

    /// The `error` object of an answer with this status.
    pub(crate) fn error(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/json"));
        let error = self.json()["error"].clone();
        for member in ["message", "type", "param", "code"] {
            assert!(error.get(member).is_some(), "`{member}` is missing: {error}");
        }
        error
    }

    /// The data of all events, `[DONE]` as a string.
    pub(crate) fn events(&self) -> Vec<Value> {
        assert_eq!(self.status, 200, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("text/event-stream"));
        let mut events = vec![];
        for event in self.text().split_terminator("\n\n") {
            let data = event.strip_prefix("data: ").unwrap_or_else(|| panic!("not an event: {event:?}"));
            events.push(serde_json::from_str(data).unwrap_or_else(|_| Value::String(data.to_string())));
        }
        events
    }
}
