use crate::{Loudness, failure::Usage, interrupt, open, progress};
use anyhow::Context;
use onebit_formats::{Checkpoint, Source};
use onebit_models::convert;
use onebit_quantize::{Importance, Options, Override, Recipe, Rotate, quantize, recipes};
use std::{
    io::Write,
    path::{Path, PathBuf},
};

/// Store a model's weights in fewer bits
///
/// Recipes have llama.cpp's names: Q4_K_M takes Q4_K for most weights, and Q6_K for the output matrix and a part of the values
/// and of the ways down. `--type NAME=TYPE` chooses for tensors by name.
#[derive(clap::Args)]
pub(crate) struct Quantize {
    /// The model: a GGUF file, best in F32, F16 or BF16, or a directory with safetensors, which is converted first (into a file
    /// beside the one to write)
    model: String,
    /// The file to write; it appears when it is complete
    out: PathBuf,
    /// Recipe: Q4_K_M, Q8_0, IQ4_XS, ...
    recipe: String,
    /// Type for tensors by name, in which `*` stands for anything: `blk.*.ffn_down=Q6_K`; can be given several times
    #[arg(long = "type", value_name = "NAME=TYPE")]
    types: Vec<String>,
    /// Importance of inputs, as llama-imatrix writes it (GGUF or the older form)
    #[arg(long, value_name = "FILE")]
    imatrix: Option<PathBuf>,
    /// Rotate the weights in blocks first, so that large values spread over many inputs; the file says so (`prism.hadamard.*`), and
    /// what runs it turns the inputs too: 1bit, and PrismML's llama.cpp [default block: as many inputs as all widths allow, at most 1024]
    #[arg(long, value_name = "BLOCK", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    rotate: Option<usize>,
    /// Threads [default: all processors]
    #[arg(short = 't', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The GGUF form of a directory, in a file beside `out` that has no name any more; `None` where it is a GGUF file already.
fn converted(checkpoint: &Checkpoint, out: &Path, loudness: Loudness) -> anyhow::Result<Option<Checkpoint>> {
    if checkpoint.source == Source::Gguf {
        return Ok(None);
    }
    let folder = out.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let place = tempfile::Builder::new().prefix(".1bit-").suffix(".gguf").tempfile_in(folder);
    let place = place.with_context(|| folder.display().to_string())?.into_temp_path();
    interrupt::removes(&place);
    let bar = progress::bar(loudness, "converting", checkpoint.bytes());
    convert(checkpoint, &place, &onebit_models::Options { ty: None }, &mut |p| {
        bar.set_length(p.total as u64);
        bar.set_position(p.done as u64);
    })?;
    bar.finish_and_clear();
    // It is mapped now, and goes away with the mapping however this ends.
    Ok(Some(Checkpoint::open(&place)?))
}

impl Quantize {
    pub(crate) fn run(&self, loudness: Loudness) -> anyhow::Result<()> {
        let Some(recipe) = Recipe::by_name(&self.recipe) else {
            let known: Vec<_> = recipes().map(|r| r.name).collect();
            return Err(Usage(format!("there is no recipe {}; 1bit knows {}", self.recipe, known.join(", "))).into());
        };
        let overrides =
            self.types.iter().map(|t| Override::parse(t)).collect::<Result<Vec<_>, _>>().map_err(|e| Usage(format!("--type: {e}")))?;
        let importance = self.imatrix.as_deref().map(Importance::read).transpose()?;
        interrupt::cleans_up()?;
        let checkpoint = open::checkpoint(&self.model, loudness)?;
        open::not_over_itself(&checkpoint, &self.out)?;
        let threads = self.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()), |t| t as usize);
        let converted = converted(&checkpoint, &self.out, loudness)?;
        let checkpoint = converted.as_ref().unwrap_or(&checkpoint);
        let bar = progress::bar(loudness, "quantizing", checkpoint.bytes());
        let rotate = self.rotate.map(|block| Rotate { block: Some(block).filter(|b| *b > 0) });
        let options = Options { recipe, overrides, importance, rotate, threads };
        if rotate.is_some() {
            // Only 1bit's own plan tells which weights can be turned.
            onebit_models::load(checkpoint)?;
        }
        let report = quantize(checkpoint, &self.out, &options, &mut |p| bar.set_position(p.done));
        bar.finish_and_clear();
        let report = report?;
        if rotate.is_some()
            && let Err(error) = Checkpoint::open(&self.out).map_err(anyhow::Error::from).and_then(|made| Ok(onebit_models::load(&made)?))
        {
            std::fs::remove_file(&self.out)?;
            return Err(error.context("its weights cannot be rotated"));
        }
        if loudness > Loudness::Quiet {
            for remark in &report.remarks {
                eprintln!("{remark}");
            }
        }
        if self.json {
            let types: Vec<_> = report.types.iter().map(|(t, (n, b))| serde_json::json!({"type": t, "tensors": n, "bytes": b})).collect();
            let value = serde_json::json!({"out": self.out, "recipe": recipe.name, "bytes": report.bytes, "bits_per_weight": report.bits, "types": types});
            writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&value)?)?;
        } else if loudness > Loudness::Quiet {
            let types: Vec<_> = report.types.iter().map(|(t, (n, _))| format!("{n} in {t}")).collect();
            eprintln!(
                "{}: {:.1} MB, {:.2} bits per weight: {}",
                self.out.display(),
                report.bytes as f64 / 1e6,
                report.bits,
                types.join(", ")
            );
        }
        Ok(())
    }
}
