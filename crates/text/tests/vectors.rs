//! Published vocabularies against what transformers computed with them (`shared/vectors/text`).

#![allow(clippy::unwrap_used)]

mod common;

use common::{ids, json, published, read, shared};
use onebit_text::{ChatTemplate, Encode, Error, Render, Tokenizer};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::sync::Arc;

const ALL: Encode = Encode { add_special: true, parse_special: true };
const BARE: Encode = Encode { add_special: false, parse_special: true };

fn check(name: &str) {
    let (Some(vectors), Some(folder)) = (shared(&format!("vectors/text/{name}.json")), published(name)) else { return };
    let vectors = json(&vectors);
    let text = read(&folder.join("tokenizer.json"));
    let sum: String = Sha256::digest(text.as_bytes()).iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(sum, vectors["tokenizer_json_sha256"].as_str().unwrap(), "another version of the vocabulary");
    let tokenizer = Arc::new(Tokenizer::from_json(&text, Some(&read(&folder.join("tokenizer_config.json")))).unwrap());
    let rows = vectors["texts"].as_array().unwrap();
    assert!(rows.len() > 90);
    for row in rows {
        let text = row["text"].as_str().unwrap();
        let want = ids(&row["ids"]);
        assert_eq!(tokenizer.encode(text, BARE), want, "{name}: {text:?}");
        assert_eq!(tokenizer.encode(text, ALL), ids(&row["ids_special"]), "{name}, with special tokens: {text:?}");
        let decoded = row.get("decoded").map_or(text, |d| d.as_str().unwrap());
        assert_eq!(tokenizer.decode(&want, false), decoded, "{name}");
        let mut decoder = tokenizer.decoder(false);
        let mut pieces: String = want.iter().map(|&id| decoder.push(id).to_owned()).collect();
        pieces.push_str(decoder.finish());
        assert_eq!(pieces, decoded, "{name}, id by id");
    }
}

#[test]
fn qwen3() {
    check("qwen3");
}
#[test]
fn llama3() {
    check("llama3");
}
#[test]
fn gptoss() {
    check("gptoss");
}
#[test]
fn deepseek_v3() {
    check("deepseek_v3");
}
#[test]
fn gemma3() {
    check("gemma3");
}

/// The chats of a vectors file through the template in `tokenizer_config.json`.
fn check_chats(name: &str, errors: usize) {
    let (Some(vectors), Some(folder)) = (shared(&format!("vectors/text/{name}.json")), published(name)) else { return };
    let config = json(&folder.join("tokenizer_config.json"));
    let token = |name: &str| config[name].as_str().or(config[name]["content"].as_str()).unwrap_or_default().to_owned();
    let template = ChatTemplate::new(config["chat_template"].as_str().unwrap(), &token("bos_token"), &token("eos_token")).unwrap();
    let mut failed = 0;
    for chat in json(&vectors)["chats"].as_array().unwrap() {
        let args = chat["args"].as_object().unwrap();
        let mut options = Render { tools: args.get("tools").cloned(), ..Render::default() };
        for (name, value) in args {
            match (name.as_str(), value) {
                ("messages" | "tools", _) => {}
                ("add_generation_prompt", Value::Bool(yes)) => options.add_generation_prompt = *yes,
                ("continue_final_message", Value::Bool(yes)) => options.continue_final_message = *yes,
                _ => drop(options.extra.insert(name.clone(), value.clone())),
            }
        }
        let got = template.render(&args["messages"], &options);
        match chat.get("text") {
            Some(text) => assert_eq!(got.unwrap(), text.as_str().unwrap(), "{name}: {}", chat["name"]),
            None => {
                failed += 1;
                assert!(
                    matches!(got, Err(Error::Messages(_))),
                    "{name}: {} should fail with {}, but gave {got:?}",
                    chat["name"],
                    chat["error"]
                );
            }
        }
    }
    assert_eq!(failed, errors, "{name}");
}

#[test]
fn qwen3_chats() {
    check_chats("qwen3", 2);
}
#[test]
fn llama3_chats() {
    check_chats("llama3", 1);
}
#[test]
fn deepseek_v3_chats() {
    check_chats("deepseek_v3", 2);
}
#[test]
fn gemma3_chats() {
    check_chats("gemma3", 6);
}
