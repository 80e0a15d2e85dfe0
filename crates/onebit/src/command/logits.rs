use crate::{
    Loudness,
    failure::Usage,
    open::{self, DeviceArgs},
};
use onebit_engine::sampler;
use onebit_formats::npy;
use onebit_plan::{Batch, Limits, Span};
use onebit_text::{Encode, Tokenizer};
use std::path::PathBuf;

/// Write the logits of every position of a prompt, as a NumPy file: a tool for checking
///
/// Fails after writing them where any is not finite.
#[derive(clap::Args)]
pub(crate) struct Logits {
    /// The model
    model: String,
    /// Token ids, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "IDS", required_unless_present = "prompt", conflicts_with = "prompt")]
    ids: Vec<u32>,
    /// A text, encoded with the model's special tokens
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
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
        let ids = match &self.prompt {
            Some(text) => Tokenizer::from_checkpoint(&checkpoint)?.encode(text, Encode { add_special: true, parse_special: true }),
            None => self.ids.clone(),
        };
        if ids.is_empty() {
            return Err(Usage("there is no token".into()).into());
        }
        let mut model = open::model(&checkpoint, &self.device, loudness)?;
        model.plan.fit_context(ids.len());
        let vocabulary = model.plan.vocabulary;
        if let Some(id) = ids.iter().find(|id| **id as usize >= vocabulary) {
            return Err(Usage(format!("token {id} is not in the vocabulary of {vocabulary}")).into());
        }
        let chunk = self.chunk.map_or(CHUNK, |c| c as usize).min(ids.len());
        let limits = Limits {
            batch: chunk,
            outputs: chunk,
            pages: ids.len().div_ceil(64),
            slots: 1,
            ..open::limits(&model.plan, ids.len(), 1, chunk, &self.device)
        };
        let mut executable = open::executable(model, &self.device, &limits, loudness)?;
        let pages: Vec<u32> = (0..limits.pages as u32).collect();
        let mut file = npy::Writer::create(&self.output, &[ids.len(), vocabulary])?;
        let mut sound = Ok(0.0);
        for (i, tokens) in ids.chunks(chunk).enumerate() {
            let span = Span { len: tokens.len(), start: i * chunk, pages: &pages, slot: 0, outputs: tokens.len() };
            let logits = executable.step(&Batch::text(tokens, &[span]))?;
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
