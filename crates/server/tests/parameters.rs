//! Every parameter of every endpoint, from the code: honoured, without effect by intent, or refused by name. The same table is the list in
//! `docs/api.md`.
#![allow(clippy::unwrap_used)]

mod common;

use common::client::{Reply, TestServer, options};
use common::toy::Toy;
use onebit_engine::Pool;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::{Arc, Mutex};

/// What a parameter does.
enum Does {
    /// It changes the answer: with these further fields, this value does, and this other one is refused.
    Change(Value, Value, Value),
    /// It is taken, and changes nothing.
    Nothing(Value),
    /// It is taken with this value, and refused with that one.
    Only(Value, Value),
    /// It is refused with any value.
    Refused(Value),
    /// It is taken with this value; what it does a test of its own tells. The other value is refused.
    Elsewhere(Value, Value, &'static str),
}

use Does::{Change, Elsewhere, Nothing, Only, Refused};

struct Row {
    names: &'static [&'static str],
    /// The endpoints that have it, by their letters.
    on: &'static str,
    does: Does,
}

/// An endpoint: its letter, path, the smallest request, and whether it is one for generation.
struct Endpoint {
    letter: char,
    path: &'static str,
    smallest: Value,
}

fn endpoints() -> Vec<Endpoint> {
    let of = |letter, path, smallest| Endpoint { letter, path, smallest };
    let message = json!([{ "role": "user", "content": "q" }]);
    vec![
        of('C', "/v1/chat/completions", json!({ "messages": message, "max_tokens": 12 })),
        of('R', "/v1/responses", json!({ "input": "q", "max_output_tokens": 12 })),
        of('T', "/v1/completions", json!({ "prompt": "q", "max_tokens": 12 })),
        of('L', "/completion", json!({ "prompt": "q", "n_predict": 12 })),
        of('I', "/infill", json!({ "input_prefix": "q", "input_suffix": "r", "n_predict": 12 })),
        of('E', "/v1/embeddings", json!({ "input": "ab" })),
        of('e', "/embedding", json!({ "content": "ab" })),
        of('K', "/v1/rerank", json!({ "query": "a", "documents": ["c", "b"] })),
        of('a', "/apply-template", json!({ "messages": message })),
        of('t', "/tokenize", json!({ "content": "a<|im_end|>" })),
        of('d', "/detokenize", json!({ "tokens": [97] })),
    ]
}

/// What generates.
const ALL: &str = "CRTLI";
const CHATS: &str = "CRa";

fn rows() -> Vec<Row> {
    let row = |names, on, does| Row { names, on, does };
    let none = || json!({});
    // Almost any token may come, so that all that narrows the choice shows.
    let hot = || json!({ "temperature": 4, "seed": 7 });
    // One letter again and again.
    let same = || json!({ "temperature": 0, "logit_bias": { "97": 30 } });
    // Two letters, about as probable.
    let two = || json!({ "temperature": 1, "seed": 7, "logit_bias": { "97": 30, "98": 30 } });
    let with = |mut base: Value, more: Value| {
        base.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        base
    };
    let tool = || json!([{ "type": "function", "function": { "name": "f" } }]);
    let word = json!({ "type": "object", "properties": { "a": { "const": 1 } }, "required": ["a"], "additionalProperties": false });
    let schema = || word.clone();
    let greedy = || json!({ "temperature": 0 });
    vec![
        row(&["model"], "CRTLIEeKa", Elsewhere(json!("alias/of-toy"), json!(1), "http/lifecycle.rs, http/refusals.rs")),
        row(&["model"], "td", Nothing(json!("toy"))),
        // What is answered.
        row(&["messages"], "Ca", Change(none(), json!([{ "role": "user", "content": "longer" }]), json!("x"))),
        row(&["input"], "R", Change(none(), json!([{ "role": "user", "content": "longer" }]), json!(1))),
        row(&["instructions"], "R", Change(none(), json!("Be brief."), json!(1))),
        row(&["prompt"], "TL", Change(none(), json!("longer"), json!({}))),
        row(&["prompt"], "I", Change(none(), json!("more"), json!({}))),
        row(&["input_prefix", "input_suffix"], "I", Change(none(), json!("longer"), json!(1))),
        row(&["input_extra"], "I", Change(none(), json!([{ "filename": "a", "text": "b" }]), json!("x"))),
        row(&["suffix"], "T", Change(none(), json!("x"), json!(1))),
        row(&["echo"], "T", Change(none(), json!(true), json!(1))),
        row(&["answer_start"], "CRTLI", Elsewhere(json!(""), json!("x"), "engine's sources.rs")),
        // Which tokens are chosen.
        row(&["temperature"], ALL, Change(json!({ "seed": 7 }), json!(50), json!(-1))),
        row(&["top_p"], ALL, Change(hot(), json!(0.01), json!(2))),
        row(&["top_k"], ALL, Change(hot(), json!(1), json!(-2))),
        row(&["min_p"], ALL, Change(hot(), json!(1), json!(2))),
        row(&["typical_p"], ALL, Change(hot(), json!(0.01), json!(2))),
        row(&["top_n_sigma"], ALL, Change(hot(), json!(0.1), json!("x"))),
        row(&["presence_penalty", "frequency_penalty"], ALL, Change(same(), json!(50), json!(101))),
        row(&["repeat_penalty", "repetition_penalty"], ALL, Change(same(), json!(50), json!(0))),
        row(&["repeat_last_n"], ALL, Change(with(same(), json!({ "repeat_penalty": 50 })), json!(0), json!(-2))),
        row(&["dry_multiplier"], ALL, Change(same(), json!(50), json!("x"))),
        row(&["dry_base"], ALL, Change(with(same(), json!({ "dry_multiplier": 5 })), json!(9), json!("x"))),
        row(&["dry_allowed_length"], ALL, Change(with(same(), json!({ "dry_multiplier": 50 })), json!(6), json!(-1))),
        row(&["dry_penalty_last_n"], ALL, Change(with(same(), json!({ "dry_multiplier": 50 })), json!(0), json!(-2))),
        row(&["dry_sequence_breakers"], ALL, Change(with(same(), json!({ "dry_multiplier": 50 })), json!(["a"]), json!(1))),
        row(&["xtc_probability"], ALL, Change(two(), json!(1), json!(2))),
        row(&["xtc_threshold"], ALL, Change(with(two(), json!({ "xtc_probability": 1 })), json!(0.9), json!("x"))),
        row(&["mirostat"], ALL, Change(hot(), json!(2), json!(3))),
        row(&["mirostat_tau"], ALL, Change(with(hot(), json!({ "mirostat": 2 })), json!(0.1), json!("x"))),
        row(&["mirostat_eta"], ALL, Change(with(hot(), json!({ "mirostat": 2, "mirostat_tau": 2 })), json!(0.9), json!("x"))),
        row(&["seed"], ALL, Change(hot(), json!(8), json!(1.5))),
        row(&["logit_bias"], ALL, Change(greedy(), json!({ "120": 100 }), json!(1))),
        row(&["stop"], ALL, Change(greedy(), json!(["c"]), json!(1))),
        row(&["ignore_eos"], ALL, Change(json!({ "temperature": 0, "logit_bias": { "257": 100 } }), json!(true), json!(1))),
        row(&["skip_special_tokens"], ALL, Change(json!({ "temperature": 0, "logit_bias": { "256": 100 } }), json!(false), json!(1))),
        row(&["steps", "block_length", "remasking", "eps"], ALL, Elsewhere(Value::Null, json!(1), "engine's diffusion.rs")),
        row(&["priority"], ALL, Elsewhere(json!(-1), json!(1.5), "engine's ranks.rs")),
        row(&["deadline_ms"], ALL, Elsewhere(json!(60_000), json!(0), "http/watching.rs")),
        // How many.
        row(&["max_tokens", "max_completion_tokens", "n_predict"], "CT", Change(json!({ "max_tokens": null }), json!(3), json!(-2))),
        row(&["max_tokens", "n_predict"], "LI", Change(json!({ "n_predict": null }), json!(3), json!(-2))),
        row(&["max_output_tokens"], "R", Change(none(), json!(3), json!(0))),
        row(&["n"], "CT", Change(hot(), json!(2), json!(0))),
        row(&["best_of"], "T", Change(hot(), json!(5), json!(0))),
        // What is told.
        row(&["stream"], ALL, Change(none(), json!(true), json!(1))),
        row(&["stream_options"], "CT", Change(json!({ "stream": true }), json!({ "include_usage": true }), json!(1))),
        row(&["stream_options"], "R", Only(json!({ "include_obfuscation": false }), json!({ "include_usage": true }))),
        row(&["logprobs"], "C", Change(none(), json!(true), json!(2))),
        row(&["logprobs"], "T", Change(none(), json!(2), json!(21))),
        row(&["top_logprobs"], "C", Change(json!({ "logprobs": true }), json!(2), json!(21))),
        row(&["top_logprobs"], "R", Change(json!({ "include": ["message.output_text.logprobs"] }), json!(2), json!(21))),
        row(&["include"], "R", Change(none(), json!(["message.output_text.logprobs"]), json!(["file_search_call.results"]))),
        row(&["return_tokens"], "LI", Change(none(), json!(true), json!(1))),
        row(&["response_fields"], "LI", Only(json!([]), json!(["content"]))),
        // Forms.
        row(
            &["response_format"],
            "CTLI",
            Change(
                greedy(),
                json!({ "type": "json_schema", "json_schema": { "name": "n", "schema": schema() } }),
                json!({ "type": "xml" }),
            ),
        ),
        row(
            &["text"],
            "R",
            Change(
                greedy(),
                json!({ "format": { "type": "json_schema", "name": "n", "schema": schema() } }),
                json!({ "format": { "type": "xml" } }),
            ),
        ),
        row(&["json_schema", "guided_json"], ALL, Change(greedy(), schema(), json!({ "type": "x" }))),
        row(&["grammar", "guided_grammar"], ALL, Change(greedy(), json!("root ::= \"xyz\""), json!("root ::= nowhere"))),
        row(&["guided_regex"], ALL, Change(greedy(), json!("x+"), json!("("))),
        row(&["guided_choice"], ALL, Change(greedy(), json!(["xy", "z"]), json!([]))),
        row(&["guided_json_object"], ALL, Change(greedy(), json!(true), json!(1))),
        row(&["structured_outputs"], ALL, Change(greedy(), json!({ "regex": "x+" }), json!({ "wat": 1 }))),
        row(&["guided_decoding_backend"], ALL, Nothing(json!("x"))),
        row(&["guided_whitespace_pattern"], ALL, Refused(json!(" "))),
        // Chats.
        row(&["tools"], "Ca", Change(none(), tool(), json!({}))),
        row(&["tools"], "R", Change(none(), json!([{ "type": "function", "name": "f" }]), json!([{ "type": "web_search" }]))),
        row(&["tool_choice"], "Ca", Change(json!({ "tools": tool() }), json!("none"), json!("maybe"))),
        row(&["tool_choice"], "R", Change(json!({ "tools": [{ "type": "function", "name": "f" }] }), json!("none"), json!("maybe"))),
        row(&["parallel_tool_calls"], CHATS, Elsewhere(json!(false), json!(1), "http/forced.rs")),
        row(&["functions"], CHATS, Only(json!([]), json!([{ "name": "f" }]))),
        row(&["function_call"], CHATS, Only(json!("auto"), json!({ "name": "f" }))),
        row(&["chat_template_kwargs"], CHATS, Change(none(), json!({ "enable_thinking": true }), json!(1))),
        row(&["reasoning_effort"], "Ca", Elsewhere(json!("none"), json!("high"), "http/chat.rs")),
        row(&["reasoning"], "R", Elsewhere(json!({ "summary": "auto" }), json!({ "effort": "high" }), "http/responses.rs")),
        row(&["reasoning_format"], "CR", Elsewhere(json!("none"), json!("x"), "http/tools.rs")),
        row(&["thinking_budget_tokens", "reasoning_budget_tokens"], "CR", Elsewhere(json!(3), json!(-2), "http/chat.rs")),
        row(&["add_generation_prompt"], CHATS, Change(none(), json!(false), json!(1))),
        row(
            &["continue_final_message"],
            "Ca",
            Change(
                json!({ "messages": [{ "role": "user", "content": "q" }, { "role": "assistant", "content": "x" }] }),
                json!(true),
                json!(1),
            ),
        ),
        row(
            &["continue_final_message"],
            "R",
            Change(
                json!({ "input": [{ "role": "user", "content": "q" }, { "role": "assistant", "content": "x" }] }),
                json!(true),
                json!(1),
            ),
        ),
        row(&["chat_template"], CHATS, Refused(json!("x"))),
        row(&["documents"], CHATS, Only(json!([]), json!([{ "text": "x" }]))),
        row(&["modalities"], "CR", Only(json!(["text"]), json!(["audio"]))),
        row(&["audio", "web_search_options"], "CR", Refused(json!({}))),
        row(&["verbosity"], "C", Only(json!("medium"), json!("low"))),
        row(&["prediction"], "CR", Nothing(json!({ "type": "content", "content": "abc" }))),
        // Responses.
        row(&["previous_response_id", "conversation"], "R", Refused(json!("x"))),
        row(&["prompt"], "R", Refused(json!({ "id": "x" }))),
        row(&["background"], "R", Only(json!(false), json!(true))),
        row(&["truncation"], "R", Only(json!("disabled"), json!("auto"))),
        row(&["max_tool_calls"], "R", Nothing(json!(3))),
        row(&["client_metadata"], "R", Nothing(json!({}))),
        row(&["messages", "response_format", "reasoning_effort", "verbosity"], "R", Refused(json!("x"))),
        // What changes nothing in what is written.
        row(&["user", "safety_identifier", "service_tier", "prompt_cache_key", "prompt_cache_retention"], "CRTLIEeK", Nothing(json!("x"))),
        row(&["metadata"], "CRTLIEeK", Nothing(json!({ "a": "b" }))),
        row(&["cache_prompt"], "CRTLIEeK", Nothing(json!(true))),
        row(&["id_slot", "dynatemp_exponent"], "CRTLIEeK", Nothing(json!(1))),
        // What is only there where it does nothing.
        row(&["store"], ALL, Only(json!(false), json!(true))),
        row(&["samplers"], ALL, Refused(json!(["top_k"]))),
        row(&["lora"], ALL, Only(json!([]), json!([{ "id": 0 }]))),
        row(&["dynatemp_range", "n_keep", "n_indent", "n_probs", "min_tokens"], ALL, Only(json!(0), json!(1))),
        row(&["min_keep"], ALL, Only(json!(1), json!(2))),
        row(&["t_max_predict_ms"], ALL, Only(json!(-1), json!(1))),
        row(
            &["post_sampling_probs", "timings_per_token", "return_progress", "include_stop_str_in_output", "use_beam_search"],
            ALL,
            Only(json!(false), json!(true)),
        ),
        row(&["stop_token_ids"], ALL, Only(json!([]), json!([5]))),
        // Vectors, scores, tokens.
        row(&["input"], "E", Change(none(), json!("cde"), json!(1))),
        row(&["content"], "e", Change(none(), json!("cde"), json!(1))),
        row(&["input"], "e", Elsewhere(json!("x"), json!(1), "http/embeddings.rs")),
        row(&["content"], "E", Elsewhere(json!("x"), json!(1), "http/embeddings.rs")),
        row(&["dimensions"], "Ee", Change(none(), json!(2), json!(9))),
        row(&["encoding_format"], "E", Change(none(), json!("base64"), json!("x"))),
        row(&["encoding_format"], "e", Only(json!("float"), json!("base64"))),
        row(&["embd_normalize"], "Ee", Change(none(), json!(-1), json!(-2))),
        row(&["query"], "K", Change(none(), json!("longer"), json!(1))),
        row(&["documents"], "K", Change(none(), json!(["x", "yz", "w"]), json!(1))),
        row(&["texts"], "K", Elsewhere(json!(["x"]), json!(1), "http/rerank.rs")),
        row(&["top_n"], "K", Change(none(), json!(1), json!(0))),
        row(&["return_documents"], "K", Change(none(), json!(true), json!(1))),
        row(&["content"], "t", Change(none(), json!("b"), json!(1))),
        row(&["add_special"], "t", Elsewhere(json!(true), json!(1), "text's tokenizer tests")),
        row(&["parse_special"], "t", Change(none(), json!(false), json!(1))),
        row(&["with_pieces"], "t", Change(none(), json!(true), json!(1))),
        row(&["tokens"], "d", Change(none(), json!([98]), json!(1))),
    ]
}

/// What an answer says, without what differs each time.
fn essence(reply: &Reply) -> String {
    fn clean(value: &mut Value) {
        match value {
            Value::Object(map) => {
                for name in ["id", "item_id", "created", "created_at", "timings", "cached_tokens", "tokens_cached"] {
                    map.remove(name);
                }
                // What a response repeats of its request.
                if map.get("object") == Some(&json!("response")) {
                    map.retain(|name, _| ["status", "output", "usage"].contains(&name.as_str()));
                }
                map.values_mut().for_each(clean);
            }
            Value::Array(list) => list.iter_mut().for_each(clean),
            _ => {}
        }
    }
    let texts: Vec<&str> = match reply.header("content-type") {
        Some("text/event-stream") => reply.text().lines().filter_map(|line| line.strip_prefix("data: ")).collect(),
        _ => vec![reply.text()],
    };
    let cleaned = texts.into_iter().map(|text| match serde_json::from_str::<Value>(text) {
        Ok(mut value) => {
            clean(&mut value);
            value.to_string()
        }
        Err(_) => text.to_owned(),
    });
    cleaned.collect::<Vec<_>>().join("\n")
}

/// The fields that the server looks for, as it says in its log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn names(&self) -> BTreeSet<String> {
        let text = String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap();
        text.lines().filter_map(|line| line.split_once("name=\"")?.1.split_once('"')).map(|(name, _)| name.to_owned()).collect()
    }
}

struct Servers {
    text: TestServer,
    vectors: TestServer,
    ranks: TestServer,
}

impl Servers {
    fn post(&self, endpoint: &Endpoint, body: &Map<String, Value>) -> Reply {
        let server = match endpoint.letter {
            'E' | 'e' => &self.vectors,
            'K' => &self.ranks,
            _ => &self.text,
        };
        server.post(endpoint.path, &Value::Object(body.clone()))
    }
}

fn merged(base: &Value, more: &Value) -> Map<String, Value> {
    let mut all = base.as_object().unwrap().clone();
    all.extend(more.as_object().unwrap().clone());
    all
}

#[test]
fn every_parameter_is_honoured_or_refused_by_name() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt().with_env_filter("onebit_server::fields=trace").with_ansi(false).with_writer(move || writer.clone()).init();
    let toy = Toy { more_marks: true, context: 1024, breaks: false, ..Toy::default() };
    let servers = Servers {
        text: TestServer::with(options(), toy),
        vectors: TestServer::with(options(), Toy { embeds: Some(Pool::Mean), ..Toy::default() }),
        ranks: TestServer::with(options(), Toy { embeds: Some(Pool::Mean), ranks: true, ..Toy::default() }),
    };
    let (endpoints, rows) = (endpoints(), rows());
    let mut wrong = Vec::new();
    for endpoint in &endpoints {
        log.names();
        let smallest = endpoint.smallest.as_object().unwrap();
        let reply = servers.post(endpoint, smallest);
        assert_eq!(reply.status, 200, "{}: {}", endpoint.path, reply.text());
        let in_code = log.names();
        let own: Vec<&Row> = rows.iter().filter(|row| row.on.contains(endpoint.letter)).collect();
        let in_table: BTreeSet<String> = own.iter().flat_map(|row| row.names.iter().map(|name| (*name).to_owned())).collect();
        for name in in_code.symmetric_difference(&in_table) {
            wrong.push(format!(
                "{}: `{name}` is {} only",
                endpoint.path,
                if in_code.contains(name) { "in the code" } else { "in the table" }
            ));
        }
        // What nobody knows is refused.
        let reply = servers.post(endpoint, &merged(&endpoint.smallest, &json!({ "no_such_parameter": 1 })));
        assert_eq!((reply.status, &reply.json()["error"]["param"]), (400, &json!("no_such_parameter")), "{}", endpoint.path);
        for (row, name) in own.iter().flat_map(|row| row.names.iter().map(move |name| (row, *name))) {
            let mut complain = |what: String| wrong.push(format!("{}: `{name}` {what}", endpoint.path));
            let ask = |with: &Value, value: Option<&Value>| {
                let mut body = merged(&endpoint.smallest, with);
                if let Some(value) = value {
                    body.insert(name.to_owned(), value.clone());
                }
                servers.post(endpoint, &body)
            };
            let none = json!({});
            let mut refuses = |with: &Value, value: &Value| {
                let reply = ask(with, Some(value));
                let param = reply.json()["error"]["param"].clone();
                if reply.status != 400 || !param.as_str().is_some_and(|param| param.starts_with(name)) {
                    complain(format!(
                        "= {value} should be refused: {} {}",
                        reply.status,
                        reply.text().chars().take(300).collect::<String>()
                    ));
                }
            };
            let mut accepted = None;
            match &row.does {
                Change(with, value, bad) => {
                    refuses(with, bad);
                    accepted = Some((with, value, true));
                }
                Nothing(value) => accepted = Some((&none, value, false)),
                Only(fine, bad) => {
                    refuses(&none, bad);
                    accepted = Some((&none, fine, false));
                }
                Refused(bad) => refuses(&none, bad),
                // The other name of what the smallest request has.
                Elsewhere(..) if ["input", "content", "texts"].contains(&name) => continue,
                Elsewhere(fine, bad, test) => {
                    refuses(&none, bad);
                    // Templates without a place for it refuse it.
                    if name == "reasoning_effort" {
                        continue;
                    }
                    let reply = ask(&none, Some(fine));
                    if reply.status != 200 {
                        complain(format!("= {fine}, see {test}, should be taken: {}", reply.text()));
                    }
                }
            }
            if let Some((with, value, changes)) = accepted {
                // Seeds make answers the same each time.
                let with = if endpoint.smallest.get("max_tokens").is_some() || ALL.contains(endpoint.letter) {
                    Value::Object(merged(&json!({ "seed": 1 }), with))
                } else {
                    with.clone()
                };
                let (before, after) = (ask(&with, None), ask(&with, Some(value)));
                if (before.status, after.status) != (200, 200) {
                    complain(format!("= {value} should be taken: {} {}", before.text(), after.text()));
                } else if changes == (essence(&before) == essence(&after)) {
                    let what = if changes { "changes nothing" } else { "changes the answer" };
                    complain(format!("= {value} {what}: {}", essence(&after).chars().take(300).collect::<String>()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    in_the_documentation(&endpoints, &rows);
}

/// The list in `docs/api.md` is this table; `ONEBIT_WRITE_DOCS=1` writes it.
fn in_the_documentation(endpoints: &[Endpoint], rows: &[Row]) {
    const BEGIN: &str = "<!-- made by crates/server/tests/parameters.rs -->\n";
    const END: &str = "<!-- end -->";
    let mut by_name: BTreeMap<&str, Vec<(String, Vec<String>)>> = BTreeMap::new();
    for row in rows {
        let paths = endpoints.iter().filter(|endpoint| row.on.contains(endpoint.letter)).map(|endpoint| endpoint.path);
        let all_generate = ALL.chars().all(|letter| row.on.contains(letter));
        let rest: Vec<&str> = match all_generate {
            true => endpoints.iter().filter(|e| row.on.contains(e.letter) && !ALL.contains(e.letter)).map(|e| e.path).collect(),
            false => paths.collect(),
        };
        let mut on: Vec<String> = if all_generate { vec!["all that generate".into()] } else { vec![] };
        on.extend(rest.iter().map(|path| format!("`{path}`")));
        let does = match &row.does {
            Change(..) | Elsewhere(..) => "honoured".to_owned(),
            Nothing(_) => "taken, changes nothing".into(),
            Only(fine, _) => format!("only `{fine}`, else refused"),
            Refused(_) => "refused".into(),
        };
        for name in row.names {
            let known = by_name.entry(name).or_default();
            match known.iter_mut().find(|(other, _)| *other == does) {
                Some((_, places)) => places.extend(on.iter().cloned()),
                None => known.push((does.clone(), on.clone())),
            }
        }
    }
    let mut list = String::from("| parameter | what it does, and where |\n|---|---|\n");
    for (name, known) in by_name {
        let known: Vec<String> = known.iter().map(|(does, places)| format!("{does}: {}", places.join(", "))).collect();
        list.push_str(&format!("| `{name}` | {} |\n", known.join("; ")));
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the mark of the list in docs/api.md");
    let (found, after) = rest.split_once(END).expect("the end of the list in docs/api.md");
    if std::env::var_os("ONEBIT_WRITE_DOCS").is_some() {
        std::fs::write(path, [before, BEGIN, &list, END, after].concat()).unwrap();
    } else {
        assert_eq!(found, list, "docs/api.md is behind: run this test with ONEBIT_WRITE_DOCS=1");
    }
}
