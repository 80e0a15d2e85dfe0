//! Mutated vocabularies and templates: an error or a tokenizer that works, soon, and never a panic.
//! `ONEBIT_MUTATION_SECONDS` sets for how long (2 by default), `ONEBIT_MUTATION_SEED` where the random numbers start.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "../../../tests/random.rs"]
mod random;

use common::{Folder, data, json, vocabularies};
use onebit_formats::{Meta, Texts};
use onebit_text::{ChatTemplate, Encode, Render, Tokenizer};
use random::Random;
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

fn run(mut one: impl FnMut(&mut Random)) {
    let time = random::time();
    let (start, mut random, mut n) = (Instant::now(), Random(random::seed()), 0);
    while start.elapsed() < time || n < 20 {
        let begin = Instant::now();
        one(&mut random);
        n += 1;
        assert!(begin.elapsed() < Duration::from_secs(20), "case {n} took {:?}", begin.elapsed());
    }
    eprintln!("{n} cases");
}

const TEXT: &str = "The other weather 12345 naïve 漢字\n\n  👍🏽 <s><|im_end|> e\u{301} \0 it's";

/// Uses all of a tokenizer.
fn exercise(tokenizer: &Tokenizer) {
    for options in [Encode { add_special: true, parse_special: true }, Encode::default()] {
        let ids = tokenizer.encode(TEXT, options);
        assert!(ids.iter().all(|&id| (id as usize) < tokenizer.len()), "an id beyond the vocabulary");
        let _ = tokenizer.decode(&ids, true);
    }
    let all: Vec<u32> = (0..tokenizer.len() as u32 + 2).collect();
    let _ = tokenizer.decode(&all, false);
    assert!(tokenizer.eos().iter().chain(tokenizer.bos().iter()).all(|&id| tokenizer.token_text(id).is_some()));
}

/// Bytes are changed, cut out, doubled.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len());
        let end = (at + 1 + random.below(40)).min(bytes.len());
        match random.below(6) {
            0 => bytes[at] = random.below(256) as u8,
            1 => bytes[at] ^= 1 << random.below(8),
            2 => drop(bytes.drain(at..end)),
            3 => {
                let part = bytes[at..end].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, part);
            }
            4 => {
                let part = *random.pick(&[
                    "null",
                    "-1",
                    "1e999",
                    "18446744073709551616",
                    "\"\"",
                    "[]",
                    "{}",
                    "true",
                    "\u{2581}",
                    "\\ud800",
                    "(?i:",
                    "{{",
                    "%}",
                ]);
                bytes.splice(at..end.min(at + 4).min(bytes.len()), part.bytes());
            }
            _ => bytes.truncate(at),
        }
    }
}

/// Somewhere in a JSON value, something becomes something else.
fn mutate_json(value: &mut Value, random: &mut Random) {
    let others = || {
        [
            Value::Null,
            Value::from(-1),
            Value::from(1u64 << 40),
            Value::from(0),
            Value::from(""),
            Value::from("<s>"),
            Value::from("Ġ"),
            Value::from(true),
            Value::Array(vec![]),
            Value::Object(Map::new()),
        ]
    };
    match value {
        Value::Array(items) if !items.is_empty() && random.below(8) > 0 => {
            let at = random.below(items.len());
            match random.below(6) {
                0 => drop(items.remove(at)),
                1 => items.push(items[at].clone()),
                _ => mutate_json(&mut items[at], random),
            }
        }
        Value::Object(fields) if !fields.is_empty() && random.below(8) > 0 => {
            let at = random.below(fields.len());
            let (name, field) = fields.iter_mut().nth(at).unwrap();
            match random.below(8) {
                0 => {
                    let name = name.clone();
                    fields.remove(&name);
                }
                _ => mutate_json(field, random),
            }
        }
        other => *other = random.pick(&others()).clone(),
    }
}

#[test]
fn tokenizer_json() {
    let files = ["tokenizers.json", "tokenizers_more.json"].map(|file| json(&data(file)));
    let entries: Vec<Value> = files.iter().flat_map(|file| file.as_array().unwrap()).map(|e| e["tokenizer"].clone()).collect();
    let mut read = 0;
    run(|random| {
        let mut file = random.pick(&entries).clone();
        let text = if random.below(3) == 0 {
            let mut bytes = file.to_string().into_bytes();
            mutate(&mut bytes, random);
            String::from_utf8_lossy(&bytes).into_owned()
        } else {
            // The vocabulary is most of the file; mutate the rest as often.
            let part = *random.pick(&["normalizer", "pre_tokenizer", "post_processor", "decoder", "added_tokens", "model"]);
            mutate_json(if random.below(2) == 0 { &mut file } else { &mut file[part] }, random);
            file.to_string()
        };
        if let Ok(tokenizer) = Tokenizer::from_json(&text, Some(r#"{"eos_token": "</s>"}"#)) {
            read += 1;
            exercise(&tokenizer);
        }
    });
    assert!(read > 0);
}

/// SentencePiece models, tiktoken files, `vocab.txt`, `tekken.json`, and what lies beside them.
#[test]
fn other_files() {
    let entries = vocabularies();
    let mut read = 0;
    run(|random| {
        let folder = Folder::of(random.pick(&entries));
        let files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path()).collect();
        for _ in 0..1 + random.below(2) {
            let file = random.pick(&files);
            let mut contents = fs::read(file).unwrap();
            mutate(&mut contents, random);
            fs::write(file, contents).unwrap();
        }
        if let Ok(tokenizer) = Tokenizer::from_checkpoint(&folder.checkpoint()) {
            read += 1;
            exercise(&tokenizer);
        }
    });
    assert!(read > 0);
}

/// The kinds of `gguf.json`: tokens, kinds, scores and settings are changed, cut short, doubled.
#[test]
fn gguf_kinds() {
    let entries: Vec<Value> = json(&data("gguf.json")).as_array().unwrap().clone();
    let mut read = 0;
    run(|random| {
        let mut checkpoint = common::gguf(random.pick(&entries));
        for _ in 0..1 + random.below(2) {
            let keys: Vec<String> = checkpoint.metadata.pairs.keys().cloned().collect();
            let value = checkpoint.metadata.pairs.get_mut(random.pick(&keys).as_str()).unwrap();
            match value {
                Meta::Texts(texts) if !texts.is_empty() => {
                    let mut all: Vec<Vec<u8>> = texts.iter().map(<[u8]>::to_vec).collect();
                    let at = random.below(all.len());
                    match random.below(3) {
                        0 => all.truncate(at),
                        1 => mutate(&mut all[at], random),
                        _ => all[at] = random.pick(&[&b"\xff"[..], b"", b"a", b"\\x4", b"<0xZZ>", "▁".as_bytes()]).to_vec(),
                    }
                    let mut changed = Texts::default();
                    all.iter().for_each(|text| changed.push(text));
                    *texts = changed;
                }
                Meta::Integers(all) if !all.is_empty() => {
                    let at = random.below(all.len());
                    match random.below(3) {
                        0 => all.truncate(at),
                        _ => all[at] = *random.pick(&[-1, 0, 1, 2, 3, 4, 5, 6, 127, 255, i64::MAX]),
                    }
                }
                Meta::Floats(all) if !all.is_empty() => {
                    let at = random.below(all.len());
                    match random.below(3) {
                        0 => all.truncate(at),
                        _ => all[at] = *random.pick(&[f32::NAN, f32::INFINITY, f32::MAX, f32::MIN, 0.0, -1e-40]),
                    }
                }
                Meta::Unsigned(id) => *id = *random.pick(&[0, 1, 7, 1 << 20, u64::MAX]),
                Meta::Bool(yes) => *yes = !*yes,
                other => *other = Meta::Text((*random.pick(&["none", "llama", "t5", "bert", "rwkv", "plamo2", "gemma4"])).into()),
            }
        }
        if let Ok(tokenizer) = Tokenizer::from_checkpoint(&checkpoint) {
            read += 1;
            exercise(&tokenizer);
        }
    });
    assert!(read > 0);
}

#[test]
fn gguf_vocabulary() {
    let model = json(&data("sentencepiece.json"));
    let spec = &json(&data("tokenizers.json"))[0]["tokenizer"];
    let list = |value: &Value| value.as_array().unwrap().clone();
    let pieces: Vec<Vec<u8>> = list(&model["pieces"]).iter().map(|p| p.as_str().unwrap().into()).collect();
    let words: Vec<Vec<u8>> = spec["model"]["vocab"].as_object().unwrap().keys().map(|k| k.clone().into_bytes()).collect();
    let merges: Vec<Vec<u8>> =
        list(&spec["model"]["merges"]).iter().map(|m| format!("{} {}", m[0].as_str().unwrap(), m[1].as_str().unwrap()).into()).collect();
    let mut read = 0;
    run(|random| {
        let scored = random.below(2) == 0;
        let mut tokens = if scored { pieces.clone() } else { words.clone() };
        let mut merges = merges.clone();
        let mut scores: Vec<f32> = list(&model["scores"]).iter().map(|s| s.as_f64().unwrap() as f32).collect();
        let mut kinds: Vec<i64> =
            if scored { list(&model["kinds"]).iter().map(|k| k.as_i64().unwrap()).collect() } else { vec![1; tokens.len()] };
        for _ in 0..random.below(4) {
            let (at, other) = (random.below(tokens.len()), random.below(tokens.len()));
            match random.below(9) {
                0 => mutate(&mut tokens[at], random),
                1 => tokens[at] = tokens[other].clone(),
                2 => tokens.truncate(at),
                3 => scores[other % 256] = *random.pick(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0]),
                4 => scores.truncate(at),
                5 => kinds[other % 256] = *random.pick(&[-1, 0, 2, 3, 4, 5, 6, 7, i64::MAX]),
                6 => {
                    let at = random.below(merges.len());
                    mutate(&mut merges[at], random);
                }
                7 => merges.rotate_left(at % 50),
                _ => tokens[at] = random.pick(&[&b"<0x-1>"[..], b"<0xGG>", b"<0x41>", b"", b"\xff\xfe", b"<s>"]).to_vec(),
            }
            if tokens.is_empty() || scores.len() < 256 || kinds.len() < 256 {
                break;
            }
        }
        let texts = |all: &[Vec<u8>]| {
            let mut texts = Texts::default();
            all.iter().for_each(|text| texts.push(text));
            Meta::Texts(texts)
        };
        let mut pairs = BTreeMap::from([
            ("model", Meta::Text(if scored { "llama" } else { "gpt2" }.into())),
            (
                "pre",
                Meta::Text(
                    (*random.pick(&["qwen2", "smollm", "llama-bpe", "default", "falcon", "bailingmoe", "deepseek-coder", "tekken"])).into(),
                ),
            ),
            ("tokens", texts(&tokens)),
            ("token_type", Meta::Integers(kinds)),
            ("scores", Meta::Floats(scores)),
            ("merges", texts(&merges)),
            ("unknown_token_id", Meta::Unsigned(0)),
            ("bos_token_id", Meta::Unsigned(random.below(900) as u64)),
            ("eos_token_id", Meta::Unsigned(2)),
        ]);
        if random.below(4) == 0 {
            let key = *random.pick(&pairs.keys().copied().collect::<Vec<_>>());
            pairs.insert(
                key,
                random
                    .pick(&[Meta::Bool(true), Meta::Signed(-1), Meta::Text("x".into()), Meta::Integers(vec![]), Meta::Floats(vec![1.0])])
                    .clone(),
            );
        }
        let pairs = pairs.into_iter().map(|(k, v)| (format!("tokenizer.ggml.{k}"), v)).collect();
        let checkpoint = common::metadata_only(pairs);
        if let Ok(tokenizer) = Tokenizer::from_checkpoint(&checkpoint) {
            read += 1;
            exercise(&tokenizer);
        }
    });
    assert!(read > 0);
}

#[test]
fn templates() {
    let file = json(&data("templates.json"));
    let sources: Vec<String> = file["cases"].as_array().unwrap().iter().map(|c| c["source"].as_str().unwrap().to_owned()).collect();
    let mut rendered = 0;
    run(|random| {
        let mut source = random.pick(&sources).clone().into_bytes();
        for _ in 0..random.below(3) {
            source.extend_from_slice(random.pick(&sources).as_bytes());
        }
        mutate(&mut source, random);
        let mut messages = file["messages"].clone();
        if random.below(2) == 0 {
            mutate_json(&mut messages, random);
        }
        let options = Render {
            tools: Some(file["tools"].clone()),
            add_generation_prompt: random.below(2) == 0,
            continue_final_message: random.below(8) == 0,
            ..Render::default()
        };
        if let Ok(template) = ChatTemplate::new(&String::from_utf8_lossy(&source), "<s>", "</s>") {
            rendered += usize::from(template.render(&messages, &options).is_ok());
        }
    });
    assert!(rendered > 0);
}
