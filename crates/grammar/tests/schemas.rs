//! Schemas: what they allow and what not, as `jsonschema` judged it (`data/make_schemas.py`); and what a model of random weights writes
//! under them, which `jsonschema` judges now.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)] // not all of it is needed here
#[path = "../../../tests/random.rs"]
mod random;

use onebit_grammar::{Compiler, Grammar, Limits, Source, Word};
use random::Random;
use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Stdio};

const END: u32 = 0;

/// All bytes, and pieces such as vocabularies have them, which cross the borders of JSON's own.
fn words() -> Vec<Vec<u8>> {
    let pieces = [
        "{\"", "\":", "\": ", "\",", "\", \"", "\"}", "}}", "},", "[]", "{}", "]}", "[{", "\"]", "],", ", ", ": ", "true", "false", "null",
        "rue", "12", "00", "-1", ".5", "e+", "the", " the", "value", "children", "na", "me", "\\n", "\\u00", "é", "\n  ", "   ", "ab",
        "cat", "kind", "red", "green",
    ];
    let bytes = (0..=255u8).map(|b| vec![b]);
    [b"</s>".to_vec()].into_iter().chain(bytes).chain(pieces.map(|p| p.as_bytes().to_vec())).collect()
}

fn compiler() -> Compiler {
    let words = words();
    let word = |(id, word): (usize, &'static [u8])| if id == 0 { Word::Special("</s>") } else { Word::Text(word) };
    let words: Vec<&'static [u8]> = words.into_iter().map(|w| &*w.leak()).collect();
    Compiler::new(words.into_iter().enumerate().map(word), &[END], Limits::default()).unwrap()
}

fn cases() -> Vec<Value> {
    serde_json::from_str(include_str!("data/schemas.json")).unwrap()
}

fn grammar(compiler: &Compiler, schema: &Value) -> Grammar {
    let source = Source::JsonSchema { schema: schema.clone(), lenient: false };
    compiler.compile(&source.into()).unwrap_or_else(|e| panic!("{schema}: {e}"))
}

/// Whether the grammar takes the text, byte by byte.
fn takes(grammar: &Grammar, text: &str) -> bool {
    let (mut guide, _) = grammar.begin();
    text.bytes().all(|b| guide.mask().unwrap().allows(u32::from(b) + 1) && guide.accept(u32::from(b) + 1).is_ok()) && guide.may_end()
}

#[test]
fn what_a_schema_allows_is_taken_and_nothing_else() {
    let compiler = compiler();
    for case in cases() {
        let grammar = grammar(&compiler, &case["schema"]);
        for value in case["valid"].as_array().unwrap() {
            for text in [value.to_string(), spaced(value)] {
                assert!(takes(&grammar, &text), "{text} is refused by {}", case["schema"]);
            }
        }
        for value in case["invalid"].as_array().unwrap() {
            assert!(!takes(&grammar, &value.to_string()), "{value} is taken by {}", case["schema"]);
        }
        for text in ["", "{", "nonsense", "{\"a\":1}}", " ", "[1,]"] {
            assert!(!takes(&grammar, text), "{text} is taken by {}", case["schema"]);
        }
    }
}

/// On lines of its own, two spaces deep, as models like to write.
fn spaced(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap()
}

/// An answer of a model of random weights; `None` if it does not end. Like a model it tends to end what it has begun.
fn answer(grammar: &Grammar, words: &[Vec<u8>], random: &mut Random) -> Option<String> {
    let (mut guide, mut mask) = grammar.begin();
    let mut out = Vec::new();
    for _ in 0..400 {
        if guide.is_complete() {
            return Some(String::from_utf8(out).unwrap());
        }
        let allowed: Vec<u32> = (0..words.len() as u32).filter(|id| mask.allows(*id)).collect();
        assert!(!allowed.is_empty());
        let closing: Vec<u32> =
            allowed.iter().copied().filter(|id| matches!(words[*id as usize].last(), Some(b'"' | b']' | b'}')) || *id == END).collect();
        let among = if closing.is_empty() || random.below(4) == 0 { &allowed } else { &closing };
        let id = among[random.below(among.len())];
        if id == END {
            assert!(guide.may_end());
            return Some(String::from_utf8(out).unwrap());
        }
        out.extend_from_slice(&words[id as usize]);
        guide.accept(id).unwrap();
        mask = guide.mask().unwrap();
    }
    None
}

#[test]
fn what_random_weights_write_is_valid() {
    let (compiler, words, mut random) = (compiler(), words(), Random(random::seed()));
    let mut lines = String::new();
    for case in cases() {
        let grammar = grammar(&compiler, &case["schema"]);
        let texts: Vec<String> = (0..24).filter_map(|_| answer(&grammar, &words, &mut random)).collect();
        assert!(texts.len() >= 8, "only {} answers ended under {}", texts.len(), case["schema"]);
        for text in texts {
            assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text} of {}", case["schema"]);
            lines.push_str(&json!({ "schema": case["schema"], "text": text }).to_string());
            lines.push('\n');
        }
    }
    let named = std::env::var("ONEBIT_PYTHON").ok();
    let has_package = |python: &String| Command::new(python).args(["-c", "import jsonschema"]).output().is_ok_and(|o| o.status.success());
    let Some(python) = named.into_iter().chain(["python3".to_owned()]).find(has_package) else {
        eprintln!("SKIPPED: what_random_weights_write_is_valid: no Python with the `jsonschema` package (ONEBIT_PYTHON names one)");
        return;
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/validate.py");
    let mut child = Command::new(python).arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn what_cannot_be_enforced_is_refused_or_passed_over() {
    let compiler = compiler();
    for (schema, word) in [
        (json!({ "type": "array", "uniqueItems": true }), "uniqueItems"),
        (json!({ "not": { "type": "string" } }), "not"),
        (json!({ "if": {}, "then": {} }), "if"),
        (json!({ "oneOf": [{ "type": "integer" }, { "type": "integer", "minimum": 3 }] }), "oneOf"),
        (json!({ "type": "string", "format": "no-such" }), "no-such"),
    ] {
        let source = |lenient| Source::JsonSchema { schema: schema.clone(), lenient };
        let error = compiler.compile(&source(false).into()).unwrap_err().to_string();
        assert!(error.contains(word), "{schema}: {error}");
        compiler.compile(&source(true).into()).unwrap();
    }
}
