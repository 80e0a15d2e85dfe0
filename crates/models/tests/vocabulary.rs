//! Vocabularies that `convert` writes: our tokenizer and llama.cpp's give the ids from the GGUF file that `tokenizer.json` gives, or the
//! SentencePiece model or `vocab.txt` that is there instead.

mod common;

use common::{Outcome, folder, llama_cpp, python};
use onebit_formats::{Checkpoint, Meta};
use onebit_models::{Options, convert};
use onebit_text::{Encode, Tokenizer};
use serde_json::{Map, Value, json};
use std::{fs, path::Path};
use tempfile::TempDir;

/// Rows of the embedding table: some more than there are tokens.
const SIZE: usize = 320;

const TEXTS: [&str; 6] = ["the then in", " thethe  the\n\nin", "don't 1234 the", "<|end|>in<user>the", "é€ the", ""];

/// The character that stands for a byte in byte-level vocabularies.
fn character(byte: u8) -> char {
    let plain = |b: u8| matches!(b, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let moved = (0..byte).filter(|b| !plain(*b)).count() as u32;
    if plain(byte) { char::from(byte) } else { char::from_u32(256 + moved).expect("a character") }
}

fn added(id: usize, content: &str, special: bool) -> Value {
    json!({ "id": id, "content": content, "special": special, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false })
}

/// A byte-level vocabulary of 256 bytes, four merges, and added tokens; split as Qwen2 splits.
fn byte_level() -> Value {
    let mut vocabulary: Map<String, Value> = (0..=255u8).map(|b| (character(b).to_string(), json!(b))).collect();
    for (i, text) in ["Ġt", "he", "Ġthe", "in"].into_iter().enumerate() {
        vocabulary.insert(text.into(), json!(256 + i));
    }
    let regex = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    json!({
        "version": "1.0",
        "added_tokens": [added(260, "<|begin|>", true), added(261, "<|end|>", true), added(262, "<user>", false)],
        "normalizer": { "type": "NFC" },
        "pre_tokenizer": { "type": "Sequence", "pretokenizers": [
            { "type": "Split", "pattern": { "Regex": regex }, "behavior": "Isolated", "invert": false },
            { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false } ] },
        "post_processor": null,
        "decoder": { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false },
        "model": { "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,
            "fuse_unk": false, "byte_fallback": false, "ignore_merges": false, "vocab": vocabulary,
            "merges": [["Ġ", "t"], ["h", "e"], ["Ġt", "he"], ["i", "n"]] }
    })
}

/// A vocabulary as SentencePiece trains it, with bytes to fall back to, as Llama 2 has it.
fn sentence_piece() -> Value {
    let mut vocabulary = Map::new();
    for text in ["<unk>", "<|begin|>", "<|end|>"] {
        vocabulary.insert(text.into(), json!(vocabulary.len()));
    }
    for byte in 0..=255u8 {
        vocabulary.insert(format!("<0x{byte:02X}>"), json!(vocabulary.len()));
    }
    for text in ["▁", "t", "h", "e", "i", "n", "d", "o", "'", "▁t", "he", "▁the", "in", "th"] {
        vocabulary.insert(text.into(), json!(vocabulary.len()));
    }
    json!({
        "version": "1.0",
        "added_tokens": [added(0, "<unk>", true), added(1, "<|begin|>", true), added(2, "<|end|>", true)],
        "normalizer": { "type": "Sequence", "normalizers": [
            { "type": "Prepend", "prepend": "▁" },
            { "type": "Replace", "pattern": { "String": " " }, "content": "▁" } ] },
        "pre_tokenizer": null,
        "post_processor": { "type": "TemplateProcessing",
            "single": [{ "SpecialToken": { "id": "<|begin|>", "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } }],
            "pair": [{ "Sequence": { "id": "A", "type_id": 0 } }, { "Sequence": { "id": "B", "type_id": 1 } }],
            "special_tokens": { "<|begin|>": { "id": "<|begin|>", "ids": [1], "tokens": ["<|begin|>"] } } },
        "decoder": { "type": "Sequence", "decoders": [
            { "type": "Replace", "pattern": { "String": "▁" }, "content": " " },
            { "type": "ByteFallback" }, { "type": "Fuse" },
            { "type": "Strip", "content": " ", "start": 1, "stop": 0 } ] },
        "model": { "type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null, "end_of_word_suffix": null,
            "fuse_unk": true, "byte_fallback": true, "ignore_merges": false, "vocab": vocabulary,
            "merges": ["▁ t", "h e", "▁t he", "i n", "t h"] }
    })
}

/// A vocabulary of pieces with scores, as T5 has it. The rules, which SentencePiece compiled, make spaces of tabs and line feeds, `e` of
/// `é`, and `fi` of the ligature.
fn unigram() -> Value {
    let pieces =
        [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0), ("t", -3.0), ("h", -3.5), ("e", -3.0), ("i", -3.2), ("n", -3.1)];
    let more = [("d", -4.0), ("o", -4.1), ("'", -4.2), ("▁t", -3.9), ("he", -3.4), ("▁the", -2.5), ("in", -3.6), ("th", -4.4), ("f", -5.0)];
    let vocabulary = [pieces, more].concat();
    json!({
        "version": "1.0",
        "added_tokens": [added(0, "<pad>", true), added(1, "</s>", true), added(2, "<unk>", true), added(18, "<|end|>", true), added(19, "<user>", false)],
        "normalizer": { "type": "Precompiled", "precompiled_charsmap": include_str!("data/charsmap.txt").trim() },
        "pre_tokenizer": { "type": "Sequence", "pretokenizers": [
            { "type": "WhitespaceSplit" }, { "type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true } ] },
        "post_processor": { "type": "TemplateProcessing",
            "single": [{ "Sequence": { "id": "A", "type_id": 0 } }, { "SpecialToken": { "id": "</s>", "type_id": 0 } }],
            "pair": [{ "Sequence": { "id": "A", "type_id": 0 } }, { "Sequence": { "id": "B", "type_id": 1 } }],
            "special_tokens": { "</s>": { "id": "</s>", "ids": [1], "tokens": ["</s>"] } } },
        "decoder": { "type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true },
        "model": { "type": "Unigram", "unk_id": 2, "byte_fallback": false, "vocab": vocabulary }
    })
}

/// A model with the vocabulary, converted: the folder holds `model.gguf` too.
fn converted(tokenizer: &Value, config: Value) -> Outcome<TempDir> {
    let (tokenizer, config) = (serde_json::to_vec(tokenizer)?, serde_json::to_vec(&config)?);
    converted_with(SIZE, &[("tokenizer.json", tokenizer), ("tokenizer_config.json", config)])
}

/// The same of a model of `size` rows with these files beside it.
fn converted_with(size: usize, files: &[(&str, Vec<u8>)]) -> Outcome<TempDir> {
    let out = folder("llama", |config, tensors| {
        config.insert("vocab_size".into(), json!(size));
        config.insert("eos_token_id".into(), json!([2, 5]));
        for name in ["model.embed_tokens.weight", "lm_head.weight"] {
            let tensor = tensors.get_mut(name).expect("is there");
            tensor.shape[0] = size;
            tensor.bytes.resize(size * 64 * 2, 0);
        }
    })?;
    for (name, contents) in files {
        fs::write(out.path().join(name), contents)?;
    }
    let made = convert(&Checkpoint::open(out.path())?, &out.path().join("model.gguf"), &Options::default(), &mut |_| {})?;
    assert!(made.remarks.is_empty(), "{:?}", made.remarks);
    Ok(out)
}

/// All three give the same ids.
fn same_ids(folder: &Path) -> Outcome {
    let file = folder.join("model.gguf");
    let from_json = Tokenizer::from_json(
        &fs::read_to_string(folder.join("tokenizer.json"))?,
        Some(&fs::read_to_string(folder.join("tokenizer_config.json"))?),
    )?;
    let from_gguf = Tokenizer::from_checkpoint(&Checkpoint::open(&file)?)?;
    let options = Encode { add_special: true, parse_special: true };
    let python = python();
    for text in TEXTS {
        let ids = from_json.encode(text, options);
        assert_eq!(from_gguf.encode(text, options), ids, "{text:?}");
        if let Some(python) = &python {
            let printed = llama_cpp(python, &file, &["--text", text])?;
            let last = printed.lines().last().unwrap_or_default();
            let found = last.split_whitespace().map(str::parse).collect::<Result<Vec<u32>, _>>()?;
            assert_eq!(found, ids, "llama.cpp on {text:?}");
        }
    }
    Ok(())
}

#[test]
fn byte_level_vocabulary() -> Outcome {
    let config = json!({ "eos_token": "<|end|>", "bos_token": null, "chat_template": "{{ messages }}" });
    let folder = converted(&byte_level(), config)?;
    let made = Checkpoint::open(folder.path().join("model.gguf"))?;
    let text = |key: &str| made.metadata.text(key).ok().flatten();
    assert_eq!(text("tokenizer.ggml.model"), Some("gpt2"));
    assert_eq!(text("tokenizer.ggml.pre"), Some("qwen2"));
    assert_eq!(text("tokenizer.chat_template"), Some("{{ messages }}"));
    assert_eq!(made.metadata.unsigned("tokenizer.ggml.eos_token_id")?, Some(261));
    assert_eq!(made.metadata.unsigned("tokenizer.ggml.eot_token_id")?, Some(2));
    assert_eq!(made.metadata.bool("tokenizer.ggml.add_bos_token")?, Some(false));
    let kinds = made.metadata.integers("tokenizer.ggml.token_type")?.unwrap_or_default();
    assert_eq!((kinds.len(), &kinds[258..265]), (SIZE, &[1, 1, 3, 3, 4, 5, 5][..]));
    assert_eq!(made.metadata.texts("tokenizer.ggml.tokens")?.and_then(|t| t.get(263)), Some(&b"[PAD263]"[..]));
    same_ids(folder.path())
}

#[test]
fn sentence_piece_vocabulary() -> Outcome {
    let config = json!({ "bos_token": { "content": "<|begin|>" }, "eos_token": "<|end|>", "unk_token": "<unk>", "chat_template": [
        { "name": "default", "template": "d" }, { "name": "tool_use", "template": "t" } ] });
    let folder = converted(&sentence_piece(), config)?;
    let made = Checkpoint::open(folder.path().join("model.gguf"))?;
    let text = |key: &str| made.metadata.text(key).ok().flatten();
    assert_eq!(text("tokenizer.ggml.model"), Some("llama"));
    assert_eq!((text("tokenizer.chat_template"), text("tokenizer.chat_template.tool_use")), (Some("d"), Some("t")));
    assert_eq!(made.metadata.bool("tokenizer.ggml.add_bos_token")?, Some(true));
    assert_eq!(made.metadata.bool("tokenizer.ggml.add_space_prefix")?, Some(true));
    let kinds = made.metadata.integers("tokenizer.ggml.token_type")?.unwrap_or_default();
    assert_eq!(&kinds[..5], [2, 3, 3, 6, 6]);
    let Some(Meta::Floats(scores)) = made.metadata.get("tokenizer.ggml.scores") else { return Err("no scores".into()) };
    let id = |text: &str| {
        (0..SIZE).find(|i| made.metadata.texts("tokenizer.ggml.tokens").ok().flatten().and_then(|t| t.get(*i)) == Some(text.as_bytes()))
    };
    let score = |text: &str| id(text).map(|i| scores[i]);
    assert_eq!((score("▁t"), score("▁the"), score("th"), score("o")), (Some(0.0), Some(-2.0), Some(-4.0), Some(-5.0)));
    same_ids(folder.path())
}

#[test]
fn unigram_vocabulary() -> Outcome {
    let config = json!({ "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>" });
    let folder = converted(&unigram(), config)?;
    let made = Checkpoint::open(folder.path().join("model.gguf"))?;
    assert_eq!(made.metadata.text("tokenizer.ggml.model")?, Some("t5"));
    for (key, id) in [("eos", 1), ("unknown", 2), ("padding", 0)] {
        assert_eq!(made.metadata.unsigned(&format!("tokenizer.ggml.{key}_token_id"))?, Some(id));
    }
    for (key, flag) in [("add_space_prefix", true), ("remove_extra_whitespaces", true), ("add_eos_token", true), ("add_bos_token", false)] {
        assert_eq!(made.metadata.bool(&format!("tokenizer.ggml.{key}"))?, Some(flag), "{key}");
    }
    let kinds = made.metadata.integers("tokenizer.ggml.token_type")?.unwrap_or_default();
    assert_eq!((&kinds[..4], &kinds[17..21]), (&[3, 3, 2, 1][..], &[1, 3, 4, 5][..]));
    let Some(Meta::Floats(scores)) = made.metadata.get("tokenizer.ggml.scores") else { return Err("no scores".into()) };
    assert_eq!((scores.len(), scores[14], scores[300]), (SIZE, -2.5, -10_000.0));
    same_ids(folder.path())
}

/// Steps that GGUF has no way to say.
#[test]
fn unigrams_that_are_refused() -> Outcome {
    let refused = |at: &str, value: Value| -> Outcome<String> {
        let mut tokenizer = unigram();
        *tokenizer.pointer_mut(at).ok_or("no such key")? = value;
        Ok(converted(&tokenizer, json!({})).err().map_or_else(|| "nothing".into(), |e| e.to_string()))
    };
    for (at, value, part) in [
        ("/normalizer", json!({ "type": "Lowercase" }), "`normalizer` has the step \"Lowercase\""),
        ("/normalizer/precompiled_charsmap", json!("a*"), "`normalizer` has rules that are not base64"),
        ("/pre_tokenizer/pretokenizers/0", json!({ "type": "Digits" }), "`pre_tokenizer` has the step \"Digits\""),
        ("/model/byte_fallback", json!(true), "`model.byte_fallback` is true"),
        ("/model/vocab/3", json!(["a", "b"]), "`model.vocab` has no score at 3"),
        ("/model/vocab/3", json!([1, 2]), "`model.vocab` has no text at 3"),
        ("/model/vocab", json!("none"), "`model.vocab` is no object and no list"),
    ] {
        let found = refused(at, value)?;
        assert!(found.contains(part), "{at}: {found}");
    }
    Ok(())
}

#[test]
fn what_has_no_name_is_refused() -> Outcome {
    let mut tokenizer = byte_level();
    tokenizer["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = json!(r"\w+");
    let error = converted(&tokenizer, json!({})).map(|_| ()).map_err(|e| e.to_string());
    assert!(error.as_ref().is_err_and(|e| e.contains("tokenizer.json: `pre_tokenizer` has no name in GGUF")), "{error:?}");
    let mut tokenizer = byte_level();
    tokenizer["model"]["vocab"]["far"] = json!(SIZE);
    let error = converted(&tokenizer, json!({})).map(|_| ()).map_err(|e| e.to_string());
    assert!(error.as_ref().is_err_and(|e| e.contains("gives `far` an id that the model's 320 tokens do not reach")), "{error:?}");
    Ok(())
}

/// The small vocabularies of the text crate that are no `tokenizer.json`, with the ids that their own libraries gave.
fn of_other_files() -> Outcome<Vec<Value>> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../text/tests/data/vocabularies.json"))?;
    Ok(serde_json::from_str(&text)?)
}

/// The files of one of them.
fn files(entry: &Value) -> Outcome<Vec<(&str, Vec<u8>)>> {
    let mut files = vec![];
    for (name, contents) in entry["files"].as_object().into_iter().flatten() {
        files.push((name.as_str(), contents.as_str().ok_or("a text")?.into()));
    }
    for (name, contents) in entry["binary"].as_object().into_iter().flatten() {
        let text = contents.as_str().ok_or("a text")?;
        files.push((name.as_str(), onebit_text::tokenizer::base64::decode(text.as_bytes()).ok_or("base64")?));
    }
    Ok(files)
}

/// Folders that bring a SentencePiece model or `vocab.txt` instead of `tokenizer.json`: the file gives the ids that sentencepiece and
/// transformers give, and llama.cpp gives them too; or what it could not say is named.
#[test]
fn vocabularies_of_other_files() -> Outcome {
    let mut found = vec![];
    for entry in of_other_files()? {
        let name = entry["name"].as_str().ok_or("a name")?;
        let mut files = files(&entry)?;
        if name.starts_with("unigram") {
            // As T5's are called.
            files.iter_mut().for_each(|(name, _)| *name = "spiece.model");
        }
        let refused = match name {
            "unigram to bytes, user-defined symbols" => "spiece.model: `trainer_spec.byte_fallback` is true",
            "bpe" | "bpe, user-defined symbols" => "tokenizer.model: `normalizer_spec.remove_extra_whitespaces` is true",
            "bpe, spaces behind" => "tokenizer.model: `trainer_spec.treat_whitespace_as_suffix` is true",
            "bert, cased" => "vocab.txt: `normalizer.handle_chinese_chars` is false",
            // Not yet: the file has no vocabulary, and `convert` says so.
            "qwen" | "kimi" | "glm4" | "tekken" => continue,
            _ => "",
        };
        let made = converted_with(800, &files);
        if !refused.is_empty() {
            let error = made.map(|_| String::new()).unwrap_or_else(|e| e.to_string());
            assert!(error.contains(refused), "{name}: {error:?}");
            continue;
        }
        let file = made.map_err(|e| format!("{name}: {e}"))?;
        same_as_their_own(name, &entry["rows"], &file.path().join("model.gguf"), file.path())?;
        found.push(name.to_owned());
    }
    assert_eq!(found, ["unigram", "unigram, white space as it is", "bpe to bytes", "bert", "bert, accents kept"]);
    Ok(())
}

/// Ids of the texts in `rows` by the file, beside those of the folder that it was made of.
fn same_as_their_own(name: &str, rows: &Value, file: &Path, folder: &Path) -> Outcome {
    let (of_file, of_folder) = (Checkpoint::open(file)?, Checkpoint::open(folder.join("model.safetensors"))?);
    let (ours, theirs) = (Tokenizer::from_checkpoint(&of_file)?, Tokenizer::from_checkpoint(&of_folder)?);
    let whole = Encode { add_special: true, parse_special: true };
    let mut asked = 0;
    for row in rows.as_array().into_iter().flatten() {
        let text = row["text"].as_str().ok_or("a text")?;
        let want: Vec<u32> = row["ids"].as_array().into_iter().flatten().filter_map(Value::as_u64).map(|id| id as u32).collect();
        assert_eq!(ours.encode(text, Encode::default()), want, "{name}: {text:?}");
        // The unknown token is read in a text only by those who read GGUF files.
        let whole = if text.to_lowercase().contains("unk") { Encode { add_special: true, ..Encode::default() } } else { whole };
        assert_eq!(ours.encode(text, whole), theirs.encode(text, whole), "{name}: {text:?} with what stands around it");
        // llama.cpp takes marks and Hangul apart in its own way.
        if let Some(python) = python().filter(|_| text.is_ascii() && !text.is_empty() && asked < 6) {
            let printed = llama_cpp(&python, file, &["--text", text])?;
            let ids = printed.lines().last().unwrap_or_default().split_whitespace().map(str::parse).collect::<Result<Vec<u32>, _>>()?;
            assert_eq!(ids, ours.encode(text, whole), "llama.cpp on {name}: {text:?}");
            asked += 1;
        }
    }
    for role in [Tokenizer::bos, |t: &Tokenizer| t.eos().first().copied()] {
        // GGUF files call BERT's `[CLS]` a beginning.
        assert!(name.starts_with("bert") || role(&ours) == role(&theirs), "{name}");
    }
    Ok(())
}

/// T5's ends, and tokens that only the files beside the model name.
#[test]
fn tokens_beside_a_sentence_piece_model() -> Outcome {
    let entry = of_other_files()?.into_iter().find(|entry| entry["name"] == "unigram").ok_or("no such entry")?;
    let mut files = files(&entry)?;
    files[0].0 = "spiece.model";
    let config = json!({ "tokenizer_class": "T5Tokenizer", "pad_token": "<unk>", "additional_special_tokens": ["<extra_id_0>"], "chat_template": "x",
        "added_tokens_decoder": { "300": { "content": "<extra_id_0>", "special": true }, "301": { "content": "<note>", "special": false } } });
    files.push(("tokenizer_config.json", serde_json::to_vec(&config)?));
    let folder = converted_with(SIZE, &files)?;
    let made = Checkpoint::open(folder.path().join("model.gguf"))?;
    for (key, flag) in [("add_bos_token", false), ("add_eos_token", true), ("add_space_prefix", true), ("remove_extra_whitespaces", true)] {
        assert_eq!(made.metadata.bool(&format!("tokenizer.ggml.{key}"))?, Some(flag), "{key}");
    }
    for (key, text) in [("eos", "</s>"), ("bos", "<s>"), ("unknown", "<unk>"), ("padding", "<unk>")] {
        let id = made.metadata.unsigned(&format!("tokenizer.ggml.{key}_token_id"))?.ok_or(key)? as usize;
        assert_eq!(made.metadata.texts("tokenizer.ggml.tokens")?.and_then(|t| t.get(id)), Some(text.as_bytes()), "{key}");
    }
    assert_eq!(made.metadata.text("tokenizer.chat_template")?, Some("x"));
    let kinds = made.metadata.integers("tokenizer.ggml.token_type")?.unwrap_or_default();
    assert_eq!(kinds[299..303], [5, 3, 4, 5]);
    same_as_their_own("unigram", &json!([]), &folder.path().join("model.gguf"), folder.path())?;
    let tokenizer = Tokenizer::from_checkpoint(&made)?;
    let ids = tokenizer.encode("the<extra_id_0>the<note>", Encode { add_special: true, parse_special: true });
    assert!(ids.contains(&300) && ids.contains(&301) && ids.last() == tokenizer.id("</s>").as_ref(), "{ids:?}");
    // More tokens than rows.
    let error = converted_with(301, &files).map(|_| String::new()).unwrap_or_else(|e| e.to_string());
    assert!(error.contains("spiece.model: `pieces` and added tokens are 302, more than the 301 rows"), "{error:?}");
    Ok(())
}

/// Steps around WordPiece that GGUF has no way to say.
#[test]
fn word_pieces_that_are_refused() -> Outcome {
    let bert = json!({
        "added_tokens": [added(0, "[PAD]", true), added(1, "[UNK]", true), added(2, "[CLS]", true), added(3, "[SEP]", true)],
        "normalizer": { "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true },
        "pre_tokenizer": { "type": "BertPreTokenizer" },
        "post_processor": { "type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2] },
        "decoder": { "type": "WordPiece", "prefix": "##", "cleanup": true },
        "model": { "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
            "vocab": { "[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "the": 4, "t": 5, "##he": 6, "##n": 7, "in": 8, "don": 9, "'": 10 } }
    });
    same_ids(converted(&bert, json!({ "cls_token": "[CLS]" }))?.path())?;
    let mut cased = bert.clone();
    cased["normalizer"]["lowercase"] = json!(false);
    same_ids(converted(&cased, json!({}))?.path())?;
    for (at, value, part) in [
        ("/normalizer", json!({ "type": "Lowercase" }), "`normalizer.type` is \"Lowercase\""),
        ("/normalizer/clean_text", json!(false), "`normalizer.clean_text` is false"),
        ("/normalizer/handle_chinese_chars", json!(false), "`normalizer.handle_chinese_chars` is false"),
        ("/pre_tokenizer", json!({ "type": "Whitespace" }), "`pre_tokenizer.type` is \"Whitespace\""),
        ("/model/continuing_subword_prefix", json!("@@"), "`model.continuing_subword_prefix` is \"@@\""),
        ("/model/max_input_chars_per_word", json!(20), "`model.max_input_chars_per_word` is 20"),
    ] {
        let mut tokenizer = bert.clone();
        *tokenizer.pointer_mut(at).ok_or("no such key")? = value;
        let error = converted(&tokenizer, json!({})).map(|_| String::new()).unwrap_or_else(|e| e.to_string());
        assert!(error.contains(part), "{at}: {error:?}");
    }
    Ok(())
}
