use crate::{
    Loudness,
    failure::Usage,
    open::{self, DeviceArgs},
};
use onebit_engine::sampler;
use onebit_formats::npy;
use onebit_plan::{Batch, Inputs, Limits, Span};
use onebit_text::{Encode, Tokenizer};
use std::path::PathBuf;

/// Write the logits of every position of a prompt, as a NumPy file: a tool for checking
///
/// A model of an encoder and a decoder reads --source or --source-ids first; the ids are those of the answer [default: what its
/// answers begin with].
///
/// Fails after writing them where any is not finite.
#[derive(clap::Args)]
pub(crate) struct Logits {
    /// The model
    model: String,
    /// Token ids, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "IDS", required_unless_present_any = ["prompt", "source", "source_ids"], conflicts_with = "prompt")]
    ids: Vec<u32>,
    /// A text, encoded with the model's special tokens
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// What the encoder reads, encoded with the model's special tokens
    #[arg(long, value_name = "TEXT")]
    source: Option<String>,
    /// The same as token ids
    #[arg(long, value_delimiter = ',', value_name = "IDS", conflicts_with = "source")]
    source_ids: Vec<u32>,
    /// Tokens in one step; the result does not depend on it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    chunk: Option<u32>,
    /// Where to write f32 [tokens, vocabulary]
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    device: DeviceArgs,
}

/// Tokens in one step where nobody says.
const CHUNK: usize = 256;

impl Logits {
    pub(crate) fn run(&self, loudness: Loudness) -> anyhow::Result<()> {
        let checkpoint = open::checkpoint(&self.model, loudness)?;
        open::not_over_itself(&checkpoint, &self.output)?;
        let encode = |text: &str| -> anyhow::Result<Vec<u32>> {
            Ok(Tokenizer::from_checkpoint(&checkpoint)?.encode(text, Encode { add_special: true, parse_special: true }))
        };
        let mut ids = if let Some(text) = &self.prompt { encode(text)? } else { self.ids.clone() };
        let source = if let Some(text) = &self.source { encode(text)? } else { self.source_ids.clone() };
        let mut model = open::model(&checkpoint, &self.device, loudness)?;
        match &model.plan.answering {
            Some(_) if source.is_empty() => {
                return Err(Usage(format!("`{}` has an encoder: say with --source or --source-ids what it reads", model.plan.name)).into());
            }
            None if !source.is_empty() => {
                return Err(Usage(format!("`{}` has no encoder that could read a source", model.plan.name)).into());
            }
            Some(how) if ids.is_empty() => ids.clone_from(&how.start),
            _ => {}
        }
        if ids.is_empty() {
            return Err(Usage("there is no token".into()).into());
        }
        let longest = ids.len().max(source.len());
        if let Some(most) = model.plan.positions().filter(|most| longest > *most && !source.is_empty()) {
            return Err(Usage(format!("{longest} tokens are beyond the {most} positions of which the model has a table")).into());
        }
        model.plan.fit_context(ids.len());
        let vocabulary = model.plan.vocabulary;
        if let Some(id) = ids.iter().chain(&source).find(|id| **id as usize >= vocabulary) {
            return Err(Usage(format!("token {id} is not in the vocabulary of {vocabulary}")).into());
        }
        let chunk = self.chunk.map_or(CHUNK, |c| c as usize).min(ids.len());
        let limits = Limits {
            batch: chunk.max(source.len()),
            outputs: chunk,
            pages: longest.div_ceil(64),
            slots: 1,
            ..open::limits(&model.plan, ids.len(), 1, chunk, &self.device)
        };
        let mut executable = open::executable(model, &self.device, &limits, loudness)?;
        let pages: Vec<u32> = (0..limits.pages as u32).collect();
        let sources = [source.len() as u32];
        let sources = if source.is_empty() { &[][..] } else { &sources };
        if !source.is_empty() {
            let span = Span { len: source.len(), start: 0, pages: &pages, slot: 0, outputs: 0 };
            executable.encode(&Batch::text(&source, &[span]))?;
        }
        let mut file = npy::Writer::create(&self.output, &[ids.len(), vocabulary])?;
        let mut sound = Ok(0.0);
        for (i, tokens) in ids.chunks(chunk).enumerate() {
            let span = Span { len: tokens.len(), start: i * chunk, pages: &pages, slot: 0, outputs: tokens.len() };
            let logits = executable.step(&Batch { inputs: Inputs { sources, ..Inputs::default() }, ..Batch::text(tokens, &[span]) })?;
            for (row, position) in logits.chunks_exact(vocabulary).zip(i * chunk..) {
                sound = sound.and_then(|_| sampler::check(row, position));
            }
            file.write(logits)?;
        }
        file.finish()?;
        sound?;
        Ok(())
    }
}
