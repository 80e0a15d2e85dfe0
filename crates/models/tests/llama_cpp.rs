//! llama.cpp reads what `convert` writes, and computes the same.
//!
//! Needs a Python with the package xllamacpp: `python3`, or the one that `ONEBIT_PEERS` names. Skipped, loudly, without.

mod common;

use common::Outcome;
use onebit_formats::Checkpoint;
use onebit_models::{Options, convert};
use onebit_quants::F32;
use onebit_reference::check::{self, Expected};
use std::{
    path::Path,
    process::{Command, Stdio},
};

/// A Python that has xllamacpp.
fn python() -> Option<String> {
    let python = std::env::var("ONEBIT_PEERS").unwrap_or_else(|_| "python3".into());
    let has = Command::new(&python).args(["-c", "import xllamacpp"]).stderr(Stdio::null()).status().is_ok_and(|s| s.success());
    if !has {
        eprintln!("SKIPPED: `{python}` has no xllamacpp; install it, or name a Python that has it in ONEBIT_PEERS");
    }
    has.then_some(python)
}

/// llama.cpp's logits of `ids`, `[tokens, vocabulary]`.
fn logits(python: &str, file: &Path, ids: &[u32]) -> Outcome<Vec<f32>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/llama_cpp.py");
    let list = ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let run = Command::new(python).arg(script).arg(file).arg(list).env("GGML_NO_BACKTRACE", "1").output()?;
    if !run.status.success() {
        return Err(String::from_utf8_lossy(&run.stderr).into());
    }
    let text = String::from_utf8(run.stdout)?;
    let rows: Vec<&str> = text.lines().rev().take(ids.len()).collect();
    Ok(rows.into_iter().rev().flat_map(|r| r.split(' ')).map(str::parse).collect::<Result<_, _>>()?)
}

/// Differences are within what llama.cpp's f16 cache of keys and values makes, and the most likely tokens are the same.
fn agrees(name: &str) -> Outcome {
    let (Some(python), Some(folder)) = (python(), check::folder(name)) else { return Ok(()) };
    let temporary = tempfile::tempdir()?;
    let file = temporary.path().join("model.gguf");
    convert(&Checkpoint::open(&folder)?, &file, &Options { ty: Some(F32) }, &mut |_| {})?;
    let expected = Expected::open(&folder)?;
    let found = logits(&python, &file, &expected.long)?;
    assert_eq!(found.len(), expected.long_logits.len());
    let worst = found.iter().zip(&expected.long_logits).map(|(a, b)| f64::from((a - b).abs())).fold(0.0, f64::max) / expected.deviation();
    eprintln!("{name}: {worst:.1e}");
    assert!(worst < 0.01, "{name} differs by {worst}");
    let vocabulary = found.len() / expected.long.len();
    let best = |row: &[f32]| (0..row.len()).max_by(|a, b| row[*a].total_cmp(&row[*b]));
    for (i, (a, b)) in found.chunks(vocabulary).zip(expected.long_logits.chunks(vocabulary)).enumerate() {
        assert_eq!(best(a), best(b), "{name}: the most likely token at position {i}");
    }
    Ok(())
}

macro_rules! fixtures {
    ($($name:ident)*) => { $(#[test] fn $name() -> Outcome { agrees(stringify!($name)) })* };
}
fixtures! { llama mistral arcee qwen2 qwen3 qwen3_moe qwen3_5_text qwen3_5_moe_text }
