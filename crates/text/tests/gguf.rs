//! Vocabularies as GGUF files hold them.
#![allow(clippy::unwrap_used)]

mod common;

use common::{data, ids, json, metadata_only, published};
use onebit_formats::{Checkpoint, Meta, Texts};
use onebit_text::{ChatTemplate, Encode, Render, Tokenizer};
use serde_json::Value;
use std::collections::BTreeMap;

const BARE: Encode = Encode { add_special: false, parse_special: true };
const WHOLE: Encode = Encode { add_special: true, parse_special: true };
const PLAIN: Encode = Encode { add_special: false, parse_special: false };

fn texts<'a>(all: impl IntoIterator<Item = &'a str>) -> Meta {
    let mut texts = Texts::default();
    all.into_iter().for_each(|text| texts.push(text.as_bytes()));
    Meta::Texts(texts)
}

fn checkpoint(pairs: impl IntoIterator<Item = (&'static str, Meta)>) -> Checkpoint {
    metadata_only(pairs.into_iter().map(|(k, v)| (format!("tokenizer.{k}"), v)).collect())
}

/// The vocabulary of a `tokenizer.json` as llama.cpp's converter would write it.
fn convert(spec: &Value, pre: &str) -> Vec<(&'static str, Meta)> {
    let mut tokens: BTreeMap<u64, (&str, i64)> = BTreeMap::new();
    for (text, id) in spec["model"]["vocab"].as_object().unwrap() {
        tokens.insert(id.as_u64().unwrap(), (text, 1));
    }
    for token in spec["added_tokens"].as_array().unwrap() {
        let kind = if token["special"].as_bool().unwrap() { 3 } else { 4 };
        tokens.insert(token["id"].as_u64().unwrap(), (token["content"].as_str().unwrap(), kind));
    }
    let merges: Vec<String> = spec["model"]["merges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| format!("{} {}", m[0].as_str().unwrap(), m[1].as_str().unwrap()))
        .collect();
    vec![
        ("ggml.model", Meta::Text("gpt2".into())),
        ("ggml.pre", Meta::Text(pre.into())),
        ("ggml.tokens", texts(tokens.values().map(|(text, _)| *text))),
        ("ggml.token_type", Meta::Integers(tokens.values().map(|(_, kind)| *kind).collect())),
        ("ggml.merges", texts(merges.iter().map(String::as_str))),
    ]
}

#[test]
fn byte_level_as_tokenizer_json() {
    let entries = json(&data("tokenizers.json"));
    for (name, pre) in [
        ("qwen3", "qwen2"),
        ("qwen3.5", "qwen35"),
        ("llama3", "llama-bpe"),
        ("o200k", "gpt-4o"),
        ("deepseek", "deepseek-v3"),
        ("smollm", "smollm"),
    ] {
        let entry = entries.as_array().unwrap().iter().find(|e| e["name"] == name).unwrap();
        let tokenizer = Tokenizer::from_checkpoint(&checkpoint(convert(&entry["tokenizer"], pre))).unwrap();
        let mut rows = 0;
        for row in entry["rows"].as_array().unwrap() {
            let text = row["text"].as_str().unwrap();
            // GGUF does not say that a token takes spaces, or is no part of a word, or is looked for in normalized text.
            if text.contains("<mask>") || text.contains("tool") || text.contains("acute") {
                continue;
            }
            assert_eq!(tokenizer.encode(text, BARE), ids(&row["ids"]), "{name}: {text:?}");
            assert_eq!(tokenizer.encode(text, PLAIN), ids(&row["plain"]), "{name}: {text:?}");
            assert_eq!(tokenizer.decode(&ids(&row["special"]), false), row["decoded"].as_str().unwrap(), "{name}");
            rows += 1;
        }
        assert!(rows > 30);
    }
}

#[test]
fn beginning_and_end() {
    let entries = json(&data("tokenizers.json"));
    let spec = &entries[0]["tokenizer"];
    let id = |text: &str| spec["added_tokens"].as_array().unwrap().iter().find(|t| t["content"] == text).unwrap()["id"].as_u64().unwrap();
    let (bos, eos, end) = (id("<s>"), id("</s>"), id("<|im_end|>"));
    let with = |pre: &str, more: &[(&'static str, Meta)]| {
        let mut pairs = convert(spec, pre);
        pairs.push(("ggml.bos_token_id", Meta::Unsigned(bos)));
        pairs.push(("ggml.eos_token_id", Meta::Unsigned(eos)));
        pairs.extend_from_slice(more);
        Tokenizer::from_checkpoint(&checkpoint(pairs))
    };
    let tokenizer = with("qwen2", &[]).unwrap();
    assert_eq!(tokenizer.bos(), Some(bos as u32));
    assert_eq!(tokenizer.eos(), [eos as u32, end as u32]);
    assert_eq!(tokenizer.encode("", WHOLE), [0u32; 0]);
    assert_eq!(with("llama-bpe", &[]).unwrap().encode("", WHOLE), [bos as u32]);
    assert_eq!(with("llama-bpe", &[("ggml.add_bos_token", Meta::Bool(false))]).unwrap().encode("", WHOLE), [0u32; 0]);
    let both = [("ggml.add_bos_token", Meta::Bool(true)), ("ggml.add_eos_token", Meta::Bool(true))];
    assert_eq!(with("qwen2", &both).unwrap().encode("", WHOLE), [bos as u32, eos as u32]);
    assert_eq!(with("qwen2", &both).unwrap().encode("", BARE), [0u32; 0]);
    let eot = with("qwen2", &[("ggml.eot_token_id", Meta::Unsigned(0))]).unwrap();
    assert_eq!(eot.eos(), [eos as u32, 0, end as u32]);
}

#[test]
fn sentence_piece() {
    let model = json(&data("sentencepiece.json"));
    let list = |name: &str| model[name].as_array().unwrap().clone();
    let pieces: Vec<String> = list("pieces").iter().map(|p| p.as_str().unwrap().to_owned()).collect();
    let tokenizer = Tokenizer::from_checkpoint(&checkpoint([
        ("ggml.model", Meta::Text("llama".into())),
        ("ggml.tokens", texts(pieces.iter().map(String::as_str))),
        ("ggml.scores", Meta::Floats(list("scores").iter().map(|s| s.as_f64().unwrap() as f32).collect())),
        ("ggml.token_type", Meta::Integers(list("kinds").iter().map(|k| k.as_i64().unwrap()).collect())),
        ("ggml.unknown_token_id", Meta::Unsigned(0)),
        ("ggml.bos_token_id", Meta::Unsigned(1)),
        ("ggml.eos_token_id", Meta::Unsigned(2)),
    ]))
    .unwrap();
    for row in list("rows") {
        let text = row["text"].as_str().unwrap();
        let got = tokenizer.encode(text, PLAIN);
        assert_eq!(got, ids(&row["ids"]), "{text:?}");
        assert_eq!(tokenizer.decode(&got, false), row["decoded"].as_str().unwrap(), "{text:?}");
    }
    assert_eq!(tokenizer.encode("", WHOLE), [1]);
    assert_eq!(tokenizer.encode("<s></s>", BARE), [1, 2]);
    assert!(tokenizer.encode("<s>", PLAIN).len() > 1);
}

/// Kinds that only GGUF has, or has its own way: llama.cpp does the same (`tests/data/make_gguf.py`).
#[test]
fn kinds_of_llama_cpp() {
    let mut rows = 0;
    for entry in json(&data("gguf.json")).as_array().unwrap() {
        let name = entry["name"].as_str().unwrap();
        let tokenizer = Tokenizer::from_checkpoint(&common::gguf(entry)).unwrap_or_else(|e| panic!("{name}: {e}"));
        for row in entry["rows"].as_array().unwrap() {
            let text = row["text"].as_str().unwrap();
            assert_eq!(tokenizer.encode(text, PLAIN), ids(&row["ids"]), "{name}: {text:?}");
            let whole = Encode { add_special: true, parse_special: false };
            assert_eq!(tokenizer.encode(text, whole), ids(&row["special"]), "{name}, with special tokens: {text:?}");
            if name == "rwkv" || name == "plamo2" {
                assert_eq!(tokenizer.decode(&ids(&row["ids"]), false), text.strip_prefix('\u{feff}').unwrap_or(text), "{name}");
            }
            rows += 1;
        }
    }
    assert!(rows > 130, "{rows}");
}

/// A file without a vocabulary has ids, but no text.
#[test]
fn no_vocabulary() {
    let with = |size: u64| {
        let mut checkpoint = checkpoint([("ggml.model", Meta::Text("none".into()))]);
        checkpoint.metadata.pairs.insert("general.architecture".into(), Meta::Text("llama".into()));
        checkpoint.metadata.pairs.insert("llama.vocab_size".into(), Meta::Unsigned(size));
        Tokenizer::from_checkpoint(&checkpoint)
    };
    let tokenizer = with(300).unwrap();
    assert_eq!((tokenizer.len(), tokenizer.encode("text", WHOLE), tokenizer.decode(&[1, 2], false)), (300, vec![], String::new()));
    assert!(with(1 << 40).unwrap_err().to_string().contains("`llama.vocab_size` is more than"));
}

/// The real file: llama.cpp and the Python package agree on these (`tests/data/make_smollm2.py`).
#[test]
fn smollm2() {
    let Some(path) = published("SmolLM2-135M-Instruct.Q4_1.gguf") else { return };
    let checkpoint = Checkpoint::open(&path).unwrap();
    let tokenizer = Tokenizer::from_checkpoint(&checkpoint).unwrap();
    for row in json(&data("smollm2.json"))["rows"].as_array().unwrap() {
        let text = row["text"].as_str().unwrap();
        assert_eq!(tokenizer.encode(text, WHOLE), ids(&row["ids"]), "{text:?}");
        assert_eq!(tokenizer.decode(&ids(&row["ids"]), false), text);
    }
    assert_eq!((tokenizer.len(), tokenizer.bos()), (49152, Some(1)));
    assert_eq!(tokenizer.eos(), [2, 0]);
    let template = ChatTemplate::from_checkpoint(&checkpoint, &tokenizer).unwrap().unwrap();
    let options = Render { add_generation_prompt: true, ..Render::default() };
    let text = template.render(&serde_json::json!([{"role": "user", "content": "Hi"}]), &options).unwrap();
    assert_eq!(
        text,
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    );
}

#[test]
fn templates_by_name() {
    let entries = json(&data("tokenizers.json"));
    let mut pairs = convert(&entries[0]["tokenizer"], "qwen2");
    pairs.push(("ggml.bos_token_id", Meta::Unsigned(0)));
    pairs.push(("chat_template", Meta::Text("plain{{ bos_token }}{{ eos_token }}".into())));
    pairs.push(("chat_template.tool_use", Meta::Text("tools: {{ tools | length }}".into())));
    pairs.push(("chat_templates", texts(["tool_use"])));
    let checkpoint = checkpoint(pairs);
    let tokenizer = Tokenizer::from_checkpoint(&checkpoint).unwrap();
    let template = ChatTemplate::from_checkpoint(&checkpoint, &tokenizer).unwrap().unwrap();
    let messages = serde_json::json!([{"role": "user", "content": ""}]);
    let render = |options: Render| template.render(&messages, &options);
    assert_eq!(render(Render::default()).unwrap(), format!("plain{}", tokenizer.token_text(0).unwrap()));
    assert_eq!(render(Render { tools: Some(serde_json::json!([1, 2])), ..Render::default() }).unwrap(), "tools: 2");
    let error = render(Render { name: Some("rag".into()), ..Render::default() }).unwrap_err().to_string();
    assert!(error.contains("`rag`") && error.contains("default, tool_use"), "{error}");
    assert_eq!(template.names().collect::<Vec<_>>(), ["default", "tool_use"]);
    assert!(template.source().starts_with("plain"));
    let replaced = ChatTemplate::replaced(&checkpoint, &tokenizer, "mine{{ bos_token }}").unwrap();
    assert_eq!(replaced.render(&messages, &Render::default()).unwrap(), format!("mine{}", tokenizer.token_text(0).unwrap()));
    assert_eq!(replaced.names().collect::<Vec<_>>(), ["default"]);
}

/// Each is refused with a message that names the field.
#[test]
fn refused() {
    let entries = json(&data("tokenizers.json"));
    let good = || convert(&entries[0]["tokenizer"], "qwen2").into_iter().collect::<BTreeMap<_, _>>();
    let tokens = match &good()["ggml.tokens"] {
        Meta::Texts(tokens) => tokens.len(),
        _ => 0,
    };
    let twice = texts(["a", "b", "a"]);
    for (key, value, names) in [
        ("ggml.model", Some(Meta::Text("hybriddna".into())), "`tokenizer.ggml.model` = `hybriddna`"),
        ("ggml.model", None, "no `tokenizer.ggml.model`"),
        ("ggml.model", Some(Meta::Unsigned(1)), "tokenizer.ggml.model"),
        ("ggml.pre", Some(Meta::Text("gpt-5".into())), "`tokenizer.ggml.pre` = `gpt-5`"),
        ("ggml.pre", None, "no `tokenizer.ggml.pre`"),
        ("ggml.tokens", None, "no `tokenizer.ggml.tokens`"),
        ("ggml.tokens", Some(Meta::Integers(vec![1])), "tokenizer.ggml.tokens"),
        ("ggml.tokens", Some(twice), "`a` twice, at 0 and 2"),
        ("ggml.token_type", Some(Meta::Integers(vec![1])), "`tokenizer.ggml.token_type` has 1 entries"),
        ("ggml.merges", None, "no `tokenizer.ggml.merges`"),
        ("ggml.merges", Some(texts(["Ġ nosuchtoken"])), "merge 0 names `nosuchtoken`"),
        ("ggml.merges", Some(texts(["a b", "q z q"])), "merge "),
        ("ggml.merges", Some(texts([" "])), "merge 0 should be two tokens"),
        ("ggml.bos_token_id", Some(Meta::Unsigned(1 << 40)), "`tokenizer.ggml.bos_token_id` is 1099511627776"),
        ("ggml.eos_token_id", Some(Meta::Unsigned(tokens as u64)), "`tokenizer.ggml.eos_token_id`"),
        ("ggml.eos_token_id", Some(Meta::Text("</s>".into())), "tokenizer.ggml.eos_token_id"),
        ("ggml.add_bos_token", Some(Meta::Unsigned(1)), "tokenizer.ggml.add_bos_token"),
    ] {
        let mut pairs = good();
        match value {
            Some(value) => pairs.insert(key, value),
            None => pairs.remove(key),
        };
        if key == "ggml.tokens" {
            pairs.remove("ggml.token_type");
        }
        let error = Tokenizer::from_checkpoint(&checkpoint(pairs)).expect_err(key).to_string();
        assert!(error.contains(names) && error.contains("test.gguf"), "{key}: {error}");
    }
}

#[test]
fn refused_scores() {
    let with = |scores: Vec<f32>| {
        checkpoint([
            ("ggml.model", Meta::Text("llama".into())),
            ("ggml.tokens", texts(["<unk>", "a", "b", "ab", "<0x-1>", "<0xGG>", "<0x41>"])),
            ("ggml.token_type", Meta::Integers(vec![2, 1, 1, 1, 6, 6, 6])),
            ("ggml.unknown_token_id", Meta::Unsigned(0)),
            ("ggml.scores", Meta::Floats(scores)),
        ])
    };
    for (scores, names) in [(vec![0.0; 3], "`tokenizer.ggml.scores` has 3 entries for 7 tokens"), (vec![f32::NAN; 7], "score of token 0")] {
        let error = Tokenizer::from_checkpoint(&with(scores)).unwrap_err().to_string();
        assert!(error.contains(names), "{error}");
    }
    // Byte tokens that are none stand for their text.
    let tokenizer = Tokenizer::from_checkpoint(&with(vec![0.0; 7])).unwrap();
    assert_eq!(tokenizer.decode(&[4, 5, 6], false), "<0x-1><0xGG>A");
    assert_eq!(tokenizer.encode("abA\u{e9}", PLAIN), [0, 3, 6, 0]);
}
