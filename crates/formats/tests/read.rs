//! Reads files that the Python packages `gguf` and `safetensors` made (`tests/data/make.py`), and the shared fixtures.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::{data, refusal, shared};
use onebit_formats::{Checkpoint, Meta, Source, Texts};
use serde_json::Value;
use std::fs;

/// Holds the tensors of `c` against what the other package decoded.
fn same_tensors(c: &Checkpoint, file: &str) {
    let expected: Value = serde_json::from_str(&fs::read_to_string(data("expected.json")).unwrap()).unwrap();
    let expected = expected[file].as_object().unwrap();
    let names: Vec<_> = c.tensors.keys().collect();
    let mut wanted: Vec<_> = expected.keys().collect();
    wanted.sort();
    assert_eq!(names, wanted);
    for (name, want) in expected {
        let t = c.tensor(name).unwrap();
        assert_eq!(t.name(), name);
        assert_eq!(t.ty().name(), want["type"].as_str().unwrap(), "{name}");
        let shape: Vec<_> = want["shape"].as_array().unwrap().iter().map(|d| d.as_u64().unwrap() as usize).collect();
        assert_eq!(t.shape(), shape, "{name}");
        let values: Vec<_> = want["values"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as f32).collect();
        assert_eq!(t.to_f32(), values, "{name}");
        if t.rows() > 0 {
            let mut room = vec![];
            let last = t.row(t.rows() - 1, &mut room);
            assert_eq!(last, &t.bytes()[t.bytes().len() - last.len()..], "{name}");
            assert_eq!(last.len() * t.rows(), t.bytes().len(), "{name}");
        }
    }
}

#[test]
fn gguf_tensors() {
    let c = Checkpoint::open(data("kinds.gguf")).unwrap();
    assert_eq!(c.source, Source::Gguf);
    same_tensors(&c, "kinds.gguf");
    let c = Checkpoint::open(data("small.gguf")).unwrap();
    assert_eq!(c.metadata.unsigned("general.alignment").unwrap(), Some(64));
    same_tensors(&c, "small.gguf");
    assert_eq!(c.bytes(), 3 * 4 * 4 + 4 * 4 + 2 * 34);
    assert_eq!(c.sidecar("tokenizer.json").unwrap(), None);
}

#[test]
fn gguf_metadata_of_every_kind() {
    let m = Checkpoint::open(data("kinds.gguf")).unwrap().metadata;
    let texts = |v: &[&[u8]]| {
        let mut texts = Texts::default();
        v.iter().for_each(|t| texts.push(t));
        Meta::Texts(texts)
    };
    let expected = [
        ("general.architecture", Meta::Text("llama".into())),
        ("a.u8", Meta::Unsigned(255)),
        ("a.i8", Meta::Signed(-128)),
        ("a.u16", Meta::Unsigned(65535)),
        ("a.i16", Meta::Signed(-32768)),
        ("a.u32", Meta::Unsigned(u32::MAX.into())),
        ("a.i32", Meta::Signed(i32::MIN.into())),
        ("a.f32", Meta::Float(0.1f32.into())),
        ("a.u64", Meta::Unsigned(u64::MAX)),
        ("a.i64", Meta::Signed(i64::MIN)),
        ("a.f64", Meta::Float(0.1)),
        ("a.true", Meta::Bool(true)),
        ("a.false", Meta::Bool(false)),
        ("a.text", Meta::Text("grüße, 世界 🙂".into())),
        ("a.long", Meta::Text("long ".repeat(1000))),
        ("a.texts", texts(&[b"", b"one", b"zwei", "三".as_bytes()])),
        ("a.bytes", texts(&[b"\xff\xfe", b"ok", b"\xe4\xb8"])),
        ("a.floats", Meta::Floats(vec![0.5, -1.25, 3e38])),
        ("a.bools", Meta::Bools(vec![true, false, true])),
        ("a.array_u8", Meta::Integers(vec![0, 1, 255])),
        ("a.array_i8", Meta::Integers(vec![-128, 1, 127])),
        ("a.array_u16", Meta::Integers(vec![0, 1, 65535])),
        ("a.array_i16", Meta::Integers(vec![-32768, 1, 32767])),
        ("a.array_u32", Meta::Integers(vec![0, 1, u32::MAX.into()])),
        ("a.array_i32", Meta::Integers(vec![i32::MIN.into(), 1, i32::MAX.into()])),
        ("a.array_u64", Meta::Integers(vec![0, 1, i64::MAX])),
        ("a.array_i64", Meta::Integers(vec![i64::MIN, 1, i64::MAX])),
        ("a.array_f64", Meta::Floats(vec![0.1, -2.0])),
    ];
    for (key, value) in &expected {
        assert_eq!(m.get(key), Some(value), "{key}");
    }
    assert_eq!(m.pairs.len(), expected.len(), "{:?}", m.pairs.keys());
}

#[test]
fn typed_getters_name_file_and_key() {
    let m = Checkpoint::open(data("kinds.gguf")).unwrap().metadata;
    assert_eq!(m.unsigned("a.u32").unwrap(), Some(u64::from(u32::MAX)));
    assert_eq!(m.unsigned("absent").unwrap(), None);
    assert_eq!(m.float("a.u8").unwrap(), Some(255.0));
    assert_eq!(m.bool("a.true").unwrap(), Some(true));
    assert_eq!(m.text("general.architecture").unwrap(), Some("llama"));
    assert_eq!(m.texts("a.texts").unwrap().unwrap().get(2), Some(&b"zwei"[..]));
    assert_eq!(m.integers("a.array_i8").unwrap(), Some(&[-128, 1, 127][..]));
    assert_eq!(m.floats("a.floats").unwrap().map(<[f32]>::len), Some(3));
    let faults = [
        (m.unsigned("a.i8").unwrap_err(), "`a.i8` should be a non-negative integer, but is an integer"),
        (m.unsigned("a.text").unwrap_err(), "`a.text` should be a non-negative integer, but is a string"),
        (m.float("a.bools").unwrap_err(), "`a.bools` should be a number, but is an array of truth values"),
        (m.bool("a.u8").unwrap_err(), "`a.u8` should be true or false, but is an integer"),
        (m.text("a.f32").unwrap_err(), "`a.f32` should be a string, but is a float"),
        (m.texts("a.array_i32").unwrap_err(), "`a.array_i32` should be an array of strings, but is an array of integers"),
        (m.integers("a.u8").unwrap_err(), "`a.u8` should be an array of integers, but is an integer"),
        (m.floats("a.texts").unwrap_err(), "`a.texts` should be an array of floats, but is an array of strings"),
    ];
    for (error, want) in faults {
        let text = error.to_string();
        assert!(text.ends_with(want) && text.contains("kinds.gguf"), "{text}");
    }
}

#[test]
fn version_2_reads_alike() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v2.gguf");
    let mut bytes = fs::read(data("kinds.gguf")).unwrap();
    assert_eq!(bytes[4], 3);
    bytes[4] = 2;
    fs::write(&path, bytes).unwrap();
    same_tensors(&Checkpoint::open(&path).unwrap(), "kinds.gguf");
}

#[test]
fn big_endian_is_refused_with_advice() {
    let text = refusal(&data("big.gguf"));
    assert!(text.contains("big-endian") && text.contains("gguf-convert-endian"), "{text}");
}

#[test]
fn any_part_opens_a_split_model() {
    for n in 1..=3 {
        let c = Checkpoint::open(data(&format!("split-0000{n}-of-00003.gguf"))).unwrap();
        same_tensors(&c, "split");
        assert!(c.path.ends_with("split-00001-of-00003.gguf"), "{}", c.path.display());
        assert_eq!(c.metadata.unsigned("llama.block_count").unwrap(), Some(2), "metadata is that of the first part");
    }
}

#[test]
fn safetensors_of_every_type() {
    let c = Checkpoint::open(data("kinds.safetensors")).unwrap();
    assert_eq!(c.source, Source::HuggingFace);
    assert!(c.metadata.pairs.is_empty() && c.config.is_empty());
    same_tensors(&c, "kinds.safetensors");
    same_tensors(&Checkpoint::open(data("small.safetensors")).unwrap(), "small.safetensors");
}

#[test]
fn every_fixture_opens() {
    let Some(shared) = shared() else { return };
    let mut n = 0;
    for entry in fs::read_dir(shared.join("fixtures/data")).unwrap() {
        let path = entry.unwrap().path();
        let c = Checkpoint::open(&path).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(c.source, Source::HuggingFace);
        assert!(c.config.contains_key("model_type"), "{}", path.display());
        assert!(!c.tensors.is_empty());
        assert!(c.sidecar("meta.json").unwrap().is_some());
        assert!(c.sidecar("tokenizer.json").unwrap().is_none());
        let e = Checkpoint::open(path.join("expected.safetensors")).unwrap();
        assert!(e.tensors.values().any(|t| t.ty().name() == "I64"), "token ids");
        assert!(e.tensors.values().any(|t| t.ty().name() == "F32"), "logits");
        n += 1;
    }
    assert!(n > 100, "{n} fixtures");
}
