//! Broken and hostile safetensors files and folders: each fault has its own message.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::{data, refusal, safetensors};
use onebit_formats::Checkpoint;
use std::{fs, os::unix::fs::symlink, path::Path};

const GOOD: &str = r#"{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;

#[test]
fn every_fault_has_its_message() {
    let tensor = |dtype: &str, shape: &str, begin: u64, end: u64| {
        format!(r#"{{"x":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{begin},{end}]}}}}"#)
    };
    let pair = |b: (u64, u64), c: (u64, u64)| {
        format!(
            r#"{{"b":{{"dtype":"I8","shape":[4],"data_offsets":[{},{}]}},"c":{{"dtype":"I8","shape":[4],"data_offsets":[{},{}]}}}}"#,
            b.0, b.1, c.0, c.1
        )
    };
    let long = |n: usize| format!(r#"{{"{}":{{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}}}"#, "n".repeat(n));
    let deep = format!("{{\"x\":{}", "[".repeat(1 << 20));
    let mut beyond = safetensors(GOOD, 8);
    beyond[..8].copy_from_slice(&200u64.to_le_bytes());
    let mut huge = safetensors(GOOD, 8);
    huge[..8].copy_from_slice(&(1u64 << 63).to_le_bytes());
    let mut binary = safetensors(GOOD, 8);
    binary[10] = 0xff;
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (vec![], "is empty"),
        (vec![1, 2, 3], "has 3 bytes, too few for a safetensors file"),
        (beyond, "the header's length is 200, but only 62 bytes follow; the file is cut short"),
        (huge, "the header's length is 9223372036854775808; the limit is 100000000"),
        (binary, "the header is not UTF-8 at byte 10"),
        (safetensors("[]", 0), "the header does not start with `{`"),
        (safetensors("", 8), "the header does not start with `{`"),
        (safetensors("{nonsense", 0), "JSON: key must be a string at line 1 column 2"),
        (safetensors("{} x", 0), "JSON: trailing characters"),
        (safetensors(&deep, 0), "JSON: tensor `x`: invalid type: sequence"),
        (safetensors(r#"{"x":{"dtype":"F32","shape":[2]}}"#, 8), "JSON: tensor `x`: missing field `data_offsets`"),
        (safetensors(r#"{"x":{"dtype":7,"shape":[2],"data_offsets":[0,8]}}"#, 8), "JSON: tensor `x`: invalid type: integer `7`"),
        (safetensors(r#"{"x":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}"#, 8), "JSON: tensor `x`: invalid value: integer `-2`"),
        (safetensors(r#"{"x":{"dtype":"F32","shape":[2.5],"data_offsets":[0,8]}}"#, 8), "JSON: tensor `x`: invalid type: floating point"),
        (safetensors(r#"{"x":{"dtype":"F32","shape":[1e30],"data_offsets":[0,8]}}"#, 8), "JSON: tensor `x`: invalid type: floating point"),
        (
            safetensors(r#"{"x":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#, 8),
            "JSON: tensor `x`: duplicate field `dtype`",
        ),
        (safetensors(r#"{"x":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8]}}"#, 8), "tensor `x`: more than 8 dimensions"),
        (safetensors(r#"{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8,9]}}"#, 8), "JSON: tensor `x`:"),
        (safetensors(&format!("{},{}", &GOOD[..GOOD.len() - 1], &GOOD[1..]), 8), "JSON: key `x` appears twice in one object"),
        (safetensors(&GOOD.replace("\"x\"", "\"\""), 8), "JSON: the name `` has 0 bytes; it may have 1 to 1024"),
        (safetensors(&long(1 << 20), 8), "has 1048576 bytes; it may have 1 to 1024"),
        (safetensors(&long(10 << 20), 8), "JSON: more than 4194304 bytes without a quotation mark"),
        (safetensors(r#"{"__metadata__":{"a":"1","a":"2"}}"#, 0), "JSON: key `a` appears twice in one object"),
        (safetensors(r#"{"__metadata__":{"a":1}}"#, 0), "JSON: invalid type: integer `1`, expected a string"),
        (safetensors(r#"{"__metadata__":[]}"#, 0), "invalid type: sequence, expected an object of strings"),
        (safetensors(r#"{"__metadata__":{},"__metadata__":{}}"#, 0), "JSON: key `__metadata__` appears twice in one object"),
        (safetensors(&tensor("F4", "[4]", 0, 2), 2), "tensor `x` has type `F4`, which is not read"),
        (safetensors(&tensor("f32", "[2]", 0, 8), 8), "tensor `x` has type `f32`, which is not read"),
        (safetensors(&tensor("Q8_0", "[32]", 0, 34), 34), "tensor `x` has type `Q8_0`, which is not read"),
        (safetensors(&tensor("F32", "[3]", 0, 8), 8), "tensor `x` of type F32 and shape [3] takes 12 bytes, but its offsets give 8"),
        (safetensors(&tensor("F32", "[4194304,4398046511104]", 0, 8), 8), "takes more than can be bytes, but its offsets give 8"),
        (safetensors(&tensor("F32", "[2]", 8, 0), 8), "tensor `x` ends (at 0) before it begins (at 8)"),
        (safetensors(&tensor("F32", "[2]", 0, 8), 7), "tensor `x` ends at byte 8 of the data, which has 7; the file may be cut short"),
        (safetensors(&tensor("F32", "[2]", u64::MAX - 8, u64::MAX), 8), "tensor `x` ends at byte 18446744073709551615 of the data"),
        (safetensors(&tensor("F32", "[2]", 0, 8), 9), "1 bytes follow the last tensor"),
        (safetensors("{}", 1), "1 bytes follow the last tensor"),
        (
            safetensors(&tensor("F32", "[2]", 8, 16), 16),
            "tensor `x` begins at 8, but the data before it ends at 0; the format allows no hole",
        ),
        (safetensors(&pair((0, 4), (2, 6)), 6), "tensor `c` begins at 2 and overlaps `b`, which ends at 4"),
        (safetensors(&pair((0, 4), (5, 9)), 9), "tensor `c` begins at 5, but the data before it ends at 4"),
        (safetensors(&pair((0, 4), (0, 4)), 4), "tensor `c` begins at 0 and overlaps `b`, which ends at 4"),
        (b"\x1f\x8b\x08\0\0\0\0\0\0\0\0".to_vec(), "is gzip-compressed"),
        (b"<html>not found</html>".to_vec(), "is an HTML page"),
        (b"version https://git-lfs.github.com/spec/v1\n".to_vec(), "is a Git LFS pointer"),
        (b"\x80\x04\x95\x10\x01abc".to_vec(), "is a pickled Python object, which could run code when read; convert to safetensors"),
        (b"GGUF\x07\0\0\0".to_vec(), "GGUF version 7 is not known"),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    for (bytes, want) in cases {
        fs::write(&path, bytes).unwrap();
        let text = refusal(&path);
        assert!(text.contains(want), "wanted: {want}\n   got: {text}");
        assert!(text.starts_with(&*path.to_string_lossy()) && text.len() < 600, "{text}");
    }
    for good in [safetensors(GOOD, 8), safetensors("{}", 0), safetensors(&pair((4, 8), (0, 4)), 8)] {
        fs::write(&path, good).unwrap();
        Checkpoint::open(&path).unwrap();
    }
}

/// A header whose length reads like another format's magic.
#[test]
fn header_length_like_a_magic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    for len in [0x8b1f, 0x0280, 0x0480] {
        let header = format!("{GOOD:len$}");
        fs::write(&path, safetensors(&header, 8)).unwrap();
        assert_eq!(Checkpoint::open(&path).unwrap().tensors.len(), 1);
    }
}

#[test]
fn truncated_at_every_byte() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    let whole = fs::read(data("small.safetensors")).unwrap();
    for n in 0..whole.len() {
        fs::write(&path, &whole[..n]).unwrap();
        assert!(Checkpoint::open(&path).is_err(), "{n} bytes");
    }
}

/// A folder of files with these names and contents.
fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    folder
}

fn shard(name: &str) -> Vec<u8> {
    safetensors(&GOOD.replace("\"x\"", &format!("\"{name}\"")), 8)
}

const INDEX: &str = "model.safetensors.index.json";
const A: &str = "model-00001-of-00002.safetensors";
const B: &str = "model-00002-of-00002.safetensors";

fn index(map: &str) -> String {
    format!(r#"{{"metadata":{{"total_size":16}},"weight_map":{map}}}"#)
}

#[test]
fn shards() {
    let good = index(&format!(r#"{{"a":"{A}","b":"{B}"}}"#));
    let f = folder(&[(A, &shard("a")), (B, &shard("b")), (INDEX, good.as_bytes()), ("config.json", b"{\"model_type\":\"llama\"}")]);
    let c = Checkpoint::open(f.path()).unwrap();
    assert_eq!(c.tensors.keys().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(c.config["model_type"], "llama");
    // One of the files alone, with its folder's configuration.
    let c = Checkpoint::open(f.path().join(B)).unwrap();
    assert_eq!((c.tensors.len(), &c.config["model_type"]), (1, &"llama".into()));

    // A tensor that the index forgot is there; of two shards that have a tensor, the index chooses.
    let forgets = index(&format!(r#"{{"a":"{A}","x":"{B}"}}"#));
    let both = r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},"y":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}"#;
    let f = folder(&[(A, &shard("a")), (B, &safetensors(both, 12)), (INDEX, forgets.as_bytes())]);
    let c = Checkpoint::open(f.path()).unwrap();
    assert_eq!(c.tensors.keys().collect::<Vec<_>>(), ["a", "x", "y"]);
    assert!(c.tensors["a"].path().ends_with(A));

    let refused = |files: &[(&str, &[u8])], want: &str| {
        let f = folder(files);
        let text = refusal(f.path());
        assert!(text.contains(want), "wanted: {want}\n   got: {text}");
    };
    let (a, b) = (shard("a"), shard("b"));
    refused(&[(A, &a), (INDEX, good.as_bytes())], &format!("names files that are not in the folder: {B}; download them"));
    refused(&[(A, &a), (B, &b)], "has 2 safetensors files, but no model.safetensors.index.json");
    refused(&[(A, &a), (B, &a), (INDEX, good.as_bytes())], "tensor `b` is in model-00002-of-00002.safetensors, but it is not");
    let twice = r#"{"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"c":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#;
    let first = r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"c":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#;
    let files = [(A, &*safetensors(first, 8)), (B, &*safetensors(twice, 8)), (INDEX, good.as_bytes())];
    refused(&files, &format!("tensor `c` is also in {A}"));
    for evil in [
        "../../etc/passwd",
        "../x.safetensors",
        "/etc/x.safetensors",
        "sub/x.safetensors",
        ".",
        "..",
        "",
        "a\\\\b.safetensors",
        "config.json",
    ] {
        refused(&[(A, &a), (INDEX, index(&format!(r#"{{"a":"{evil}"}}"#)).as_bytes())], "which is not a plain name of a safetensors file");
    }
    refused(&[(INDEX, index("{\"a\":7}").as_bytes())], "JSON: invalid type: integer `7`, expected a string");
    refused(&[(INDEX, index("[]").as_bytes())], "JSON: invalid type: sequence, expected an object of strings");
    refused(&[(INDEX, b"{}")], "has no `weight_map`");
    refused(&[(INDEX, b"[1]")], "JSON: invalid type: sequence, expected an object");
    refused(&[(INDEX, b"{\"weight_map\":{},\"weight_map\":{}}")], "key `weight_map` appears twice in one object");
    refused(&[(INDEX, b"{\"weight_map\":{\"a\":\"x.safetensors\",\"a\":\"y.safetensors\"}}")], "key `a` appears twice in one object");
    refused(&[(INDEX, &b"[".repeat(1 << 20))], "JSON: invalid type: sequence, expected an object");
    refused(&[(INDEX, b"<!doctype html>")], "is an HTML page");
    refused(&[("x.safetensors.index.json", b"{}"), ("y.safetensors.index.json", b"{}")], "has 2 indices");
}

#[test]
fn folders_without_weights_say_so() {
    let refused = |files: &[(&str, &[u8])], want: &str| {
        let f = folder(files);
        let text = refusal(f.path());
        assert!(text.contains(want) && text.contains(&*f.path().to_string_lossy()), "wanted: {want}\n   got: {text}");
    };
    refused(&[], "holds neither model.safetensors nor a .gguf file");
    let pickled = [("pytorch_model.bin", &b"PK\x03\x04"[..]), ("config.json", b"{}")];
    refused(&pickled, "only as pickled Python objects (pytorch_model.bin), which could run code when read; convert to safetensors");
    let good = shard("a");
    refused(&[("model.safetensors", &good), ("config.json", b"{\"a\":1,\"a\":2}")], "config.json: JSON: key `a` appears twice");
    refused(&[("model.safetensors", &good), ("config.json", b"{\"a\":{\"b\":1,\"b\":1}}")], "key `b` appears twice");
    refused(&[("model.safetensors", &good), ("config.json", b"{\"a\":1}}")], "JSON: trailing characters");
    refused(&[("model.safetensors", &good), ("config.json", &b"{\"a\":".repeat(1000))], "JSON: recursion limit exceeded");
    refused(
        &[("model.safetensors", &good), ("config.json", &b"[".repeat(5 << 20))],
        "config.json: has 5242880 bytes; the limit is 4194304",
    );
    refused(&[("model.safetensors", &good), ("config.json", b"\xff{}")], "config.json: is not UTF-8 text (at byte 0)");
    refused(&[("model.safetensors", &good), ("generation_config.json", b"null")], "generation_config.json: should hold a JSON object");
    let f = folder(&[("pytorch_model.bin", b"PK\x03\x04\0"), ("config.json", b"{}")]);
    assert!(refusal(&f.path().join("pytorch_model.bin")).contains("pickled PyTorch checkpoint; unpack it, or convert to safetensors"));
    assert!(refusal(&f.path().join("config.json")).contains("give the folder that it lies in"));
}

#[test]
fn python_numbers_in_config() {
    let config = br#"{"a": [0.0, Infinity], "b": -Infinity, "c": NaN, "d": "Infinity \" NaN", "e\\": "\\", "f": NaN}"#;
    let f = folder(&[("model.safetensors", &shard("a")), ("config.json", config)]);
    let c = Checkpoint::open(f.path()).unwrap().config;
    let want = serde_json::json!({"a": [0.0, "Infinity"], "b": "-Infinity", "c": "NaN", "d": "Infinity \" NaN", "e\\": "\\", "f": "NaN"});
    assert_eq!(serde_json::Value::from(c), want);
}

#[test]
fn a_folder_with_one_gguf() {
    let small = fs::read(data("small.gguf")).unwrap();
    let f = folder(&[
        ("m.gguf", &small),
        ("mmproj-m.gguf", &small),
        ("adapter.safetensors", &shard("a")),
        ("tokenizer.json", b"{}"),
        ("README.md", b""),
    ]);
    let c = Checkpoint::open(f.path()).unwrap();
    assert_eq!(c.source, onebit_formats::Source::Gguf);
    assert_eq!(c.path, f.path().join("m.gguf"));
    assert_eq!(c.sidecar("tokenizer.json").unwrap(), None, "a GGUF file says all itself");
}

#[test]
fn sidecars() {
    let f = folder(&[("model.safetensors", &shard("a")), ("vocab.txt", "grüße\n".as_bytes()), ("latin.txt", b"gr\xfc\xdfe")]);
    for path in [f.path().to_path_buf(), f.path().join("model.safetensors")] {
        let c = Checkpoint::open(path).unwrap();
        assert_eq!(c.sidecar("vocab.txt").unwrap().as_deref(), Some("grüße\n"));
        assert_eq!(c.sidecar("absent.txt").unwrap(), None);
        assert!(c.sidecar("latin.txt").unwrap_err().to_string().contains("is not UTF-8 text (at byte 2)"));
        for evil in ["../x", "a/b", "/etc/passwd", "..", "", ".", "a/", "x\0y"] {
            let text = c.sidecar(evil).unwrap_err().to_string();
            assert!(text.contains("must be a plain name, without folders"), "{evil}: {text}");
        }
    }
}

#[test]
fn links_stay_in_the_folder_or_the_hubs_cache() {
    let outside = folder(&[("secret.txt", b"secret"), ("model.safetensors", &shard("a"))]);
    let f = folder(&[("real.txt", b"text")]);
    let link = |to: &Path, name: &str| symlink(to, f.path().join(name)).unwrap();
    link(&outside.path().join("model.safetensors"), "model.safetensors");
    let text = refusal(f.path());
    assert!(text.contains("model.safetensors: is a link that leaves its folder"), "{text}");
    // Named by the user, a link may lead anywhere; what lies beside it may still not.
    let c = Checkpoint::open(f.path().join("model.safetensors")).unwrap();
    link(&outside.path().join("secret.txt"), "vocab.txt");
    link(Path::new("real.txt"), "merges.txt");
    link(Path::new("gone.txt"), "added.txt");
    link(Path::new("loop.txt"), "loop.txt");
    assert!(c.sidecar("vocab.txt").unwrap_err().to_string().contains("is a link that leaves its folder"));
    assert_eq!(c.sidecar("merges.txt").unwrap().as_deref(), Some("text"));
    assert!(c.sidecar("added.txt").unwrap_err().to_string().contains("is a link to a file that does not exist"));
    assert!(c.sidecar("loop.txt").is_err());

    // models--a--b/{blobs/HASH, snapshots/REVISION/NAME -> ../../blobs/HASH}
    let repository = tempfile::tempdir().unwrap();
    let snapshot = repository.path().join("snapshots/0123");
    let blobs = repository.path().join("blobs");
    fs::create_dir_all(&snapshot).unwrap();
    fs::create_dir(&blobs).unwrap();
    fs::write(blobs.join("abcd"), shard("a")).unwrap();
    fs::write(blobs.join("ef01"), b"{\"model_type\":\"llama\"}").unwrap();
    fs::write(repository.path().join("other.txt"), b"other").unwrap();
    symlink("../../blobs/abcd", snapshot.join("model.safetensors")).unwrap();
    symlink("../../blobs/ef01", snapshot.join("config.json")).unwrap();
    symlink("../../other.txt", snapshot.join("vocab.txt")).unwrap();
    let c = Checkpoint::open(&snapshot).unwrap();
    assert_eq!((c.tensors.len(), &c.config["model_type"]), (1, &"llama".into()));
    assert!(c.sidecar("vocab.txt").unwrap_err().to_string().contains("is a link that leaves its folder"));
    // Another repository's blob, by its hash alone.
    let other = tempfile::tempdir().unwrap();
    fs::create_dir(other.path().join("blobs")).unwrap();
    let hash = "0123456789abcdef".repeat(4);
    for name in [&*hash, "secret"] {
        fs::write(other.path().join("blobs").join(name), "{}").unwrap();
    }
    symlink(other.path().join("blobs").join(&hash), snapshot.join("tokenizer.json")).unwrap();
    symlink(other.path().join("blobs/secret"), snapshot.join("merges.txt")).unwrap();
    assert_eq!(c.sidecar("tokenizer.json").unwrap().as_deref(), Some("{}"));
    assert!(c.sidecar("merges.txt").unwrap_err().to_string().contains("is a link that leaves its folder"));
    // Outside of a cache, not even that.
    symlink(other.path().join("blobs").join(&hash), f.path().join("blob.txt")).unwrap();
    let c = Checkpoint::open(f.path().join("model.safetensors")).unwrap();
    assert!(c.sidecar("blob.txt").unwrap_err().to_string().contains("is a link that leaves its folder"));
}
