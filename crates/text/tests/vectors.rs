//! Published vocabularies against what transformers computed with them (`shared/vectors/text`).

mod common;

use common::{ids, json, published, read, shared};
use onebit_text::{Encode, Tokenizer};
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
