use crate::{Loudness, check, failure::Usage, open, progress, terminal::Plain};
use onebit_formats::{Checkpoint, Meta, Source, Tensor, npy};
use serde_json::{Value, json};
use std::{collections::BTreeMap, io::Write, path::PathBuf};

/// Explain a model file: architecture, settings, tensors, plan
#[derive(clap::Args)]
pub(crate) struct Show {
    /// The model
    model: String,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// List all tensors, and all values of long settings
    #[arg(long)]
    all: bool,
    /// Print the plan: every op with its shapes and weights
    #[arg(long, conflicts_with = "tensor")]
    plan: bool,
    /// Read every value and report NaNs, infinities, and blocks of zeros or of one magnitude only, by tensor
    #[arg(long, conflicts_with_all = ["plan", "tensor"])]
    check: bool,
    /// Decode one tensor to f32
    #[arg(long, value_name = "NAME", requires = "npy")]
    tensor: Option<String>,
    /// Where to write the tensor, as a NumPy file
    #[arg(long, value_name = "FILE", requires = "tensor")]
    npy: Option<PathBuf>,
}

impl Show {
    pub(crate) fn run(&self, loudness: Loudness) -> anyhow::Result<()> {
        let checkpoint = open::checkpoint(&self.model, loudness)?;
        if self.check {
            return self.check(&checkpoint, loudness);
        }
        if let (Some(name), Some(path)) = (&self.tensor, &self.npy) {
            open::not_over_itself(&checkpoint, path)?;
            return write_tensor(&checkpoint, name, path);
        }
        let mut out = Plain(std::io::stdout().lock());
        if self.plan {
            let model = onebit_models::load(&checkpoint)?;
            if self.json {
                writeln!(out, "{}", serde_json::to_string_pretty(&model.plan)?)?;
            } else {
                write!(out, "{}", model.plan)?;
            }
            return Ok(());
        }
        let model = onebit_models::load(&checkpoint);
        let bytes: usize = checkpoint.tensors.values().map(Tensor::stored_bytes).sum();
        let values: usize = checkpoint.tensors.values().map(Tensor::values).sum();
        let mut types: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for t in checkpoint.tensors.values() {
            let entry = types.entry(t.stored_as()).or_default();
            *entry = (entry.0 + 1, entry.1 + t.stored_bytes());
        }
        let source = if checkpoint.source == Source::Gguf { "GGUF" } else { "Hugging Face" };
        if self.json {
            let plan = model.as_ref().ok().map(|m| {
                json!({"architecture": m.plan.name, "layers": m.plan.layers, "vocabulary": m.plan.vocabulary, "context": m.plan.context,
                       "kv_bytes_per_token": m.plan.kv_per_token() * 2, "state_bytes_per_sequence": m.plan.fixed_state() * 4})
            });
            let tensors: Vec<_> = checkpoint
                .tensors
                .values()
                .map(|t| json!({"name": t.name(), "type": t.stored_as(), "shape": t.shape(), "bytes": t.stored_bytes()}))
                .collect();
            let settings: BTreeMap<_, _> = settings(&checkpoint, self.all).collect();
            let value = json!({
                "path": checkpoint.path, "source": source, "bytes": bytes, "parameters": values,
                "runs": model.is_ok(), "why_not": model.as_ref().err().map(ToString::to_string), "plan": plan,
                "types": types.iter().map(|(n, (c, b))| json!({"type": n, "tensors": c, "bytes": b})).collect::<Vec<_>>(),
                "settings": settings, "tensors": tensors,
            });
            writeln!(out, "{}", serde_json::to_string_pretty(&value)?)?;
            return Ok(());
        }
        writeln!(out, "{}", checkpoint.path.display())?;
        writeln!(
            out,
            "{source}, {} tensors, {:.1} M parameters, {:.1} MB",
            checkpoint.tensors.len(),
            values as f64 / 1e6,
            bytes as f64 / 1e6
        )?;
        match &model {
            Ok(m) => {
                let p = &m.plan;
                writeln!(out, "architecture {}, {} layers, vocabulary {}, context {}", p.name, p.layers, p.vocabulary, p.context)?;
                writeln!(
                    out,
                    "caches: {} bytes per token (f16), {} bytes of state per sequence",
                    p.kv_per_token() * 2,
                    p.fixed_state() * 4
                )?;
            }
            Err(e) => writeln!(out, "cannot run: {e}")?,
        }
        for (name, (count, bytes)) in &types {
            writeln!(out, "  {name:8} {count:5} tensors  {:10.1} MB", *bytes as f64 / 1e6)?;
        }
        writeln!(out, "settings")?;
        for (key, value) in settings(&checkpoint, self.all) {
            writeln!(out, "  {key} = {value}")?;
        }
        if self.all {
            writeln!(out, "tensors")?;
            for t in checkpoint.tensors.values() {
                writeln!(out, "  {:48} {:8} {:?}", t.name(), t.stored_as(), t.shape())?;
            }
        }
        Ok(())
    }
}

impl Show {
    fn check(&self, checkpoint: &Checkpoint, loudness: Loudness) -> anyhow::Result<()> {
        let bar = progress::bar(loudness, "checking", checkpoint.bytes());
        let found = check::check(checkpoint, &|bytes| bar.inc(bytes as u64));
        bar.finish_and_clear();
        let mut out = Plain(std::io::stdout().lock());
        if self.json {
            writeln!(out, "{}", serde_json::to_string_pretty(&found)?)?;
        } else {
            for f in found.iter().filter(|f| !f.words().is_empty()) {
                writeln!(out, "{}: {}", f.tensor, f.words())?;
            }
        }
        let broken = found.iter().filter(|f| f.broken()).count();
        if broken > 0 {
            return Err(
                Usage(format!("{}: {broken} of {} tensors hold numbers that are none", checkpoint.path.display(), found.len())).into()
            );
        }
        if !self.json {
            writeln!(out, "{} tensors, no NaN and no infinity", found.len())?;
        }
        Ok(())
    }
}

fn write_tensor(checkpoint: &Checkpoint, name: &str, path: &PathBuf) -> anyhow::Result<()> {
    let Some(tensor) = checkpoint.tensor(name) else {
        return Err(Usage(format!("{} has no tensor `{name}`; `1bit show --all` lists them", checkpoint.path.display())).into());
    };
    let mut file = npy::Writer::create(path, tensor.shape())?;
    let (mut row, mut room) = (vec![0.0; tensor.columns()], vec![]);
    for r in 0..tensor.rows() {
        tensor.ty().decode(tensor.row(r, &mut room), &mut row);
        file.write(&row)?;
    }
    Ok(file.finish()?)
}

/// What the files say about the model; long lists are shortened unless `all`.
fn settings(checkpoint: &Checkpoint, all: bool) -> impl Iterator<Item = (String, Value)> {
    let gguf = checkpoint.metadata.pairs.iter().map(move |(k, v)| (k.clone(), meta(v, all)));
    let config = checkpoint.config.iter().map(|(k, v)| (k.clone(), v.clone()));
    gguf.chain(config)
}

fn meta(value: &Meta, all: bool) -> Value {
    fn list<T>(items: impl ExactSizeIterator<Item = T>, all: bool) -> Value
    where
        Value: From<T>,
    {
        let count = items.len();
        let shown = if all { count } else { count.min(6) };
        let mut out: Vec<Value> = items.take(shown).map(Value::from).collect();
        if shown < count {
            out.push(format!("... {count} in all").into());
        }
        out.into()
    }
    match value {
        Meta::Unsigned(v) => (*v).into(),
        Meta::Signed(v) => (*v).into(),
        Meta::Float(v) => (*v).into(),
        Meta::Bool(v) => (*v).into(),
        Meta::Text(v) if v.chars().count() > 100 && !all => {
            format!("{}... {} bytes in all", v.chars().take(60).collect::<String>(), v.len()).into()
        }
        Meta::Text(v) => v.clone().into(),
        Meta::Integers(v) => list(v.iter().copied(), all),
        Meta::Floats(v) => list(v.iter().copied(), all),
        Meta::Bools(v) => list(v.iter().copied(), all),
        Meta::Texts(v) => list(v.iter().map(|t| String::from_utf8_lossy(t).into_owned()), all),
    }
}
