use crate::{
    Loudness,
    failure::Usage,
    interrupt,
    open::{self, DeviceArgs},
    progress,
};
use anyhow::Context;
use onebit_formats::{Checkpoint, Source};
use onebit_plan::{Batch, InputSums, Limits, Model, Span};
use onebit_quantize::{Format, Gathered, Sums};
use onebit_text::{Encode, Tokenizer};
use std::{collections::BTreeMap, path::PathBuf};

/// Measure which inputs of a model's matrices matter, for `1bit quantize --imatrix`
///
/// The model reads the text in windows, and what each matrix is multiplied with is squared and summed, for each expert too. A few
/// hundred thousand tokens of what the model is used for are enough. Give the model in the precision that it was published in.
#[derive(clap::Args)]
pub(crate) struct Imatrix {
    /// The model
    model: String,
    /// A text file
    text: PathBuf,
    /// The file to write; it appears when it is complete
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// How to write it [default: dat where the file's name ends in .dat, else gguf]
    #[arg(long, value_enum, value_name = "FORM")]
    format: Option<Form>,
    /// Tokens in a window
    #[arg(short = 'c', long, default_value_t = 512, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    ctx_size: u32,
    /// Windows to read [default: all of the text]
    #[arg(long, visible_alias = "chunks", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    windows: Option<u32>,
    /// Gather for the output matrix too, which recipes give many bits in any case
    #[arg(long)]
    process_output: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

/// [`Format`], as it is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    Gguf,
    Dat,
}

/// Tokens in one step.
const STEP: usize = 256;

impl Imatrix {
    pub(crate) fn run(&self, loudness: Loudness) -> anyhow::Result<()> {
        let text =
            std::fs::read_to_string(&self.text).with_context(|| self.text.display().to_string()).map_err(|e| Usage(format!("{e:#}")))?;
        interrupt::cleans_up()?;
        let checkpoint = open::checkpoint(&self.model, loudness)?;
        open::not_over_itself(&checkpoint, &self.output)?;
        let tokenizer = Tokenizer::from_checkpoint(&checkpoint)?;
        let tokens = tokenizer.encode(&text, Encode { add_special: true, parse_special: false });
        // Where the vocabulary begins every text with a token, every window begins with it.
        let lead = tokenizer.encode("", Encode { add_special: true, parse_special: false }).first().copied();
        let window = self.ctx_size as usize;
        let windows = (tokens.len() / window).min(self.windows.map_or(usize::MAX, |n| n as usize));
        if windows == 0 {
            let what = format!("{} has {} tokens: too few for a window of {window}; lower --ctx-size", self.text.display(), tokens.len());
            return Err(Usage(what).into());
        }
        let model = open::decoder(&checkpoint, &self.device, loudness, "an importance matrix")?;
        let names = names(&checkpoint, &model, self.process_output);
        let outputs = if self.process_output { STEP } else { 1 };
        let limits = Limits { batch: STEP, slots: 1, outputs, ..open::limits(&model.plan, window, 1, outputs, &self.device) };
        let pages: Vec<u32> = (0..limits.pages as u32).collect();
        let device = open::cpu(&self.device)?.watching();
        let mut executable = open::executable_on(&device, model, &limits, loudness)?;
        let bar = progress::count(loudness, "windows", windows);
        for chunk in tokens.chunks_exact(window).take(windows) {
            let mut ids = chunk.to_vec();
            if let Some(lead) = lead {
                ids[0] = lead;
            }
            let mut start = 0;
            for tokens in ids.chunks(STEP) {
                let outputs = if self.process_output { tokens.len() } else { 0 };
                executable.step(&Batch::text(tokens, &[Span { len: tokens.len(), start, pages: &pages, slot: 0, outputs }]))?;
                start += tokens.len();
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        let tensors = gather(executable.input_sums(), &names);
        if loudness > Loudness::Quiet {
            remark(&tensors);
        }
        let text = self.text.display().to_string();
        let gathered = Gathered { tensors, text, windows, window };
        gathered.write(&self.output, self.form())?;
        if loudness > Loudness::Quiet {
            eprintln!("{}: {} tensors, from {} tokens", self.output.display(), gathered.tensors.len(), windows * window);
        }
        Ok(())
    }

    fn form(&self) -> Format {
        let dat = self.output.extension().is_some_and(|e| e.eq_ignore_ascii_case("dat"));
        match self.format {
            Some(Form::Dat) => Format::Dat,
            None if dat => Format::Dat,
            _ => Format::Gguf,
        }
    }
}

/// The tensor of a GGUF file that each weight is in, by weight; `None` for those that are left out.
fn names(checkpoint: &Checkpoint, model: &Model, output: bool) -> Vec<Option<String>> {
    let name = |w: &onebit_plan::Weight| match (checkpoint.source, w.parts.first()) {
        (Source::Gguf, Some(part)) => part.tensor.name().to_string(),
        _ => w.name.clone(),
    };
    model.weights.iter().map(|w| Some(name(w)).filter(|n| output || n.starts_with("blk."))).collect()
}

/// By tensor. Parts of one tensor are multiplied with the same rows, and count once.
fn gather(sums: Vec<InputSums>, names: &[Option<String>]) -> BTreeMap<String, Sums> {
    let mut tensors = BTreeMap::new();
    for it in sums {
        if let Some(name) = names.get(it.weight.0 as usize).cloned().flatten() {
            tensors.entry(name).or_insert(Sums { squares: it.squares, counts: it.counts });
        }
    }
    tensors
}

/// Tells of experts that the text never reached.
fn remark(tensors: &BTreeMap<String, Sums>) {
    let idle = |s: &Sums| s.counts.iter().filter(|c| **c == 0).count();
    let (experts, missed) = tensors.values().filter(|s| s.counts.len() > 1).fold((0, 0), |(n, m), s| (n + s.counts.len(), m + idle(s)));
    if missed > 0 {
        eprintln!("{missed} of {experts} experts' matrices were never used: a longer or more varied text would reach them");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onebit_plan::WeightId;

    #[test]
    fn parts_of_a_tensor_count_once_and_what_has_no_name_is_left_out() {
        let sums = |id: u32, x: f64| InputSums { weight: WeightId(id), squares: vec![x], counts: vec![1] };
        let names = [Some("fused".to_string()), None, Some("fused".to_string()), Some("other".to_string())];
        let tensors = gather(vec![sums(0, 1.0), sums(1, 2.0), sums(2, 1.0), sums(3, 3.0), sums(9, 4.0)], &names);
        assert_eq!(tensors.len(), 2);
        assert_eq!((tensors["fused"].squares[0], tensors["other"].squares[0]), (1.0, 3.0));
    }
}
