//! Broken and hostile `tokenizer.json` files, and texts that are hard to encode.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Folder, data, json, vocabularies};
use onebit_text::{Encode, Tokenizer};
use serde_json::{Value, json};
use std::{
    env,
    time::{Duration, Instant},
};

/// A small good file.
fn good() -> Value {
    json!({
        "added_tokens": [{"id": 5, "content": "<s>", "special": true}],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
        "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}], "special_tokens": {"<s>": {"ids": [5]}}},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4}, "merges": ["a b", ["ab", "c"]]}
    })
}

fn error(file: &Value, config: Option<&str>) -> String {
    let start = Instant::now();
    let error = Tokenizer::from_json(&file.to_string(), config).err().map(|e| e.to_string());
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    error.unwrap_or_default()
}

#[test]
fn the_good_file_is_read() {
    let tokenizer = Tokenizer::from_json(&good().to_string(), Some(r#"{"bos_token": {"content": "<s>"}, "eos_token": null}"#)).unwrap();
    assert_eq!(tokenizer.encode("abcab<s>", Encode { add_special: true, parse_special: true }), [5, 4, 3, 5]);
    assert_eq!((tokenizer.bos(), tokenizer.len()), (Some(5), 6));
}

/// A unigram model of the good file's tokens, with other settings.
fn unigram(settings: Value) -> Value {
    let mut model = json!({"type": "Unigram", "vocab": [["a", -1.0], ["b", -1.0], ["c", -1.0], ["ab", -1.5], ["abc", -2.0], ["<s>", 0.0]]});
    model.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    model
}

/// Each is refused with a message that names what is wrong.
#[test]
fn refused_by_name() {
    for (pointer, value, names) in [
        ("/model/type", json!("Neural"), "the model `Neural` is not supported"),
        ("/model/dropout", json!(0.1), "`dropout` 0.1"),
        ("/model/vocab", json!([["a", 1.0]]), "map from tokens to ids"),
        ("/model/vocab/a", json!(-1), "-1"),
        ("/model/vocab/a", json!(1.5), "1.5"),
        ("/model/vocab/a", json!(4_000_000_000u64), "token `a` has id 4000000000, but there are 6 tokens"),
        ("/model/vocab/a", json!(1u64 << 60), "token `a` has id"),
        ("/model/vocab/a", json!(1), "both have id 1"),
        ("/model/vocab/a", json!("0"), "string"),
        ("/model/merges", json!(null), "has no `merges`"),
        ("/model/merges/0", json!("a z"), "merge 0 names `z`, which is no token"),
        ("/model/merges/0", json!("c b"), "merge 0 names `cb`, which is no token"),
        ("/model/merges/0", json!("ab"), "merge 0 should be two tokens"),
        ("/model/merges/0", json!("a b c"), "merge 0 should be two tokens"),
        ("/model/merges/1", json!(["a"]), "a merge"),
        ("/model/merges/1", json!(["a", "b", "c"]), "a merge"),
        ("/model/merges/1", json!(7), "a merge"),
        ("/model/unk_token", json!("<unk>"), "`unk_token` is `<unk>`"),
        ("/model/type", json!("Unigram"), "an array of tokens with scores"),
        ("/model", json!({"type": "Unigram", "vocab": {"a": 0}}), "an array of tokens with scores"),
        ("/model", json!({"type": "Unigram", "vocab": [["<s>"], ["a", 0.5]]}), "invalid length 1"),
        ("/model", unigram(json!({"unk_id": 6})), "`unk_id` is 6, but the model has 6 tokens"),
        ("/model", unigram(json!({"unk_id": -1})), "-1"),
        (
            "/model",
            unigram(json!({"vocab": [["a", 0.0], ["a", 0.0], ["c", 0.0], ["d", 0.0], ["e", 0.0], ["<s>", 0.0]]})),
            "token `a` has two ids",
        ),
        ("/model/type", json!("WordPiece"), "`unk_token` is `[UNK]`, which is no token of the model"),
        ("/model/type", json!("WordLevel"), "`unk_token` is `<unk>`, which is no token of the model"),
        ("/normalizer", json!({"type": "Precompiled", "precompiled_charsmap": "A"}), "not base 64"),
        ("/normalizer", json!({"type": "Precompiled", "precompiled_charsmap": "AA=="}), "`precompiled_charsmap` has 1 bytes"),
        ("/normalizer", json!({"type": "Precompiled", "precompiled_charsmap": "BAAAAAAA"}), "a table of 4 bytes, but 2 bytes follow"),
        ("/normalizer", json!({"type": "Precompiled", "precompiled_charsmap": "AAAAAP8="}), "replacements that are not UTF-8"),
        ("/normalizer", json!({"type": "Precompiled", "precompiled_charsmap": format!("AAAAA{}", "E".repeat(103))}), "at most 64 are read"),
        ("/normalizer", json!({"type": "BertNormalizer", "lowercase": 1}), "`BertNormalizer`"),
        ("/normalizer", json!({}), "no type"),
        ("/normalizer", json!(7), ""),
        ("/normalizer", json!({"type": "Replace", "pattern": {"String": ""}, "content": "x"}), "pattern is empty"),
        ("/normalizer", json!({"type": "Replace", "pattern": {"Regex": "("}, "content": "x"}), "regular expression `(`"),
        ("/normalizer", json!({"type": "Replace", "pattern": {"Regex": "[[:alpha:]]"}, "content": "x"}), "`[[:`"),
        ("/normalizer", json!({"type": "Replace", "pattern": {"String": "a"}, "content": "a".repeat(100)}), "100 times as long"),
        (
            "/normalizer",
            json!({"type": "Sequence", "normalizers": vec![json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}); 40]}),
            "times as long",
        ),
        ("/pre_tokenizer", json!({"type": "FixedLength", "length": 0}), "`FixedLength` has the length 0"),
        ("/pre_tokenizer", json!({"type": "Syllables"}), "the pre-tokenizer `Syllables`"),
        ("/pre_tokenizer", json!({"type": "Split", "pattern": {"String": "a"}, "behavior": "Sometimes"}), "`Split`"),
        ("/pre_tokenizer", json!({"type": "Split", "pattern": {"Regex": "a".repeat(100_000)}, "behavior": "Isolated"}), "100000 bytes"),
        ("/post_processor", json!({"type": "Magic"}), "the post-processor `Magic`"),
        ("/post_processor/single/0", json!({"SpecialToken": {"id": "<t>"}}), "`<t>`"),
        ("/post_processor/single/0", json!({"Sequence": {"id": "A"}}), "the text 2 times"),
        ("/post_processor/special_tokens/<s>/ids", json!([6]), "adds id 6"),
        ("/decoder", json!({"type": "CTC"}), "the decoder `CTC`"),
        ("/decoder", json!({"type": "CTC", "pad_token": "", "word_delimiter_token": "|"}), "`CTC` has an empty `pad_token`"),
        ("/decoder", json!({"type": "BPEDecoder", "suffix": ""}), "`suffix` of `BPEDecoder` is empty"),
        (
            "/decoder",
            json!({"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "WordPiece"}]}),
            "a `WordPiece` decoder after others",
        ),
        ("/truncation", json!({"max_length": -1}), "-1"),
        ("/padding", json!({"pad_id": "x"}), "string"),
        (
            "/decoder",
            json!({"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Replace", "pattern": {"Regex": "ab"}, "content": ""}]}),
            "`Replace`",
        ),
        ("/added_tokens/0/id", json!(4), "both have id 4"),
        ("/added_tokens/0/content", json!("a"), "`a`"),
        ("/added_tokens/0/id", json!(1_000_000), "id 1000000"),
        ("/added_tokens", json!(7), ""),
        ("/model", json!(null), ""),
    ] {
        let mut file = good();
        match file.pointer_mut(pointer) {
            Some(at) => *at = value.clone(),
            None => {
                let (parent, key) = pointer.rsplit_once('/').unwrap();
                file.pointer_mut(parent).unwrap()[key] = value.clone();
            }
        }
        let error = error(&file, None);
        let value = value.to_string().chars().take(80).collect::<String>();
        assert!(error.contains("tokenizer.json") && error.contains(names), "{pointer} = {value}: {error:?}");
    }
    for (config, names) in [
        (r#"{"bos_token": "<t>"}"#, "`bos_token` in tokenizer_config.json is `<t>`"),
        (r#"{"bos_token": 7}"#, "tokenizer_config.json"),
        (r#"{"added_tokens_decoder": {"x": {"content": "y"}}}"#, "`x`"),
        (r#"{"added_tokens_decoder": {"4": {"content": "y"}}}"#, "both have id 4"),
        ("[", "tokenizer_config.json"),
    ] {
        let error = error(&good(), Some(config));
        assert!(error.contains(names), "{config}: {error:?}");
    }
    for text in ["", "{}", "[]", "null", "version https://git-lfs.github.com/spec/v1", "<html>"] {
        assert!(Tokenizer::from_json(text, None).is_err(), "{text}");
    }
    let duplicate = good().to_string().replace(r#""b":1"#, r#""b":1,"a":7"#);
    let error = Tokenizer::from_json(&duplicate, None).unwrap_err().to_string();
    assert!(error.contains("`a` has two ids"), "{error}");
    let deep = format!(r#"{{"normalizer": {}{}}}"#, r#"{"type":"Sequence","normalizers":["#.repeat(100_000), "]}".repeat(100_000));
    assert!(Tokenizer::from_json(&deep, None).unwrap_err().to_string().contains("recursion limit"));
}

/// All vocabularies at hand, of every kind.
fn every_kind() -> Vec<(String, Tokenizer)> {
    let mut all = Vec::new();
    for file in ["tokenizers.json", "tokenizers_more.json"] {
        for entry in json(&data(file)).as_array().unwrap() {
            let tokenizer = Tokenizer::from_json(&entry["tokenizer"].to_string(), None).unwrap();
            all.push((entry["name"].as_str().unwrap().to_owned(), tokenizer));
        }
    }
    for entry in vocabularies() {
        all.push((entry["name"].to_string(), Tokenizer::from_checkpoint(&Folder::of(&entry).checkpoint()).unwrap()));
    }
    for entry in json(&data("gguf.json")).as_array().unwrap() {
        all.push((format!("gguf {}", entry["name"]), Tokenizer::from_checkpoint(&common::gguf(entry)).unwrap()));
    }
    all
}

/// Nothing takes time that grows with the square of a text: that of 1 MiB would be hours. `ONEBIT_LONG_MIB` sets another length.
#[test]
fn long_words() {
    let n = env::var("ONEBIT_LONG_MIB").map_or(1, |n| n.parse::<usize>().unwrap()) << 20;
    let mut state = 1u32;
    let bytes: Vec<u8> = (0..n)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .collect();
    let texts = [
        ("letter", "a".repeat(n)),
        ("two letters", "ab".repeat(n / 2)),
        ("spaces", " ".repeat(n)),
        ("lines", "\n ".repeat(n / 2)),
        ("digits", "7".repeat(n)),
        ("random", String::from_utf8_lossy(&bytes).into_owned()),
        ("marks", "e\u{301}\u{316}".repeat(n / 5)),
        ("added", "<s".repeat(n / 2)),
    ];
    let mut slowest = (Duration::ZERO, String::new());
    for (name, tokenizer) in every_kind() {
        for (kind, text) in &texts {
            let start = Instant::now();
            let ids = tokenizer.encode(text, Encode { add_special: true, parse_special: true });
            let encoded = start.elapsed();
            let _ = tokenizer.decode(&ids, true);
            assert!(start.elapsed() < Duration::from_secs(60), "{name} {kind}: {:?}", start.elapsed());
            if encoded > Duration::from_secs(1) {
                eprintln!("{name}, {kind}: {} bytes to {} ids in {encoded:?}", text.len(), ids.len());
            }
            slowest = slowest.max((encoded, format!("{name}, {kind}")));
        }
    }
    eprintln!("slowest: {slowest:?}");
}
