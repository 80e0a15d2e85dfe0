//! Changes real files at random, and opens them: whatever the bytes, opening must neither panic nor take long nor much memory.
//!
//! `ONEBIT_MUTATION_SECONDS` sets how long (2 by default), `ONEBIT_MUTATION_SEED` where the random numbers start; a
//! failure prints the seed and the round, and leaves the files.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;
#[path = "../../../tests/random.rs"]
mod random;

use common::{counting, data};
use onebit_formats::{Checkpoint, Meta};
use random::Random;
use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    time::{Duration, Instant},
};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// The most that opening one of these small files may allocate at once.
const MEMORY: usize = 4 << 20;
const TIME: Duration = Duration::from_secs(1);

/// Numbers at which checks tend to go wrong.
fn number(r: &mut Random, len: usize) -> u64 {
    let edge =
        *r.pick(&[0, 1, 7, 8, 31, 32, 255, 256, 1 << 15, 1 << 16, 1 << 31, 1 << 32, 1 << 42, 1 << 62, 1 << 63, u64::MAX, len as u64]);
    match r.below(4) {
        0 => edge.wrapping_sub(1),
        1 => edge.wrapping_add(1),
        2 => r.next() >> r.below(64),
        _ => edge,
    }
}

/// A place in `bytes`, mostly in the first half, where headers are.
fn place(r: &mut Random, bytes: &[u8]) -> usize {
    let n = if r.below(4) == 0 { bytes.len() } else { bytes.len().div_ceil(2) };
    r.below(n.max(1)).min(bytes.len())
}

/// A short range of `bytes`.
fn range(r: &mut Random, bytes: &[u8]) -> std::ops::Range<usize> {
    let start = place(r, bytes);
    let most = if r.below(8) == 0 { bytes.len() } else { 64 };
    start..bytes.len().min(start + r.below(most.max(1)))
}

/// Changes `bytes` in one way; `other` is a second file to take pieces of.
fn mutate(r: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) {
    const TOKENS: &[&str] =
        &["{", "}", "[", "]", "\"", ",", ":", "null", "-1", "1e999", "\\u0000", "\"x\":", "../", "Infinity", "[[[[[[[[", "\u{fffd}"];
    let at = place(r, bytes);
    match r.below(10) {
        0 if at < bytes.len() => bytes[at] ^= 1 << r.below(8),
        1 => bytes.truncate(at),
        2 => {
            let some = range(r, other);
            bytes.splice(at..at, other[some].to_vec()).for_each(drop);
        }
        3 => {
            let (gone, some) = (range(r, bytes), range(r, other));
            bytes.splice(gone, other[some].to_vec()).for_each(drop);
        }
        4 => {
            let gone = range(r, bytes);
            bytes.drain(gone);
        }
        5 => {
            let some = bytes[range(r, bytes)].to_vec();
            bytes.splice(at..at, some).for_each(drop);
        }
        6 | 7 => {
            let value = number(r, bytes.len()).to_le_bytes();
            let width = *r.pick(&[1, 2, 4, 8]);
            let end = bytes.len().min(at + width);
            bytes[at..end].copy_from_slice(&value[..end - at]);
        }
        8 => {
            // A decimal number becomes another one.
            let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit).map(|p| p + at) else { return };
            let end = bytes[start..].iter().position(|b| !b.is_ascii_digit()).map_or(bytes.len(), |p| p + start);
            let text = number(r, bytes.len()).to_string();
            bytes.splice(start..end, text.into_bytes()).for_each(drop);
        }
        _ => {
            let token = r.pick(TOKENS).as_bytes().to_vec();
            bytes.splice(at..at, token).for_each(drop);
        }
    }
}

/// Opens, and reads all there is.
fn open(path: &Path) -> Option<usize> {
    let c = Checkpoint::open(path).map_err(|e| e.to_string()).ok()?;
    let mut sum = 0usize;
    for (name, t) in &c.tensors {
        assert_eq!(name, t.name());
        sum += t.bytes().iter().map(|b| usize::from(*b)).sum::<usize>();
        // A type of few bits per value may make many values of a small file.
        if t.values() < 1 << 16 {
            sum += t.to_f32().len();
            assert!(t.rows() == 0 || t.row(t.rows() - 1, &mut vec![]).len() * t.rows() == t.bytes().len());
        }
        t.release();
    }
    for value in c.metadata.pairs.values() {
        if let Meta::Texts(texts) = value {
            sum += texts.iter().map(<[u8]>::len).sum::<usize>();
        }
    }
    c.sidecar("tokenizer.json").ok();
    Some(sum)
}

/// A model: its files, and the name of the one to open (empty for the folder).
struct Sample {
    files: Vec<(String, Vec<u8>)>,
    open: &'static str,
}

fn sample(folder: &Path, names: &[&str], open: &'static str) -> Sample {
    let files = names.iter().map(|n| (n.to_string(), fs::read(folder.join(n)).unwrap())).collect();
    Sample { files, open }
}

#[test]
fn nothing_breaks_the_readers() {
    let d = data("");
    let split = ["split-00001-of-00003.gguf", "split-00002-of-00003.gguf", "split-00003-of-00003.gguf"];
    let index = "model.safetensors.index.json";
    let folder = [index, "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "config.json"];
    let samples = [
        sample(&d, &["small.gguf"], "small.gguf"),
        sample(&d, &["kinds.gguf"], "kinds.gguf"),
        sample(&d, &["smollm2-cut.gguf"], "smollm2-cut.gguf"),
        sample(&d, &split, split[1]),
        sample(&d, &["small.safetensors"], "small.safetensors"),
        sample(&d, &["kinds.safetensors"], "kinds.safetensors"),
        sample(&d.join("llama-cut"), &folder, ""),
    ];
    let all: Vec<&Vec<u8>> = samples.iter().flat_map(|s| s.files.iter().map(|f| &f.1)).collect();
    let seed = random::seed();
    let seconds = random::time();
    // In memory where the system has such a folder: the disk would take most of the time.
    let shm = Path::new("/dev/shm");
    let temporary = if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() }.unwrap();
    for (i, sample) in samples.iter().enumerate() {
        let folder = temporary.path().join(i.to_string());
        fs::create_dir(&folder).unwrap();
        sample.files.iter().for_each(|(name, bytes)| fs::write(folder.join(name), bytes).unwrap());
        assert!(open(&folder.join(sample.open)).is_some(), "{} must open unchanged", sample.files[0].0);
    }
    let (mut rounds, mut opened) = (0u64, 0u64);
    let begun = Instant::now();
    while begun.elapsed() < seconds {
        // Each round starts anew from the seed, so that it can be repeated alone.
        let r = &mut Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ rounds);
        let number = r.below(samples.len());
        let sample = &samples[number];
        let folder = temporary.path().join(number.to_string());
        let (name, whole) = r.pick(&sample.files);
        let mut bytes = whole.clone();
        for _ in 0..1 + r.below(4) {
            let other = r.below(all.len());
            mutate(r, &mut bytes, all[other]);
        }
        let changed = folder.join(name);
        fs::write(&changed, &bytes).unwrap();
        let path = folder.join(sample.open);
        counting::start();
        let start = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| open(&path)));
        let (time, memory) = (start.elapsed(), counting::peak());
        if outcome.is_err() || time > TIME || memory > MEMORY {
            let _ = temporary.keep();
            let what = if outcome.is_err() { "panic" } else { "limit" };
            panic!("{what} in round {rounds} of ONEBIT_MUTATION_SEED={seed}: {time:?}, {memory} bytes; see {}", changed.display());
        }
        fs::write(&changed, whole).unwrap();
        opened += u64::from(matches!(outcome, Ok(Some(_))));
        rounds += 1;
    }
    eprintln!("{rounds} changed models, of which {opened} opened");
    // Most changes must be noticed, and some must not matter (they hit data): else the test shows nothing.
    assert!(rounds > 100 && opened > rounds / 50 && opened < rounds, "{opened} of {rounds} opened");
}
