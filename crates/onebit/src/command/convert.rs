use crate::{Loudness, failure::Usage, interrupt, open, progress};
use onebit_models::{Options, convert, convert_vision};
use onebit_quants::{ALL, WeightType};
use std::path::PathBuf;

/// Write the GGUF form of a Hugging Face directory
#[derive(clap::Args)]
pub(crate) struct Convert {
    /// The model: a directory with safetensors and config.json
    model: String,
    /// The file to write; it appears when it is complete
    out: PathBuf,
    /// How matrices are stored [default: as they are]
    #[arg(long = "type", value_name = "TYPE")]
    ty: Option<String>,
    /// Write its vision tower instead, as the file that belongs beside the other
    #[arg(long)]
    mmproj: bool,
}

impl Convert {
    pub(crate) fn run(&self, loudness: Loudness) -> anyhow::Result<()> {
        interrupt::cleans_up()?;
        let checkpoint = open::checkpoint(&self.model, loudness)?;
        open::not_over_itself(&checkpoint, &self.out)?;
        let ty = match &self.ty {
            None => None,
            Some(name) => Some(WeightType::by_name(name).ok_or_else(|| {
                let known: Vec<_> =
                    ALL.iter().filter(|t| t.info().encode.is_some() && t.info().ggml_id.is_some()).map(|t| t.name()).collect();
                Usage(format!("--type {name}: there is no such weight type; 1bit writes {}", known.join(", ")))
            })?),
        };
        let bytes = checkpoint.tensors.values().map(|t| t.stored_bytes() as u64).sum();
        let bar = progress::bar(loudness, "converting", bytes);
        let convert = if self.mmproj { convert_vision } else { convert };
        let done = convert(&checkpoint, &self.out, &Options { ty }, &mut |p| {
            bar.set_length(p.total as u64);
            bar.set_position(p.done as u64);
        });
        bar.finish_and_clear();
        let done = done?;
        if loudness > Loudness::Quiet {
            for remark in &done.remarks {
                eprintln!("{remark}");
            }
            eprintln!("{}: {}, {} tensors, {:.1} MB", self.out.display(), done.architecture, done.tensors, done.bytes as f64 / 1e6);
        }
        Ok(())
    }
}
