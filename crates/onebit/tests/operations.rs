//! `1bit serve` as those who run it meet it: service managers, settings, signals, disks.

#![allow(clippy::unwrap_used)] // helpers outside of #[test] functions

mod served;

use serde_json::{Value, json};
use served::{PATIENCE, Served, ask, completion, model, program};
use std::{
    net::TcpListener,
    os::{fd::OwnedFd, linux::net::SocketAddrExt, unix::net::UnixDatagram},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// The messages that a service manager gets.
fn heard(socket: &UnixDatagram) -> String {
    let mut message = [0; 4096];
    let n = socket.recv(&mut message).unwrap();
    String::from_utf8(message[..n].to_vec()).unwrap()
}

#[test]
fn a_service_manager_is_told_how_it_is() {
    let model = model("llama");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let abstract_name = format!("1bit-test-{}", std::process::id());
    let sockets = [
        (path.to_str().unwrap().to_string(), UnixDatagram::bind(&path).unwrap()),
        (
            format!("@{abstract_name}"),
            UnixDatagram::bind_addr(&std::os::unix::net::SocketAddr::from_abstract_name(abstract_name.as_bytes()).unwrap()).unwrap(),
        ),
    ];
    for (name, socket) in sockets {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let keys = folder.path().join("keys");
        std::fs::write(&keys, "one").unwrap();
        let mut command = program();
        command.args(["serve", "--port", "0", "-m"]).arg(model.path()).arg("--api-key-file").arg(&keys);
        let served = Served::start({
            command.env("NOTIFY_SOCKET", &name).env("WATCHDOG_USEC", "200000");
            command
        });
        let mut message = heard(&socket);
        // Before it is ready it asks for patience.
        assert!(message.starts_with("STATUS=Loading: ") && message.contains("\nEXTEND_TIMEOUT_USEC=60000000"), "{message}");
        while message.starts_with("STATUS=Loading") {
            message = heard(&socket);
        }
        assert!(message.starts_with("READY=1\n"), "{message}");
        assert_eq!(served.ask("one", "GET", "/health", &Value::Null).0, 200, "what is ready answers");
        let begin = Instant::now();
        for _ in 0..4 {
            assert_eq!(heard(&socket), "WATCHDOG=1");
        }
        assert!(begin.elapsed() < Duration::from_secs(10), "half of 0.2 s each");
        served.signal("HUP");
        let mut rest = vec![];
        while rest.last().is_none_or(|last: &String| !last.starts_with("READY=1")) {
            rest.push(heard(&socket));
        }
        assert!(rest.iter().any(|m| m == "RELOADING=1"), "{rest:?}");
        assert!(served.end().success());
        let mut last = heard(&socket);
        while last == "WATCHDOG=1" {
            last = heard(&socket);
        }
        assert!(last.starts_with("STOPPING=1\n"), "{last}");
    }
}

#[test]
fn it_serves_where_somebody_else_listens() {
    let model = model("llama");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let passed = || {
        // The socket becomes descriptor 3, and the shell's number is the server's.
        let script = "exec 3<&0 0</dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", script, env!("CARGO_BIN_EXE_1bit"), "serve", "-m"]).arg(model.path()).env("ONEBIT_OFFLINE", "1");
        command.stdin(Stdio::from(OwnedFd::from(listener.try_clone().unwrap())));
        Served::start(command)
    };
    // A client that comes before the server waits for it.
    let early = std::thread::spawn({
        let address = address.clone();
        move || ask(&address, "", "GET", "/health", &Value::Null).0
    });
    let first = passed();
    assert!([200, 503].contains(&early.join().unwrap()));
    assert_eq!(first.address(), address);
    assert_eq!(first.ask("", "POST", "/v1/completions", &completion("ab", 2)).0, 200);
    assert!(first.end().success());
    // While none runs, nobody is turned away; the next takes over.
    let early = std::thread::spawn({
        let address = address.clone();
        move || ask(&address, "", "GET", "/health", &Value::Null).0
    });
    let second = passed();
    assert!([200, 503].contains(&early.join().unwrap()));
    assert!(second.end().success());
    // One that others reach, without a key.
    let open = TcpListener::bind("0.0.0.0:0").unwrap();
    let mut command = Command::new("sh");
    let script = "exec 3<&0 0</dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" \"$@\"";
    command.args(["-c", script, env!("CARGO_BIN_EXE_1bit"), "serve", "-m"]).arg(model.path()).stdin(Stdio::from(OwnedFd::from(open)));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--api-key"));
}

#[test]
fn settings_come_from_a_file_and_are_checked() {
    let model = model("llama");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("1bit.toml");
    let check = |text: &str, more: &[&str]| {
        std::fs::write(&file, text).unwrap();
        let mut command = program();
        let output = command.args(["serve", "--check-config", "--config"]).arg(&file).args(more).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap())
    };
    let good = format!("model = {:?}\nport = 4321\nmetrics = true\n", model.path());
    let (code, said) = check(&good, &[]);
    assert!(code == Some(0) && said.contains("http://127.0.0.1:4321/v1"), "{code:?} {said}");
    let (code, said) = check(&good, &["--port", "4322"]);
    assert!(code == Some(0) && said.contains("http://127.0.0.1:4322/v1"), "what was typed goes first: {said}");
    for (text, words) in [
        (format!("{good}paralel = 2"), vec!["1bit.toml, line 4", "`paralel`", "`parallel`"]),
        (format!("{good}parallel = 0"), vec!["1bit.toml", "--parallel", "0 is not in 1..=256"]),
        (format!("{good}host = \"0.0.0.0\""), vec!["--api-key"]),
        (format!("{good}api-key = [\"\"]"), vec!["key is empty"]),
        (format!("{good}api-key-file = \"/no/such/keys\""), vec!["/no/such/keys"]),
        (format!("{good}slot-save-path = \"/no/such/folder\""), vec!["--slot-save-path /no/such/folder"]),
        (format!("{good}chat-template = \"/no/such.jinja\""), vec!["/no/such.jinja"]),
        ("model = \"/no/such/model.gguf\"".into(), vec!["/no/such/model.gguf"]),
        ("port = 1".into(), vec!["--model"]),
    ] {
        let (code, said) = check(&text, &[]);
        assert!(matches!(code, Some(1 | 2)), "{text}: {code:?} {said}");
        for word in words {
            assert!(said.contains(word), "{text} says nothing of {word}: {said}");
        }
    }
    // The one that is shipped; its model is fetched when it starts.
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd/1bit.toml");
    let (code, said) = check(&std::fs::read_to_string(shipped).unwrap(), &[]);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn keys_and_the_level_of_the_log_change_while_it_serves() {
    let model = model("llama");
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("keys"), "# ours\none\n").unwrap();
    let settings = |level: &str| {
        let text = format!(
            "model = {:?}\nport = 0\napi-key-file = {:?}\nlog-format = \"json\"\nlog-level = {level:?}\n",
            model.path(),
            at("keys")
        );
        std::fs::write(at("1bit.toml"), text).unwrap();
    };
    settings("info");
    let mut command = program();
    command.args(["serve", "--config"]).arg(at("1bit.toml"));
    let served = Served::start(command);
    let status = |key: &str| served.ask(key, "GET", "/v1/models", &Value::Null).0;
    assert_eq!((status("one"), status("two")), (200, 401));
    assert!(!served.log().contains("answered"), "requests are told of at a lower level");
    std::fs::write(at("keys"), "two\n").unwrap();
    settings("debug");
    served.signal("HUP");
    served.wait_for("as the files say now");
    assert_eq!((status("one"), status("two")), (401, 200));
    served.wait_for("answered");
    // What is wrong changes nothing.
    for (broken, words) in [("", "holds no key"), ("\u{0}", "")] {
        std::fs::write(at("keys"), broken).unwrap();
        if words.is_empty() {
            std::fs::write(at("1bit.toml"), "modle = \"x\"").unwrap();
        }
        served.signal("HUP");
        served.wait_for(if words.is_empty() { "`modle` is no setting" } else { words });
        assert_eq!((status("one"), status("two")), (401, 200));
    }
    let log = served.log();
    assert!(served.end().success());
    // Every line is an object that says when, how important, and what.
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let time = line["time"].as_str().unwrap();
        assert!(time.len() == 24 && time.starts_with("20") && time.ends_with('Z'), "{line}");
        assert!(line["level"].is_string() && line["message"].is_string() && line["target"].is_string(), "{line}");
    }
}

#[test]
fn a_full_disk_leaves_no_half_file() {
    let model = model("llama");
    let folder = tempfile::tempdir().unwrap();
    let prompt = "the quick brown fox ".repeat(8);
    // A limit on a file's size does what a full disk does, in the middle of writing. Two pages need more than 8 KiB.
    for (limit, status) in [("16", 507), ("unlimited", 200)] {
        let mut command = Command::new("sh");
        let script = format!("trap '' XFSZ; ulimit -f {limit}; exec \"$0\" \"$@\"");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_1bit"), "serve", "--port", "0", "--slot-save-path"]).arg(folder.path());
        command.arg("-m").arg(model.path()).env("ONEBIT_OFFLINE", "1").stdin(Stdio::null());
        let served = Served::start(command);
        assert_eq!(served.ask("", "POST", "/v1/completions", &completion(&prompt, 3)).0, 200);
        let (got, answer) = served.ask("", "POST", "/slots/0?action=save", &json!({ "filename": "fox" }));
        assert_eq!(got, status, "{answer}");
        let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|f| f.unwrap().file_name()).collect();
        assert_eq!(files.len(), usize::from(status == 200), "{files:?}");
        if status == 507 {
            assert_eq!(answer["error"]["code"], "storage");
            assert_eq!(served.ask("", "GET", "/health", &Value::Null).0, 200, "others are served on");
        }
    }
}

/// The same answers with a beginning that was computed before, in this process or in another, as without: for a model of attention
/// only, and for one that carries fixed states.
#[test]
fn saved_beginnings_change_no_answer() {
    for family in ["llama", "qwen3_5_text"] {
        let (model, folder) = (model(family), tempfile::tempdir().unwrap());
        let flags = ["--slot-save-path", folder.path().to_str().unwrap(), "--threads", "1"];
        let first: String = ('!'..='~').cycle().take(150).collect();
        let text = |answer: &Value| answer["choices"][0]["text"].clone();
        let cached = |answer: &Value| answer["usage"]["prompt_tokens_details"]["cached_tokens"].clone();
        let ask = |served: &Served, prompt: &str| {
            let (status, answer) = served.ask("", "POST", "/v1/completions", &completion(prompt, 60));
            assert_eq!(status, 200, "{answer}");
            answer
        };
        let one = Served::with(model.path(), &flags);
        let answer = ask(&one, &first);
        // 150 of the prompt and 59 of the answer are computed, three whole pages of 64. Tokens are bytes: texts may hold others than
        // were chosen where these are no UTF-8, so what goes on is the prompt.
        let longer = format!("{first}{}", &first[..20]);
        let (status, saved) = one.ask("", "POST", "/slots/0?action=save", &json!({ "filename": "chat" }));
        assert_eq!((status, &saved["n_saved"]), (200, &json!(192)), "{family}: {saved}");
        let (known, again) = (ask(&one, &longer), ask(&one, &first));
        assert_eq!((cached(&known), cached(&again)), (json!(128), json!(128)), "{family}");
        assert_eq!(text(&again), text(&answer), "{family}");
        drop(one);
        // Another process, without and with what was saved.
        let other = Served::with(model.path(), &flags);
        let fresh = ask(&other, &longer);
        assert_eq!((cached(&fresh), text(&fresh)), (json!(0), text(&known)), "{family}");
        drop(other);
        let third = Served::with(model.path(), &flags);
        let (status, restored) = third.ask("", "POST", "/slots/1?action=restore", &json!({ "filename": "chat" }));
        assert_eq!((status, &restored["n_restored"]), (200, &json!(192)), "{family}: {restored}");
        let answer = ask(&third, &longer);
        // Fixed states were saved where the answer was, which this prompt does not come to.
        let known_there = if family == "llama" { 128 } else { 0 };
        assert_eq!((cached(&answer), text(&answer)), (json!(known_there), text(&fresh)), "{family}");
        drop(third);
        // Of another model, or the same with another context.
        let fourth = Served::with(model.path(), &[&flags[..], &["-c", "300"]].concat());
        let (status, refused) = fourth.ask("", "POST", "/slots/1?action=restore", &json!({ "filename": "chat" }));
        assert!(status == 400 && refused["error"]["message"].as_str().is_some_and(|m| m.contains("another model")), "{refused}");
    }
}

#[test]
fn the_unit_starts_what_there_is() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
    let unit = std::fs::read_to_string(folder.join("1bit.service")).unwrap();
    let value = |name: &str| unit.lines().find_map(|line| line.strip_prefix(&format!("{name}="))).unwrap_or_else(|| panic!("no {name}"));
    let words: Vec<&str> = value("ExecStart").split(' ').collect();
    assert_eq!(words[..3], ["/usr/bin/1bit", "serve", "--config"]);
    let settings = PathBuf::from(words[3]);
    assert_eq!(settings.file_name(), folder.join("1bit.toml").file_name());
    assert_eq!(value("Type"), "notify");
    // Answers that are being made have the time that the settings give them.
    let drain = std::fs::read_to_string(folder.join("1bit.toml")).unwrap();
    let drain: u64 = drain.lines().find_map(|line| line.strip_prefix("drain = ")).unwrap().parse().unwrap();
    assert!(value("TimeoutStopSec").parse::<u64>().unwrap() > drain + 5);
    // Where systemd is, it says what it thinks of the files. It cannot find the program, which is not installed here.
    let Ok(output) =
        Command::new("systemd-analyze").args(["verify", "--man=no"]).args(["1bit.service", "1bit.socket"]).current_dir(&folder).output()
    else {
        eprintln!("SKIPPED: no systemd-analyze here");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(said.lines().all(|line| line.contains("/usr/bin/1bit is not executable")), "{said}");
}

/// Times are taken from a clock that nobody sets. The other one only makes ids and dates.
#[test]
fn no_wait_depends_on_the_time_of_day() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = vec![];
    let mut folders = ["engine", "server", "onebit"].map(|name| crates.join(name).join("src")).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if std::fs::read_to_string(&path).unwrap().contains("SystemTime") {
                found.push(path.strip_prefix(&crates).unwrap().to_str().unwrap().to_string());
            }
        }
    }
    found.sort();
    assert_eq!(found, ["onebit/src/log.rs", "server/src/error.rs"]);
}
