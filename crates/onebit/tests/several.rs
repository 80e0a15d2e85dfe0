//! `1bit serve` with several models.

#![allow(clippy::unwrap_used)] // helpers outside of #[test] functions

mod served;

use serde_json::{Value, json};
use served::{PATIENCE, Served, completion, model, program};
use std::{
    path::Path,
    time::{Duration, Instant},
};

/// A folder with a model of each family, called `one` and `two`.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, family) in [("one", "llama"), ("two", "qwen3_5_text")] {
        let made = model(family);
        std::fs::rename(made.keep(), folder.path().join(name)).unwrap();
    }
    folder
}

fn of(model: &str, prompt: &str) -> Value {
    let mut body = completion(prompt, 12);
    body["model"] = model.into();
    body
}

/// The text that a server answers, and the name of the model that it says did.
fn answer(server: &Served, model: &str) -> (String, String) {
    let (status, body) = server.ask("", "POST", "/v1/completions", &of(model, "Once"));
    assert_eq!(status, 200, "{body}");
    (body["choices"][0]["text"].as_str().unwrap().to_string(), body["model"].as_str().unwrap().to_string())
}

fn states(server: &Served) -> Vec<(String, String)> {
    let (status, listed) = server.ask("", "GET", "/v1/models", &Value::Null);
    assert_eq!(status, 200, "{listed}");
    let text = |value: &Value| value.as_str().unwrap().to_string();
    listed["data"].as_array().unwrap().iter().map(|model| (text(&model["id"]), text(&model["status"]["value"]))).collect()
}

/// Each answers as it does alone, by all of its names, and one at a time is loaded where that is asked for.
#[test]
fn a_folder_of_models_is_served() {
    let folder = folder();
    let alone = |name: &str| answer(&Served::with(&folder.path().join(name), &[]), name).0;
    let (one, two) = (alone("one"), alone("two"));
    assert_ne!(one, two);
    let server = Served::with(folder.path(), &["--alias", "small=one", "--max-loaded", "1"]);
    assert_eq!(states(&server), [("one".into(), "unloaded".into()), ("two".into(), "unloaded".into())]);
    for (asked, text, name, there) in
        [("two", &two, "two", [false, true]), ("small", &one, "one", [true, false]), ("two", &two, "two", [false, true])]
    {
        assert_eq!(answer(&server, asked), (text.clone(), name.to_string()));
        assert_eq!(states(&server).iter().map(|(_, state)| state == "loaded").collect::<Vec<_>>(), there, "{asked}");
    }
    let (status, unknown) = server.ask("", "POST", "/v1/completions", &of("three", "Once"));
    assert_eq!((status, &unknown["error"]["code"]), (404, &json!("model_not_found")));
    assert!(server.end().success());
}

/// What the models need decides how many stay: the same two, in memory for one and a half, and for two and a half.
#[test]
fn memory_decides_who_stays() {
    let folder = folder();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let both = |memory: &str| {
        let mut command = program();
        command.args(["serve", "--port", "0", "--ctx-size", "32", "-m"]).arg(&one).arg("-m").arg(&two).args(["--max-memory", memory]);
        Served::start(command)
    };
    let needed = |name: &str| {
        let server = both("1K");
        let (status, refused) = served::ask(&server.address(), "", "POST", "/v1/completions", &of(name, "Once"));
        assert_eq!((status, &refused["error"]["code"]), (503, &json!("model_failed")), "{refused}");
        let log = server.wait_for("could not be loaded");
        bytes_needed(&log)
    };
    let (first, second) = (needed("one"), needed("two"));
    let larger = first.max(second);
    assert!(larger > 10_000, "{first} {second}");
    for (memory, stay) in [(larger + larger / 2, 1), (first + second + larger / 2, 2)] {
        // In the first, one and a half of the larger must be less than both.
        assert!(stay == 2 || memory < first + second, "{first} {second}");
        let server = both(&memory.to_string());
        answer(&server, "one");
        answer(&server, "two");
        let deadline = Instant::now() + PATIENCE;
        let loaded = || states(&server).iter().filter(|(_, state)| state == "loaded").count();
        while loaded() != stay {
            assert!(Instant::now() < deadline, "{:?}", states(&server));
            std::thread::sleep(Duration::from_millis(20));
        }
        answer(&server, "one");
    }
}

/// The number in the log's words about memory: `needs N bytes` in whatever unit it is told.
fn bytes_needed(log: &str) -> usize {
    let line = log.lines().find(|line| line.contains("could not be loaded")).unwrap();
    let (_, rest) = line.split_once("needs ").unwrap_or_else(|| panic!("no need is told: {line}"));
    let mut words = rest.split(' ');
    let number: f64 = words.next().unwrap().parse().unwrap_or_else(|_| panic!("{line}"));
    let unit = words.next().unwrap().trim_matches(|c: char| !c.is_alphabetic());
    let factor = match unit {
        "bytes" => 1.0,
        "KiB" | "kB" => 1024.0,
        "MiB" | "MB" => 1048576.0,
        other => panic!("{other}: {line}"),
    };
    (number * factor) as usize
}

#[test]
fn what_makes_no_sense_with_several_is_said_before_anything_starts() {
    let folder = folder();
    let models = |more: &[&str]| {
        let mut command = program();
        command.args(["serve", "--port", "0", "-m"]).arg(folder.path()).args(more);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let template = folder.path().join("x.jinja");
    std::fs::write(&template, "{{ messages }}").unwrap();
    let path = |path: &Path| path.to_str().unwrap().to_string();
    let again = path(&folder.path().join("one"));
    for (flags, word) in [
        (vec!["--alias", "small"], "--alias small: with several models, ALIAS=NAME"),
        (vec!["--alias", "small=three"], "no model is called `three`; there are one, two"),
        (vec!["-m", &again], "are both called `one`"),
        (vec!["--chat-template", &path(&template)], "--chat-template is for one model"),
        (vec!["--max-loaded", "0"], "--max-loaded"),
        (vec!["--max-memory", "much"], "--max-memory"),
    ] {
        let (code, said) = models(&flags);
        assert_eq!(code, Some(2), "{flags:?}: {said}");
        assert!(said.contains(word), "{flags:?}: {said}");
    }
    let mut check = program();
    let checked = check.args(["serve", "--check-config", "-m"]).arg(folder.path()).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}
