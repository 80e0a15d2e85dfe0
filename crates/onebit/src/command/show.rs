use crate::{Loudness, check, explained::Explained, failure::Usage, open, progress, terminal::Plain};
use onebit_formats::{Checkpoint, npy};
use std::{io::Write, path::PathBuf};

/// Explain a model file, even one that cannot be run: family, settings, tensors, tokenizer, plan
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
        let explained = Explained::new(&checkpoint, self.all);
        if self.json {
            writeln!(out, "{}", serde_json::to_string_pretty(&explained.json())?)?;
        } else {
            explained.write(&mut out)?;
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
