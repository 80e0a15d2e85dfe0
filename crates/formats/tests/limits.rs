//! Large headers, good and hostile ones: how long they take and how much they allocate.
//!
//! What was measured is printed.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::{Raw, counting, safetensors};
use onebit_formats::{Checkpoint, Meta, Texts, gguf};
use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// The most that a header may take; more for a debug build on a busy machine.
const TIME: Duration = Duration::from_secs(if cfg!(debug_assertions) { 5 } else { 1 });

/// Opens `path`; gives the outcome, after holding time and memory (in MiB) against the limits.
fn open(path: &Path, memory: usize) -> Result<Checkpoint, String> {
    counting::start();
    let start = Instant::now();
    let outcome = Checkpoint::open(path).map_err(|e| e.to_string());
    let (time, peak) = (start.elapsed(), counting::peak());
    let said = outcome.as_ref().map_or_else(|e| e.chars().take(160).collect(), |c| format!("{} tensors", c.tensors.len()));
    eprintln!("{time:?}, {} KiB: {said}", peak >> 10);
    assert!(time < TIME, "{time:?}");
    assert!(peak <= memory << 20, "{peak} bytes");
    outcome
}

/// One test, so that the counts are not another's.
#[test]
fn large_headers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.gguf");

    // A vocabulary of 262,144 tokens, as Gemma's, with scores, types and as many merges.
    let n = 1 << 18;
    let words = |sep: &str| {
        let mut texts = Texts::default();
        (0..n).for_each(|i| texts.push(format!("token{sep}{i}").as_bytes()));
        Meta::Texts(texts)
    };
    let mut w = gguf::Writer::new(&path);
    w.pair("tokenizer.ggml.tokens", &words("")).unwrap();
    w.pair("tokenizer.ggml.merges", &words(" ")).unwrap();
    w.pair("tokenizer.ggml.scores", &Meta::Floats(vec![-1.0; n])).unwrap();
    w.pair("tokenizer.ggml.token_type", &Meta::Integers(vec![1; n])).unwrap();
    w.begin().unwrap().finish().unwrap();
    let c = open(&path, 32).unwrap();
    let tokens = c.metadata.texts("tokenizer.ggml.tokens").unwrap().unwrap();
    assert_eq!((tokens.len(), tokens.get(n - 1)), (n, Some(&b"token262143"[..])));
    drop(c);

    // As many empty strings as are allowed, and one more; as many bytes, each of which becomes an integer.
    for (kind, each) in [(8, 8), (0, 1)] {
        let array = |n: u64| Raw::head(0, 1).pair("k", 9, &[]).u32(kind).u64(n);
        let most = 1u64 << 22;
        let mut raw = array(most);
        raw.0.resize(raw.0.len() + (most * each) as usize, 0);
        fs::write(&path, &raw.0).unwrap();
        open(&path, 33).unwrap();
        let mut raw = array(most + 1);
        raw.0.resize(raw.0.len() + ((most + 1) * each) as usize, 0);
        fs::write(&path, &raw.0).unwrap();
        assert!(open(&path, 1).unwrap_err().contains("the limit is 4194304"));
    }

    // A file of 1 TiB (with a hole) whose header never ends.
    let head = Raw::head(0, 1).pair("k", 8, &(1u64 << 39).to_le_bytes());
    fs::write(&path, &head.0).unwrap();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
    assert!(open(&path, 1).unwrap_err().contains("the limit of 64 MiB for headers is 67108819 bytes further"));

    // As many tensors as are allowed, the last one broken; as many pairs.
    let n = 1u64 << 17;
    let mut raw = Raw::head(n, 0);
    for i in 0..n - 1 {
        raw = raw.tensor(&format!("t{i}"), &[1], 0, i * 32);
    }
    fs::write(&path, raw.clone().tensor("last", &[1, 0], 0, 0).data(32 * n as usize).0).unwrap();
    assert!(open(&path, 32).unwrap_err().contains("tensor `last` has a dimension of 0"));
    fs::write(&path, raw.tensor("last", &[1], 0, (n - 1) * 32).data(32 * n as usize).0).unwrap();
    assert_eq!(open(&path, 96).unwrap().tensors.len(), n as usize);
    let mut raw = Raw::head(0, 1 << 16);
    for i in 0..1 << 16 {
        raw = raw.pair(&format!("k{i}"), 0, &[1]);
    }
    fs::write(&path, raw.0).unwrap();
    open(&path, 16).unwrap();

    // safetensors headers of up to 90 MB: too many tensors, too many texts, one endless string, deep nesting, spaces.
    let path = folder.path().join("x.safetensors");
    let many = |item: &str| {
        let mut text = String::from("{");
        (0..200_000).for_each(|i| text += &item.replace("NAME", &format!("{i:07}")));
        text.pop();
        text + "}"
    };
    let tensors = many(r#""NAME":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"#);
    let texts = format!("{{\"__metadata__\":{}}}", many("\"\\u0041NAME\":\"\","));
    let endless = format!("{{\"x\":\"{}\"}}", "é".repeat(45_000_000));
    let unknown =
        format!(r#"{{"x":{{"dtype":"F32","shape":[0],"data_offsets":[0,0],"new":{}1{}}}}}"#, "[".repeat(2_000_000), "]".repeat(2_000_000));
    let digits = format!(r#"{{"x":{{"dtype":"F32","shape":[{}],"data_offsets":[0,0]}}}}"#, "9".repeat(4_000_000));
    let shape = format!(r#"{{"x":{{"dtype":"F32","shape":[{}0],"data_offsets":[0,0]}}}}"#, "0,".repeat(2_000_000));
    for (header, memory, want) in [
        (tensors, 64, Some("more than 131072 tensors")),
        (texts, 8, Some("more than 16384 keys in one object")),
        (endless, 1, Some("bytes without a quotation mark")),
        (unknown, 8, None),
        (digits, 32, Some("JSON: tensor `x`: ")),
        (shape, 1, Some("more than 8 dimensions")),
    ] {
        fs::write(&path, safetensors(&header, 0)).unwrap();
        match (open(&path, memory), want) {
            (Ok(_), None) => {}
            (Err(text), Some(want)) => assert!(text.contains(want) && text.len() < 600, "{text}"),
            (outcome, _) => panic!("{want:?}: {outcome:?}"),
        }
    }
}
