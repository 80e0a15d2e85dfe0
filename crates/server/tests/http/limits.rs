//! What a request may cost: each limit at its bound, and what `docs/security.md` says of them.

use crate::client::{TestServer, options};
use crate::toy::Toy;
use onebit_engine::Pool;
use onebit_server::{Limits, ServeOptions};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";

fn server(toy: Toy) -> TestServer {
    let limits = Limits {
        messages: 3,
        tools: 2,
        prompts: 3,
        inputs: 3,
        choices: 4,
        stops: 2,
        stop_bytes: 5,
        logit_bias: 2,
        top_logprobs: 3,
        form_choices: 3,
        ..Limits::default()
    };
    TestServer::with(ServeOptions { limits, ..options() }, toy)
}

#[test]
fn counts_are_limited_by_name() {
    let user = json!({ "role": "user", "content": "a" });
    let one = |more: Value| {
        let mut body = json!({ "max_tokens": 1, "temperature": 0 });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        body
    };
    let chat = |n: usize| one(json!({ "messages": vec![&user; n] }));
    let tool = |i: usize| json!({ "type": "function", "function": { "name": format!("f{i}") } });
    let tools = |n: usize| one(json!({ "messages": [user], "tools": (0..n).map(tool).collect::<Vec<_>>() }));
    let text = |more: Value| {
        let mut body = one(more);
        body["prompt"] = json!("a");
        body
    };
    let bias = |n: usize| (0..n).map(|id| (id.to_string(), json!(1))).collect::<serde_json::Map<_, _>>();
    let plain = server(Toy::default());
    let with_tools = server(Toy { script: Some("x"), ..Toy::default() });
    let embedding = server(Toy { embeds: Some(Pool::Mean), ..Toy::default() });
    // What is allowed still, what is not any more, and the field that is named.
    let cases = [
        (&plain, CHAT, chat(3), chat(4), "messages"),
        (&with_tools, CHAT, tools(2), tools(3), "tools"),
        (&plain, TEXT, one(json!({ "prompt": ["a", "b", "c"] })), one(json!({ "prompt": ["a", "b", "c", "d"] })), "prompt"),
        (&embedding, "/v1/embeddings", json!({ "input": ["a", "b", "c"] }), json!({ "input": ["a", "b", "c", "d"] }), "input"),
        (&plain, TEXT, text(json!({ "n": 4 })), text(json!({ "n": 5 })), "n"),
        (&plain, TEXT, one(json!({ "prompt": ["a", "b"], "n": 2 })), one(json!({ "prompt": ["a", "b"], "n": 3 })), "n"),
        (&plain, TEXT, text(json!({ "stop": ["x", "y"] })), text(json!({ "stop": ["x", "y", "z"] })), "stop"),
        (&plain, TEXT, text(json!({ "stop": "12345" })), text(json!({ "stop": "123456" })), "stop[0]"),
        (&plain, TEXT, text(json!({ "logit_bias": bias(2) })), text(json!({ "logit_bias": bias(3) })), "logit_bias"),
        (&plain, TEXT, text(json!({ "logprobs": 3 })), text(json!({ "logprobs": 4 })), "logprobs"),
        (
            &plain,
            TEXT,
            text(json!({ "guided_choice": ["a", "b", "c"] })),
            text(json!({ "guided_choice": ["a", "b", "c", "d"] })),
            "guided_choice",
        ),
    ];
    for (server, path, allowed, refused, param) in cases {
        assert_eq!(server.post(path, &allowed).status, 200, "{path} {allowed}: {}", server.post(path, &allowed).text());
        assert_eq!(server.post(path, &refused).error(400)["param"], param, "{path} {refused}");
    }
}

/// Fields and their values, those of fields within fields by both names.
fn flatten(debug: &str) -> BTreeMap<String, String> {
    let (mut found, mut within) = (BTreeMap::new(), vec![]);
    for line in debug.lines().skip(1) {
        let line = line.trim().trim_end_matches(',');
        match line.split_once(": ") {
            Some((name, value)) if value.ends_with('{') => within.push(name),
            Some((name, value)) => {
                let name = within.iter().chain([&name]).copied().collect::<Vec<_>>().join(".");
                found.insert(name, value.to_string());
            }
            None => drop(within.pop()),
        }
    }
    found
}

/// The cells of rows of all tables in a text.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().filter(|line| line.starts_with("| ")).map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
}

/// All of the workspace's Rust sources.
fn sources(folder: &Path, into: &mut String) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path: PathBuf = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push_str(&std::fs::read_to_string(&path).expect("a source"));
        }
    }
}

#[test]
fn the_documented_limits_are_those_of_the_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("docs/security.md")).expect("docs/security.md");
    let code = flatten(&format!("{:#?}", Limits::default()));
    let told: BTreeMap<String, String> = rows(&text)
        .filter(|row| row.len() == 4 && row[0].starts_with('`'))
        .map(|row| (row[0].trim_matches('`').into(), row[2].into()))
        .collect();
    assert_eq!(told, code);
    // Each test that is named is there.
    let mut all = String::new();
    ["crates/server", "crates/engine", "crates/onebit", "crates/formats", "crates/text"]
        .iter()
        .for_each(|f| sources(&root.join(f), &mut all));
    let tests = |text: &str| text.split('`').skip(1).step_by(2).map(str::to_string).collect::<Vec<_>>();
    let mut named: Vec<String> = rows(&text).filter(|row| row.len() == 4).flat_map(|row| tests(row[3])).collect();
    let after = text.split("Others are fixed").nth(1).expect("the paragraph on other limits");
    named.extend(after.split('(').skip(1).filter_map(|part| part.split(')').next()).flat_map(tests));
    assert!(named.len() > 30, "{named:?}");
    for name in named {
        assert!(all.contains(&format!("fn {name}()")), "`{name}` is no test");
    }
}
