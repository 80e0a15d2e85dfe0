//! Broken and hostile GGUF files: each fault has its own message, and none takes long or much memory (see also `mutations.rs`).
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::{Raw, data, refusal};
use onebit_formats::Checkpoint;
use std::{fs, path::Path};

const F32: u32 = 0;
const Q8_0: u32 = 8;

/// A file with one good tensor of four f32, to vary.
fn one(dims: &[u64], kind: u32, offset: u64) -> Raw {
    Raw::head(1, 0).tensor("x", dims, kind, offset).data(32)
}

fn two(a: u64, b: u64) -> Raw {
    Raw::head(2, 0).tensor("x", &[4], F32, a).tensor("y", &[4], F32, b).data(64)
}

fn array(kind: u32, n: u64, rest: &[u8]) -> Raw {
    Raw::head(0, 1).pair("k", 9, &[]).u32(kind).u64(n).bytes(rest)
}

fn alignment(value: u32) -> Raw {
    Raw::head(0, 1).pair("general.alignment", 4, &value.to_le_bytes())
}

#[test]
fn every_fault_has_its_message() {
    let long = "n".repeat(10 << 20);
    let cases: Vec<(Raw, &str)> = vec![
        // Counts beyond the bytes.
        (Raw::head(1 << 63, 0), "the number of tensors is 9223372036854775808; the limit is 131072"),
        (Raw::head(0, u64::MAX), "the number of key-value pairs is 18446744073709551615; the limit is 65536"),
        (Raw::head(9, 0), "the number of tensors is 9, but the 8 bytes up to the end of the file can hold at most 0"),
        (
            Raw::head(0, 3).bytes(&[0; 30]),
            "the number of key-value pairs is 3, but the 30 bytes up to the end of the file can hold at most 2",
        ),
        (array(4, 1 << 63, &[]), "the number of elements of metadata `k` is 9223372036854775808; the limit is 4194304"),
        (
            array(4, 5, &[0; 19]),
            "the number of elements of metadata `k` is 5, but the 19 bytes up to the end of the file can hold at most 4",
        ),
        (array(8, 2, &[0; 15]), "the number of elements of metadata `k` is 2, but the 15 bytes"),
        (
            array(8, 1, &u64::MAX.to_le_bytes()),
            "string 0 of metadata `k` at byte 57 takes 18446744073709551615 bytes, but the end of the file is 0 bytes",
        ),
        (array(10, 1, &u64::MAX.to_le_bytes()), "metadata `k` holds an integer beyond 9223372036854775807"),
        (array(9, 0, &[]), "metadata `k` is an array of arrays, which is not read"),
        (array(13, 0, &[]), "metadata `k` is an array of type 13, which GGUF does not define"),
        (array(7, 2, &[1, 2]), "metadata `k` holds 2 where a truth value should be 0 or 1"),
        (Raw::head(0, 1).pair("k", 13, &[0; 8]), "metadata `k` has type 13, which GGUF does not define"),
        (Raw::head(0, 1).pair("k", 7, &[7]), "metadata `k` holds 7 where a truth value should be 0 or 1"),
        (Raw::head(0, 1).pair("k", 8, &(1u64 << 40).to_le_bytes()), "metadata `k` at byte 45 takes 1099511627776 bytes"),
        (Raw::head(0, 1).pair("kk", 10, &[0; 7]), "metadata `kk` at byte 38 takes 8 bytes, but the end of the file is 7 bytes further"),
        // Names.
        (Raw::head(0, 1).pair("", 0, &[0; 8]), "the name of key 0 has 0 bytes; it may have 1 to 65535"),
        (Raw::head(0, 1).pair(&long, 0, &[0]), "the name of key 0 has 10485760 bytes; it may have 1 to 65535"),
        (Raw::head(0, 1).text(b"\xff\xfek").u32(0).bytes(&[0]), "the name of key 0, `\u{fffd}\u{fffd}k`, is not UTF-8"),
        (Raw::head(0, 2).pair("k", 0, &[0]).pair("k", 0, &[0]), "metadata `k` appears twice"),
        (Raw::head(1, 0).tensor("", &[4], F32, 0).data(32), "the name of tensor 0 has 0 bytes; it may have 1 to 256"),
        (Raw::head(1, 0).tensor(&long, &[4], F32, 0).data(32), "the name of tensor 0 has 10485760 bytes; it may have 1 to 256"),
        (Raw::head(1, 0).text(b"\xc3(").u32(1).u64(4).u32(F32).u64(0).data(32), "the name of tensor 0, `\u{fffd}(`, is not UTF-8"),
        (Raw::head(2, 0).tensor("x", &[4], F32, 0).tensor("x", &[4], F32, 32).data(64), "tensor `x` appears twice"),
        // Dimensions and types.
        (one(&[1 << 42, 1 << 22], F32, 0), "the product of the dimensions [4194304, 4398046511104] of tensor `x` overflows"),
        (one(&[1 << 62], F32, 0), "tensor `x` of shape [4611686018427387904] has more bytes than can be"),
        (one(&[u64::MAX, 2], F32, 0), "of tensor `x` overflows"),
        (one(&[4, 0], F32, 0), "tensor `x` has a dimension of 0"),
        (one(&[1, 1, 1, 1, 4], F32, 0), "tensor `x` has 5 dimensions; the limit is 4"),
        (Raw::head(1, 0).text("x").u32(u32::MAX).bytes(&[0; 40]), "tensor `x` has 4294967295 dimensions; the limit is 4"),
        (one(&[33], Q8_0, 0), "tensor `x` has rows of 33 values, which blocks of 32 (Q8_0) do not divide"),
        (one(&[16, 2], Q8_0, 0), "tensor `x` has rows of 16 values, which blocks of 32 (Q8_0) do not divide"),
        (one(&[4], 4, 0), "tensor `x` cannot be read: weight type 4 (Q4_2) was withdrawn"),
        (one(&[4], 77_777, 0), "tensor `x` cannot be read: weight type 77777 is unknown"),
        // Places.
        (one(&[4], F32, u64::MAX - 31), "tensor `x` takes 16 bytes at offset 18446744073709551584, but the file has 32 bytes of data"),
        (one(&[4], F32, 32), "tensor `x` takes 16 bytes at offset 32, but the file has 32 bytes of data; it may be cut short"),
        (one(&[9], F32, 0), "tensor `x` takes 36 bytes at offset 0, but the file has 32 bytes of data"),
        (one(&[4], F32, 16), "tensor `x` lies at offset 16, which is not a multiple of the alignment 32"),
        (two(0, 0), "tensor `y` at offset 0 overlaps `x`, which ends at 16"),
        (two(32, 32), "tensor `y` at offset 32 overlaps `x`, which ends at 48"),
        (Raw::head(1, 0).tensor("x", &[4], F32, 0), "tensor `x` takes 16 bytes at offset 0, but the file has 0 bytes of data"),
        // Alignment.
        (alignment(0), "`general.alignment` is 0; it must be a power of two from 8 to 65536"),
        (alignment(3), "`general.alignment` is 3; it must be a power of two"),
        (alignment(4), "`general.alignment` is 4; it must be a power of two"),
        (alignment(1 << 31), "`general.alignment` is 2147483648; it must be a power of two"),
        (
            Raw::head(0, 1).pair("general.alignment", 8, &1u64.to_le_bytes()).bytes(b"8"),
            "`general.alignment` should be a non-negative integer, but is a string",
        ),
        (
            Raw::head(0, 1).pair("general.alignment", 6, &32f32.to_le_bytes()),
            "`general.alignment` should be a non-negative integer, but is a float",
        ),
        // Versions and other files.
        (Raw::default().bytes(b"GGUF").u32(1).bytes(&[0; 32]), "GGUF version 1 (of August 2023) is not read"),
        (Raw::default().bytes(b"GGUF").u32(3u32.swap_bytes()).bytes(&[0; 32]), "is a big-endian GGUF file"),
        (Raw::default().bytes(b"GGUF").u32(4).bytes(&[0; 32]), "GGUF version 4 is not known; 2 and 3 are"),
        (Raw::default().bytes(b"GGUF").u32(0x0102_0304).bytes(&[0; 32]), "GGUF version 16909060 is not known"),
        (Raw::default().bytes(b"GGU"), "is not a GGUF file: it does not start with `GGUF`"),
        (Raw::default().bytes(b"\x1f\x8b\x08\0\0\0\0\0"), "is gzip-compressed; unpack it first"),
        (Raw::default().bytes(b"\n <!DOCTYPE html><html>"), "is an HTML page"),
        (Raw::default().bytes(b"<html><head><title>401</title>"), "is an HTML page"),
        (Raw::default().bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n"), "is a Git LFS pointer"),
        (Raw::default().bytes(b"<?xml version=\"1.0\"?><Error>"), "is an XML document"),
        (Raw::default().bytes(b"PK\x03\x04\0\0"), "is a zip archive, or a pickled PyTorch checkpoint"),
        (Raw::default().bytes(b"tjgg\x03\0\0\0"), "is a GGJT file from before GGUF"),
        (Raw::default().bytes(b"Entry not found"), "is not a GGUF file"),
        (Raw::default(), "is empty; copy or download it again"),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    for (raw, want) in cases {
        fs::write(&path, &raw.0).unwrap();
        let text = refusal(&path);
        assert!(text.contains(want), "wanted: {want}\n   got: {text}");
        assert!(text.starts_with(&*path.to_string_lossy()) && text.len() < 600, "{text}");
    }
}

/// The cases above start from these, which must be whole, or they would show nothing.
#[test]
fn the_unbroken_forms_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let scalar = Raw::head(1, 0).tensor("x", &[], F32, 0).data(4);
    let hole = Raw::head(2, 0).tensor("y", &[4], F32, 64).tensor("x", &[4], F32, 0).data(80);
    for (raw, tensors) in [
        (one(&[4], F32, 0), 1),
        (one(&[2, 2, 1, 1], F32, 0), 1),
        (one(&[8], F32, 0), 1),
        (two(0, 32), 2),
        (two(32, 0), 2),
        (scalar, 1),
        (hole, 2),
        (alignment(8), 0),
        (alignment(65536), 0),
        (array(4, 4, &[0; 16]), 0),
        (array(8, 1, &0u64.to_le_bytes()), 0),
        (Raw::head(0, 0), 0),
    ] {
        fs::write(&path, &raw.0).unwrap();
        let c = Checkpoint::open(&path).unwrap();
        assert_eq!(c.tensors.len(), tensors);
    }
    // A broken character in a value does not make a model unusable.
    fs::write(&path, Raw::head(0, 1).pair("general.author", 8, &[]).text(b"Andr\xe9").0).unwrap();
    let c = Checkpoint::open(&path).unwrap();
    assert_eq!(c.metadata.text("general.author").unwrap(), Some("Andr\u{fffd}"));
}

#[test]
fn truncated_at_every_byte() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let whole = fs::read(data("small.gguf")).unwrap();
    let last = Checkpoint::open(data("small.gguf")).unwrap();
    // The file's end is padding, whose loss loses nothing.
    let data = |t: &onebit_formats::Tensor| whole.windows(t.stored_bytes()).rposition(|w| w == &*t.bytes()).unwrap() + t.stored_bytes();
    let needed = last.tensors.values().map(data).max().unwrap();
    assert!(needed < whole.len());
    for n in 0..whole.len() {
        fs::write(&path, &whole[..n]).unwrap();
        let opened = Checkpoint::open(&path);
        assert_eq!(opened.is_ok(), n >= needed, "{n} of {} bytes: {opened:?}", whole.len());
    }
}

#[test]
fn not_a_regular_file() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("pipe.gguf");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR, 0).unwrap();
    // Must not wait for a writer.
    assert!(refusal(&fifo).contains("is a FIFO"));
    assert!(refusal(Path::new("/dev/null")).contains("is a device"));
    let inner = folder.path().join("folder.gguf");
    fs::create_dir(&inner).unwrap();
    assert!(refusal(&inner).contains("holds neither model.safetensors nor a .gguf file"));
    assert!(refusal(&folder.path().join("absent.gguf")).contains("No such file"));
}

/// Copies the three parts of the split model, so that one can be broken.
fn parts() -> (tempfile::TempDir, Vec<std::path::PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let paths = (1..=3).map(|n| {
        let name = format!("split-0000{n}-of-00003.gguf");
        let to = folder.path().join(&name);
        fs::copy(data(&name), &to).unwrap();
        to
    });
    let paths = paths.collect();
    (folder, paths)
}

/// Changes the little-endian value of `key`, which has `N` bytes.
fn set<const N: usize>(path: &Path, key: &str, value: [u8; N]) {
    let mut bytes = fs::read(path).unwrap();
    let at = bytes.windows(key.len()).position(|w| w == key.as_bytes()).unwrap() + key.len() + 4;
    bytes[at..at + N].copy_from_slice(&value);
    fs::write(path, bytes).unwrap();
}

#[test]
fn split_faults() {
    let (folder, p) = parts();
    Checkpoint::open(&p[1]).unwrap();
    assert_eq!(Checkpoint::open(folder.path()).unwrap().tensors.len(), 5, "a folder with one split model");

    fs::remove_file(&p[1]).unwrap();
    let text = refusal(&p[2]);
    assert!(text.ends_with("is part 3 of 3; missing beside it: split-00002-of-00003.gguf"), "{text}");

    let (_folder, p) = parts();
    fs::rename(&p[0], p[0].with_file_name("x")).unwrap();
    fs::rename(&p[1], &p[0]).unwrap();
    fs::rename(p[0].with_file_name("x"), &p[1]).unwrap();
    let text = refusal(&p[0]);
    assert!(text.ends_with("`split.no` is 1, but by its name it should be 0; were files renamed?"), "{text}");

    let (_folder, p) = parts();
    set(&p[2], "split.count", 4u16.to_le_bytes());
    let text = refusal(&p[0]);
    assert!(text.ends_with("`split.count` is 4, but the name says 3") && text.contains("split-00003"), "{text}");

    let (_folder, p) = parts();
    for p in &p {
        set(p, "split.tensors.count", 7i32.to_le_bytes());
    }
    let text = refusal(&p[0]);
    assert!(text.ends_with("`split.tensors.count` is 7, but the 3 parts have 5 tensors"), "{text}");

    // A part of another model: it disagrees on what both say, or brings a tensor of a name that is there.
    let (_folder, p) = parts();
    set(&p[1], "split.tensors.count", 6i32.to_le_bytes());
    let text = refusal(&p[0]);
    assert!(text.contains("is not of the same model as split-00001-of-00003.gguf") && text.contains("`split.tensors.count`"), "{text}");
    let (_folder, p) = parts();
    let mut bytes = fs::read(&p[2]).unwrap();
    let at = bytes.windows(2).position(|w| w == b"t4").unwrap();
    bytes[at + 1] = b'0';
    fs::write(&p[2], bytes).unwrap();
    let text = refusal(&p[0]);
    assert!(text.contains("split-00003") && text.ends_with("tensor `t0` is also in split-00001-of-00003.gguf"), "{text}");

    let (folder, p) = parts();
    let renamed = folder.path().join("mine.gguf");
    fs::rename(&p[0], &renamed).unwrap();
    let text = refusal(&renamed);
    assert!(text.contains("is one part of a model in 3 files") && text.contains("NAME-00001-of-00003.gguf"), "{text}");

    let named = folder.path().join("whole-00001-of-00002.gguf");
    fs::copy(data("small.gguf"), &named).unwrap();
    let text = refusal(&named);
    assert!(text.contains("is named as part 1 of 2, but its metadata has no `split.count`"), "{text}");
    let text = refusal(folder.path());
    assert!(text.contains("holds 3 GGUF models; name one of mine.gguf, split-00002-of-00003.gguf, whole-00001-of-00002.gguf"), "{text}");
}
