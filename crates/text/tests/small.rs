//! Small vocabularies of every kind against what the Python package `tokenizers` does with them
//! (`tests/data/make_tokenizers.py`), and what must hold for every text.
#![allow(clippy::unwrap_used)]

mod common;

use common::{data, ids, json};
use onebit_text::{Encode, Tokenizer};
use proptest::prelude::*;
use serde_json::Value;
use std::sync::{Arc, LazyLock};

const BARE: Encode = Encode { add_special: false, parse_special: true };
const WHOLE: Encode = Encode { add_special: true, parse_special: true };
const PLAIN: Encode = Encode { add_special: false, parse_special: false };

struct Small {
    name: String,
    tokenizer: Arc<Tokenizer>,
    rows: Vec<Value>,
}

static ALL: LazyLock<Vec<Small>> = LazyLock::new(|| {
    let entries = ["tokenizers.json", "tokenizers_more.json"].map(|file| json(&data(file)));
    let read = |entry: &Value| Small {
        name: entry["name"].as_str().unwrap().to_owned(),
        tokenizer: Arc::new(Tokenizer::from_json(&entry["tokenizer"].to_string(), None).unwrap()),
        rows: entry["rows"].as_array().unwrap().clone(),
    };
    entries.iter().flat_map(|file| file.as_array().unwrap()).map(read).collect()
});

fn one_by_one(tokenizer: &Arc<Tokenizer>, ids: &[u32], skip_special: bool) -> String {
    let mut decoder = tokenizer.decoder(skip_special);
    let mut text: String = ids.iter().map(|&id| decoder.push(id).to_owned()).collect();
    text.push_str(decoder.finish());
    text
}

#[test]
fn same_as_the_reference() {
    let mut rows = 0;
    for Small { name, tokenizer, rows: all } in ALL.iter() {
        for row in all {
            let text = row["text"].as_str().unwrap();
            for (field, options) in [("ids", BARE), ("special", WHOLE), ("plain", PLAIN)] {
                let got = tokenizer.encode(text, options);
                let show =
                    |ids: &[u32]| ids.iter().map(|&id| tokenizer.token_text(id).unwrap_or_default().into_owned()).collect::<Vec<_>>();
                assert_eq!(got, ids(&row[field]), "{name}, {field} of {text:?}: {:?} instead of {:?}", show(&got), show(&ids(&row[field])));
            }
            for (field, skip) in [("decoded", false), ("skipped", true)] {
                let ids = ids(&row["special"]);
                assert_eq!(tokenizer.decode(&ids, skip), row[field].as_str().unwrap(), "{name}, {field} of {text:?}");
                assert_eq!(one_by_one(tokenizer, &ids, skip), row[field].as_str().unwrap(), "{name}, {field} of {text:?}, one by one");
            }
            rows += 1;
        }
    }
    assert!(rows > 1300, "{rows}");
}

fn byte_level() -> impl Iterator<Item = &'static Small> {
    ALL.iter().filter(|s| ["llama3", "o200k", "deepseek", "smollm"].contains(&s.name.as_str()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Byte-level vocabularies without normalizers lose nothing.
    #[test]
    fn round_trip(text in "(\\PC|[ \\n\\ta-z<>_|]|<mask>|<s>|tool){0,60}") {
        for small in byte_level() {
            let ids = small.tokenizer.encode(&text, PLAIN);
            prop_assert_eq!(&small.tokenizer.decode(&ids, false), &text, "{}", &small.name);
        }
    }

    /// Token by token is as the whole, for any ids; what comes is valid at every step, and never U+FFFD for a character
    /// that a later token completes.
    #[test]
    fn one_by_one_is_the_whole(ids in prop::collection::vec(0u32..700, 0..50), skip in any::<bool>()) {
        for small in ALL.iter() {
            prop_assert_eq!(one_by_one(&small.tokenizer, &ids, skip), small.tokenizer.decode(&ids, skip), "{}", &small.name);
        }
    }

    /// The bytes of the tokens are the text.
    #[test]
    fn bytes_of_tokens(text in "\\PC{0,40}") {
        for small in byte_level() {
            let ids = small.tokenizer.encode(&text, PLAIN);
            let bytes: Vec<u8> = ids.iter().flat_map(|&id| small.tokenizer.token_bytes(id).unwrap()).copied().collect();
            prop_assert_eq!(&String::from_utf8(bytes).unwrap(), &text);
        }
    }
}

/// No character is given in part: every prefix of what comes is a prefix of the text.
#[test]
fn whole_characters_only() {
    let text = "a👩‍👩‍👧é漢तेज़🤖\u{10ffff}";
    for small in byte_level() {
        let mut decoder = small.tokenizer.decoder(false);
        let mut got = String::new();
        for id in small.tokenizer.encode(text, PLAIN) {
            got.push_str(decoder.push(id));
            assert!(text.starts_with(&got), "{}: {got:?}", small.name);
        }
        assert_eq!(got, text);
        assert_eq!(decoder.finish(), "");
    }
}

/// A character that stops half way is one U+FFFD, at the end or before what follows.
#[test]
fn broken_characters() {
    let small = byte_level().next().unwrap();
    let id = |byte: u8| (0..small.tokenizer.len() as u32).find(|&id| small.tokenizer.token_bytes(id) == Some(&[byte])).unwrap();
    let mut decoder = small.tokenizer.decoder(false);
    let (e2, x82, a, ff) = (id(0xe2), id(0x82), id(b'a'), id(0xff));
    assert_eq!([decoder.push(e2), "|"].concat(), "|");
    assert_eq!([decoder.push(x82), "|"].concat(), "|");
    assert_eq!(decoder.push(a), "\u{fffd}a");
    assert_eq!(decoder.push(ff), "\u{fffd}");
    assert_eq!(decoder.push(e2), "");
    assert_eq!(decoder.finish(), "\u{fffd}");
    assert_eq!(decoder.push(a), "a");
    assert_eq!(small.tokenizer.decode(&[e2, x82, a, ff, e2], false), "\u{fffd}a\u{fffd}\u{fffd}");
}

#[test]
fn facts() {
    let small = byte_level().next().unwrap();
    let t = &small.tokenizer;
    let id = t.id("<|im_end|>").unwrap();
    assert!(t.is_special(id) && !t.is_special(t.id("<tool_call>").unwrap()) && !t.is_special(0));
    assert_eq!(t.eos(), [id]);
    assert_eq!(t.bos(), None);
    assert_eq!(t.token_text(id).unwrap(), "<|im_end|>");
    assert_eq!(t.token_bytes(id).unwrap(), b"<|im_end|>");
    assert_eq!(t.token_text(t.id("Ġthe").unwrap()).unwrap(), "Ġthe");
    assert_eq!(t.token_bytes(t.id("Ġthe").unwrap()).unwrap(), b" the");
    assert_eq!(t.token_text(t.len() as u32), None);
    assert_eq!(t.decode(&[u32::MAX, id], false), "<|im_end|>");
}

/// Two texts that belong together, against the package (`tests/data/make_pairs.py`).
#[test]
fn pairs_of_texts() {
    let expected = json(&data("pairs.json"));
    let expected = expected.as_array().unwrap();
    for entry in expected {
        let name = entry["name"].as_str().unwrap();
        let small = ALL.iter().find(|small| small.name == name).unwrap();
        for row in entry["rows"].as_array().unwrap() {
            let (first, second) = (row["first"].as_str().unwrap(), row["second"].as_str().unwrap());
            let (found, start) = small.tokenizer.encode_pair(first, second).unwrap();
            assert_eq!(found, ids(&row["ids"]), "{name}: {first:?} and {second:?}");
            assert!(row["start"].as_u64().is_none_or(|expected| start as u64 == expected), "{name}: {start} for {}", row["start"]);
        }
    }
    assert_eq!(expected.len(), 12);
    // Vocabularies that put nothing around texts say nothing of two.
    let bare = ALL.iter().filter(|small| small.tokenizer.encode_pair("a", "b").is_none()).count();
    assert!(bare > 10, "{bare}");
}
