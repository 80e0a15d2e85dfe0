//! Fixtures with a difference: copies whose settings or tensors are changed.

#![allow(dead_code, unreachable_pub)] // each test uses some of it

pub mod towers;

use onebit_formats::{Checkpoint, Meta, gguf, safetensors};
use onebit_models::{Converted, Options, convert};
use onebit_quants::{F32, WeightType};
use onebit_reference::{
    Reference,
    check::{self, Expected},
    evidence::{self, Form},
};
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    error::Error,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use tempfile::TempDir;

pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// The fixture `name`, one of those that lie here.
pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// The model of the family in `path` computes what is expected in `folder`, in every way of feeding.
pub fn agrees(family: &str, path: &Path, folder: &Path) -> Outcome {
    let model = onebit_models::load(&Checkpoint::open(path)?)?;
    let report = check::fixture(&Reference, model, &Expected::open(folder)?, &check::limits())?;
    eprintln!("{}\n{report}", path.display());
    report.hold(check::BAR)?;
    let differ: Vec<_> = report.cases.iter().filter(|c| !c.identical && !c.name.ends_with("short")).collect();
    assert!(differ.is_empty(), "the reference computes each row by itself, but {differ:?}");
    evidence::record(family, Form::of(path), evidence::author(folder), report.worst());
    Ok(())
}

/// A tensor that a test may change.
#[derive(Clone)]
pub struct Raw {
    pub ty: WeightType,
    pub shape: Vec<usize>,
    pub bytes: Vec<u8>,
}

impl Raw {
    /// Numbers as F32.
    pub fn new(shape: &[usize], values: &[f32]) -> Self {
        Self { ty: F32, shape: shape.to_vec(), bytes: values.iter().flat_map(|v| v.to_le_bytes()).collect() }
    }

    pub fn values(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.shape.iter().product()];
        self.ty.decode(&self.bytes, &mut values);
        values
    }

    /// The numbers times `by`, as F32.
    pub fn scaled(&self, by: f32) -> Self {
        Self::new(&self.shape, &self.values().iter().map(|x| x * by).collect::<Vec<_>>())
    }

    /// Each run of `rows` rows (numbers of a vector) twice.
    pub fn doubled(&self, rows: usize) -> Self {
        let run = self.bytes.len() / self.shape[0] * rows;
        let bytes = self.bytes.chunks(run).flat_map(|run| [run, run].concat()).collect();
        Self { ty: self.ty, shape: [&[2 * self.shape[0]], &self.shape[1..]].concat(), bytes }
    }
}

pub type Tensors = BTreeMap<String, Raw>;

/// The tensors of a checkpoint.
pub fn tensors(checkpoint: &Checkpoint) -> Tensors {
    let raw = |t: &onebit_formats::Tensor| Raw { ty: t.ty(), shape: t.shape().to_vec(), bytes: t.bytes().to_vec() };
    checkpoint.tensors.iter().map(|(name, t)| (name.clone(), raw(t))).collect()
}

/// A copy of the fixture `name`, one of those that lie here, with changed settings and tensors.
pub fn folder(name: &str, change: impl FnOnce(&mut Map<String, Value>, &mut Tensors)) -> Outcome<TempDir> {
    changed(&data(name), change)
}

/// A copy of the fixture in the folder `source` with changed settings and tensors.
pub fn changed(source: &Path, change: impl FnOnce(&mut Map<String, Value>, &mut Tensors)) -> Outcome<TempDir> {
    let checkpoint = Checkpoint::open(source)?;
    let (mut config, mut tensors) = (checkpoint.config.clone(), tensors(&checkpoint));
    change(&mut config, &mut tensors);
    let out = tempfile::tempdir()?;
    std::fs::write(out.path().join("config.json"), serde_json::to_string(&config)?)?;
    copy_expected(source, out.path())?;
    let mut writer = safetensors::Writer::new(out.path().join("model.safetensors"));
    tensors.iter().try_for_each(|(name, t)| writer.tensor(name, t.ty, &t.shape))?;
    let mut data = writer.begin()?;
    while let Some(name) = data.pending().map(str::to_string) {
        data.write(&name, &tensors[&name].bytes)?;
    }
    data.finish()?;
    Ok(out)
}

/// The fixture `name`, one of those that lie here, as `model.gguf` in a folder, with changed pairs and tensors.
pub fn gguf_file(name: &str, change: impl FnOnce(&mut BTreeMap<String, Meta>, &mut Tensors)) -> Outcome<TempDir> {
    changed_gguf(&data(name), change)
}

/// The fixture in the folder `source` as `model.gguf` in a folder, with changed pairs and tensors.
pub fn changed_gguf(source: &Path, change: impl FnOnce(&mut BTreeMap<String, Meta>, &mut Tensors)) -> Outcome<TempDir> {
    let out = tempfile::tempdir()?;
    let file = out.path().join("model.gguf");
    convert(&Checkpoint::open(source)?, &file, &Options::default(), &mut |_| {})?;
    let made = Checkpoint::open(&file)?;
    let (mut pairs, mut tensors) = (made.metadata.pairs.clone(), tensors(&made));
    change(&mut pairs, &mut tensors);
    write_gguf(&file, &pairs, &tensors)?;
    copy_expected(source, out.path())?;
    Ok(out)
}

/// The expected values, and who computed them.
fn copy_expected(from: &Path, to: &Path) -> Outcome {
    for name in ["expected.safetensors", "meta.json"] {
        if from.join(name).exists() {
            std::fs::copy(from.join(name), to.join(name))?;
        }
    }
    Ok(())
}

fn write_gguf(file: &Path, pairs: &BTreeMap<String, Meta>, tensors: &Tensors) -> Outcome {
    let mut writer = gguf::Writer::new(file);
    pairs.iter().try_for_each(|(key, value)| writer.pair(key, value))?;
    tensors.iter().try_for_each(|(name, t)| writer.tensor(name, t.ty, &t.shape))?;
    let mut data = writer.begin()?;
    tensors.iter().try_for_each(|(name, t)| data.write(name, &t.bytes))?;
    Ok(data.finish()?)
}

/// Why the checkpoint at `path` is refused.
pub fn refusal(path: &Path) -> Outcome<String> {
    let loaded = Checkpoint::open(path).map_err(|e| e.to_string()).and_then(|c| onebit_models::load(&c).map_err(|e| e.to_string()));
    match loaded {
        Ok(_) => Err("it was accepted".into()),
        Err(error) => Ok(error),
    }
}

/// A Python that has xllamacpp, the witness for what llama.cpp does.
pub fn python() -> Option<String> {
    let python = std::env::var("ONEBIT_PEERS").unwrap_or_else(|_| "python3".into());
    let has = Command::new(&python).args(["-c", "import xllamacpp"]).stderr(Stdio::null()).status().is_ok_and(|s| s.success());
    if !has {
        eprintln!("SKIPPED: `{python}` has no xllamacpp; install it, or name a Python that has it in ONEBIT_PEERS");
    }
    has.then_some(python)
}

/// Why llama.cpp does not run the file that was made as it is meant, where `convert` says so.
pub fn unread(made: &Converted) -> Option<&str> {
    made.remarks.iter().find(|remark| remark.starts_with("llama.cpp does not run the file")).map(String::as_str)
}

/// What `tests/llama_cpp.py` at the root prints for the file.
pub fn llama_cpp(python: &str, file: &Path, arguments: &[&str]) -> Outcome<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/llama_cpp.py");
    let run = Command::new(python).arg(script).arg(file).args(arguments).env("GGML_NO_BACKTRACE", "1").output()?;
    if !run.status.success() {
        return Err(String::from_utf8_lossy(&run.stderr).into());
    }
    Ok(String::from_utf8(run.stdout)?)
}

/// llama.cpp's logits of `ids`, which answer to the source where there is one: `[tokens, vocabulary]`.
pub fn llama_cpp_logits(python: &str, file: &Path, ids: &[u32], source: Option<&[u32]>) -> Outcome<Vec<f32>> {
    let list = |ids: &[u32]| ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let lists: Vec<String> = [Some(ids), source].into_iter().flatten().map(list).collect();
    let text = llama_cpp(python, file, &lists.iter().map(String::as_str).collect::<Vec<_>>())?;
    let rows: Vec<&str> = text.lines().rev().take(ids.len()).collect();
    Ok(rows.into_iter().rev().flat_map(|r| r.split(' ')).map(str::parse).collect::<Result<_, _>>()?)
}
