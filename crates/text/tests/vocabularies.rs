//! Small vocabularies in files other than `tokenizer.json` against what their own libraries do with them
//! (`tests/data/make_vocabularies.py`).
#![allow(clippy::unwrap_used)]

mod common;

use common::{Folder, ids, vocabularies};
use onebit_text::{Encode, Tokenizer};
use std::{fs, sync::Arc};

const PLAIN: Encode = Encode { add_special: false, parse_special: false };
const BARE: Encode = Encode { add_special: false, parse_special: true };
const WHOLE: Encode = Encode { add_special: true, parse_special: true };

#[test]
fn same_as_the_reference() {
    let mut rows = 0;
    for entry in vocabularies() {
        let name = entry["name"].as_str().unwrap();
        let folder = Folder::of(&entry);
        let tokenizer = Arc::new(Tokenizer::from_checkpoint(&folder.checkpoint()).unwrap_or_else(|e| panic!("{name}: {e}")));
        for row in entry["rows"].as_array().unwrap() {
            let text = row["text"].as_str().unwrap();
            let want = ids(&row["ids"]);
            let got = tokenizer.encode(text, PLAIN);
            let show = |ids: &[u32]| ids.iter().map(|&id| tokenizer.token_text(id).unwrap_or_default().into_owned()).collect::<Vec<_>>();
            assert_eq!(got, want, "{name}, {text:?}: {:?} instead of {:?}", show(&got), show(&want));
            let decoded = row["decoded"].as_str().unwrap();
            assert_eq!(tokenizer.decode(&want, false), decoded, "{name}, decoded {text:?}");
            let mut decoder = tokenizer.decoder(false);
            let mut parts: String = want.iter().map(|&id| decoder.push(id).to_owned()).collect();
            parts.push_str(decoder.finish());
            assert_eq!(parts, decoded, "{name}, {text:?} one by one");
            rows += 1;
        }
    }
    assert!(rows > 650, "{rows}");
}

/// What stands before and after texts, and what ends them.
#[test]
fn special_tokens() {
    let find = |name: &str| vocabularies().into_iter().find(|entry| entry["name"] == name).unwrap();
    let read = |name: &str, config: &str| {
        let folder = Folder::of(&find(name));
        if !config.is_empty() {
            fs::write(folder.path().join("tokenizer_config.json"), config).unwrap();
        }
        Tokenizer::from_checkpoint(&folder.checkpoint()).unwrap()
    };
    let texts = |tokenizer: &Tokenizer, text: &str, options| {
        tokenizer.encode(text, options).iter().map(|&id| tokenizer.token_text(id).unwrap().into_owned()).collect::<Vec<_>>()
    };
    let bert = read("bert", "");
    assert_eq!(texts(&bert, "the [MASK]", WHOLE), ["[CLS]", "the", "[MASK]", "[SEP]"]);
    assert_eq!(bert.decode(&bert.encode("the [MASK]", WHOLE), false), "[CLS] the [MASK] [SEP]");
    assert_eq!(bert.decode(&bert.encode("the [MASK]", WHOLE), true), "the");
    let glm = read("glm4", "");
    assert_eq!(texts(&glm, "a<sop>", WHOLE), ["[gMASK]", "<sop>", "a", "<sop>"]);
    assert_eq!(glm.eos(), [glm.id("<|endoftext|>").unwrap()]);
    let qwen = read("qwen", "");
    assert_eq!(texts(&qwen, "<|im_end|><|extra_204|>", WHOLE), ["<|im_end|>", "<|extra_204|>"]);
    assert_eq!(qwen.eos(), [qwen.id("<|im_end|>").unwrap(), qwen.id("<|endoftext|>").unwrap()]);
    let kimi = read("kimi", "");
    assert_eq!(kimi.bos(), kimi.id("[BOS]"));
    assert_eq!(kimi.id("<|reserved_token_423|>"), Some(423));
    let tekken = read("tekken", "");
    assert_eq!(texts(&tekken, "[INST]<SPECIAL_39>", WHOLE), ["<s>", "[INST]", "<SPECIAL_39>"]);
    assert_eq!((tekken.bos(), tekken.eos()), (Some(1), &[2][..]));

    let name = "unigram to bytes, user-defined symbols";
    let piece = read(name, "");
    assert_eq!(texts(&piece, "the<mask><|im_start|>", WHOLE), ["<s>", "▁the", "<mask>", "<|im_start|>"]);
    assert_eq!(texts(&piece, "the<s>the", BARE), ["▁the", "<s>", "▁the"]);
    let later = read(name, r#"{"legacy": false, "add_bos_token": false, "add_eos_token": true}"#);
    assert_eq!(texts(&later, "the<s>the", WHOLE)[..2], ["▁the", "<s>"]);
    assert_ne!(texts(&later, "the<s>the", WHOLE)[2], "▁the");
    assert_eq!(texts(&later, "", WHOLE), ["</s>"]);
    let t5 = read(name, r#"{"tokenizer_class": "T5Tokenizer"}"#);
    assert_eq!(texts(&t5, "the", WHOLE), ["▁the", "</s>"]);
    // What the configuration calls special is no text unless asked, though the model itself would find it.
    let mask = piece.id("<mask>").unwrap();
    let special = read(name, &format!(r#"{{"added_tokens_decoder": {{"{mask}": {{"content": "<mask>", "special": true}}}}}}"#));
    assert!(piece.encode("<mask>", PLAIN).contains(&mask) && !special.encode("<mask>", PLAIN).contains(&mask));
    assert!(special.encode("<mask>", BARE).contains(&mask));
}

/// Each is refused with a message that names the file and what is wrong.
#[test]
fn refused() {
    let all = vocabularies();
    let find = |name: &str| all.iter().find(|entry| entry["name"] == name).unwrap();
    let spm = Folder::of(find("unigram")).read("tokenizer.model");
    for (base, file, contents, names) in [
        ("unigram", "tokenizer_config.json", br#"{"tokenizer_class": "XLMRobertaTokenizer"}"#.to_vec(), "`XLMRobertaTokenizer`"),
        ("unigram", "tokenizer.model", b"".to_vec(), "no SentencePiece model"),
        ("unigram", "tokenizer.model", b"<html>".to_vec(), "protocol buffer"),
        ("unigram", "tokenizer.model", spm[..spm.len() / 2].to_vec(), "protocol buffer"),
        ("unigram", "tokenizer.model", [&spm[..], b"\x12\x02\x18\x03"].concat(), "`WORD`"),
        ("unigram", "tokenizer.model", [&spm[..], b"\x12\x02\x18\x09"].concat(), "`model_type` is 9"),
        ("unigram", "tokenizer.model", [&spm[..], b"\x0a\x00"].concat(), "has no text"),
        ("unigram", "tokenizer.model", [&spm[..], b"\x0a\x05\x0a\x01z\x18\x09"].concat(), "unknown kind 9"),
        ("unigram", "tokenizer.model", [&spm[..], b"\x0a\x03\x0a\x01\xff"].concat(), "not UTF-8"),
        ("unigram", "tokenizer.model", [&spm[..], b"\x0a\x05\x0a\x03<s>"].concat(), "`<s>` has two ids"),
        ("unigram", "tokenizer.model", [&spm[..], b"\x0a\x05\x0a\x01\x02\x18\x02"].concat(), "one unknown token"),
        ("unigram", "tokenizer.model", [&spm[..], b"\x0a\x08\x0a\x01\x01\x15\x00\x00\x80\x7f"].concat(), "is inf"),
        ("unigram", "tokenizer.model", [&spm[..], b"\x2a\x03\x12\x01x"].concat(), "`denormalizer_spec`"),
        ("unigram", "added_tokens.json", b"[]".to_vec(), "added_tokens.json"),
        ("unigram", "added_tokens.json", br#"{"x": 3}"#.to_vec(), "both have id 3"),
        ("bert", "tokenizer_config.json", br#"{"tokenizer_class": "BertJapaneseTokenizer"}"#.to_vec(), "`BertJapaneseTokenizer`"),
        ("bert", "tokenizer_config.json", br#"{"do_basic_tokenize": false}"#.to_vec(), "`do_basic_tokenize`"),
        ("bert", "tokenizer_config.json", br#"{"do_lower_case": 1}"#.to_vec(), "tokenizer_config.json"),
        ("bert", "vocab.txt", b"a\nb\n".to_vec(), "`unk_token` is `[UNK]`"),
        ("bert", "vocab.txt", b"[UNK]\na\n".to_vec(), "`cls_token` is `[CLS]`"),
        ("bert", "vocab.txt", b"[UNK]\n[CLS]\n[SEP]\na\na\n".to_vec(), "`a` has two ids"),
        ("bert", "vocab.txt", b"\xff\n".to_vec(), "UTF-8"),
        ("qwen", "tokenizer_config.json", br#"{"tokenizer_class": "OtherTokenizer"}"#.to_vec(), "`OtherTokenizer`"),
        ("kimi", "tiktoken.model", b"YQ== 0\nYg= 1".to_vec(), "no token for the byte 0"),
        ("kimi", "tiktoken.model", b"YQ== 0\nYg".to_vec(), "line 2"),
        ("kimi", "tiktoken.model", b"YQ== 4000000000".to_vec(), "byte 0"),
        ("tekken", "tekken.json", b"{}".to_vec(), "`config`"),
        ("tekken", "tekken.json", br#"{"config": {"pattern": "a", "default_vocab_size": 4, "default_num_special_tokens": 9}, "vocab": []}"#.to_vec(), "`default_num_special_tokens` is 9"),
        ("tekken", "tekken.json", br#"{"config": {"pattern": "a", "default_vocab_size": 4000000000, "default_num_special_tokens": 3000000000}, "vocab": []}"#.to_vec(), "byte 0"),
        ("tekken", "tekken.json", br#"{"config": {"pattern": "a", "default_vocab_size": 40, "default_num_special_tokens": 25}, "vocab": [{"rank": 1, "token_bytes": "!"}]}"#.to_vec(), "rank 1 is not in base 64"),
    ] {
        let folder = Folder::of(find(base));
        fs::write(folder.path().join(file), &contents).unwrap();
        if base == "qwen" {
            fs::rename(folder.path().join("qwen.tiktoken"), folder.path().join("other.tiktoken")).unwrap();
        }
        let error = Tokenizer::from_checkpoint(&folder.checkpoint()).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains(names), "{base} {file} {:?}: {error:?}", String::from_utf8_lossy(&contents[..contents.len().min(80)]));
    }
    let empty = Folder::empty();
    let error = Tokenizer::from_checkpoint(&empty.checkpoint()).unwrap_err().to_string();
    assert!(error.contains("no vocabulary") && error.contains("vocab.txt"), "{error}");
}
