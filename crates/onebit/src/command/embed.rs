use crate::{
    Loudness,
    failure::Usage,
    open::{self, ContextArgs, DeviceArgs, Purpose},
    progress,
};
use anyhow::{Context, anyhow};
use onebit_engine::{Engine, Event, Form, Norm, Pool, Stream, Vocabulary};
use onebit_formats::{Checkpoint, npy};
use onebit_text::{Encode, Tokenizer};
use serde_json::json;
use std::{
    collections::VecDeque,
    io::{BufRead, Write},
    path::PathBuf,
    sync::Arc,
};

/// Turn texts into vectors that stand for what they say
///
/// Each text becomes one line of JSON: an array of numbers. Without a text, each line of stdin is one. Any model can be used: encoders are
/// made for it, and of one that writes text the hidden states are taken.
#[derive(clap::Args)]
pub(crate) struct Embed {
    /// The model
    model: String,
    /// Texts, each a vector
    texts: Vec<String>,
    /// Token ids of one text, separated by commas, in place of texts; no tokenizer is needed then
    #[arg(long, value_delimiter = ',', value_name = "IDS", conflicts_with = "texts")]
    ids: Vec<u32>,
    /// The prompt that the model has before texts of this kind, such as `query` [default: its usual one, mostly none]
    #[arg(long, value_name = "NAME", conflicts_with = "ids")]
    prompt_name: Option<String>,
    #[command(flatten)]
    pooling: PoolingArgs,
    /// Keep the first N numbers of each vector, as models allow that were trained for it (Matryoshka)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    dimensions: Option<u32>,
    /// What vectors are divided by: -1 nothing, 0 so that the largest number is 32760, 1 taxicab, 2 Euclidean length, N the N-norm; with
    /// `--pooling none` nothing
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(i64).range(-1..=64))]
    embd_normalize: i64,
    /// Print one JSON object, as `/v1/embeddings` answers, instead of a line for each text
    #[arg(long, conflicts_with = "output")]
    json: bool,
    /// Write the vectors as a NumPy file, f32 [vectors, width], instead
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Texts that are computed at once
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    parallel: u16,
    #[command(flatten)]
    context: ContextArgs,
    #[command(flatten)]
    device: DeviceArgs,
}

/// How embeddings are made of hidden states.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct PoolingArgs {
    /// Which hidden states a vector is made of: `mean`, `cls` (the first), `last`, `max`, `mean_sqrt_len_tokens`, `weightedmean`, or `none` for a
    /// vector for each token [default: what the model says; else `mean` for encoders and `last` for others]
    #[arg(long = "pooling", value_name = "KIND", value_parser = pool)]
    pool: Option<Pool>,
}

impl PoolingArgs {
    pub(crate) fn pool(self) -> Option<Pool> {
        self.pool
    }
}

fn pool(name: &str) -> Result<Pool, String> {
    let known = || Pool::NAMES.map(|(name, _)| name).join(", ");
    Pool::NAMES.iter().find(|(known, _)| *known == name).map(|(_, pool)| *pool).ok_or_else(|| format!("known are {}", known()))
}

/// A vocabulary for those who bring ids.
struct NoWords;

impl Vocabulary for NoWords {
    fn ends(&self) -> &[u32] {
        &[]
    }
    fn is_special(&self, _: u32) -> bool {
        false
    }
    fn bytes(&self, _: u32) -> &[u8] {
        &[]
    }
}

impl Embed {
    pub(crate) fn run(&self, loudness: Loudness) -> anyhow::Result<()> {
        let path = open::obtain(&self.model, loudness)?;
        let checkpoint = Checkpoint::open(&path)?;
        if let Some(output) = &self.output {
            open::not_over_itself(&checkpoint, output)?;
        }
        if self.ids.is_empty() {
            let tokenizer = Arc::new(Tokenizer::from_checkpoint(&checkpoint)?);
            let prompt = self.prompt(&checkpoint)?;
            let engine = self.engine(&checkpoint, tokenizer.clone(), loudness)?;
            let lines = self.texts.iter().cloned().map(Ok);
            let stdin = std::io::stdin().lock().lines().map(|line| line.context("reading lines from stdin"));
            let texts: Box<dyn Iterator<Item = anyhow::Result<String>>> =
                if self.texts.is_empty() { Box::new(stdin) } else { Box::new(lines) };
            let ids =
                texts.map(|text| Ok(tokenizer.encode(&format!("{prompt}{}", text?), Encode { add_special: true, parse_special: true })));
            self.write(&engine, &open::display_name(&self.model, &path), ids)
        } else {
            let engine = self.engine(&checkpoint, Arc::new(NoWords), loudness)?;
            self.write(&engine, &open::display_name(&self.model, &path), std::iter::once(Ok(self.ids.clone())))
        }
    }

    /// What stands before each text.
    fn prompt(&self, checkpoint: &Checkpoint) -> anyhow::Result<String> {
        let prompts = onebit_models::prompts(checkpoint)?;
        let Some(name) = self.prompt_name.as_ref().or(prompts.usual.as_ref()) else { return Ok(String::new()) };
        let known = || match prompts.texts.keys().map(String::as_str).collect::<Vec<_>>().join(", ") {
            names if names.is_empty() => "the model has none".to_string(),
            names => format!("the model has {names}"),
        };
        Ok(prompts.texts.get(name).cloned().ok_or_else(|| Usage(format!("--prompt-name {name}: {}", known())))?)
    }

    fn engine<V: Vocabulary>(&self, checkpoint: &Checkpoint, vocabulary: Arc<V>, loudness: Loudness) -> anyhow::Result<Engine<V>> {
        let purpose = Purpose::Embeddings(self.pooling.pool);
        let whole = open::Whole { sequences: usize::from(self.parallel), purpose, see: None, room: None };
        let bar = progress::bar(loudness, "loading", 0);
        let engine = open::engine_of(checkpoint, vocabulary, &self.device, &self.context, whole, &mut |p| {
            bar.set_length(p.total as u64);
            bar.set_position(p.done as u64);
        });
        bar.finish_and_clear();
        Ok(engine?.0)
    }

    /// Embeds the texts, and writes their vectors in order.
    fn write<V: Vocabulary>(
        &self,
        engine: &Engine<V>,
        name: &str,
        texts: impl Iterator<Item = anyhow::Result<Vec<u32>>>,
    ) -> anyhow::Result<()> {
        let width = engine.embedding_width().unwrap_or_default();
        if let Some(n) = self.dimensions.filter(|n| *n as usize > width) {
            return Err(Usage(format!("--dimensions {n}: the model's vectors have {width} numbers")).into());
        }
        let mut out = std::io::stdout().lock();
        let (mut data, mut tokens, mut all) = (vec![], 0, vec![]);
        let form =
            Form { dimensions: self.dimensions.map(|n| n as usize), norm: Norm::numbered(self.embd_normalize).unwrap_or(Norm::P(2)) };
        let mut show = |mut of_text: OfText| -> anyhow::Result<()> {
            if let Some(pooling) = &engine.config().pooling {
                pooling.form(&mut of_text.vectors, form);
            }
            tokens += of_text.tokens;
            for vector in of_text.vectors {
                if self.output.is_some() {
                    all.push(vector);
                } else if self.json {
                    data.push(json!({ "object": "embedding", "index": data.len(), "embedding": vector }));
                } else {
                    writeln!(out, "{}", serde_json::to_string(&vector)?)?;
                }
            }
            Ok(())
        };
        let mut running: VecDeque<Stream> = VecDeque::new();
        for text in texts {
            if running.len() >= usize::from(self.parallel)
                && let Some(first) = running.pop_front()
            {
                show(wait(first)?)?;
            }
            running.push_back(engine.embed(text?).map_err(|e| Usage(e.to_string()))?);
        }
        for stream in running {
            show(wait(stream)?)?;
        }
        if self.json {
            let usage = json!({ "prompt_tokens": tokens, "total_tokens": tokens });
            writeln!(out, "{}", json!({ "object": "list", "model": name, "data": data, "usage": usage }))?;
        }
        if let Some(path) = &self.output {
            let width = all.first().map_or(width, Vec::len);
            let mut file = npy::Writer::create(path, &[all.len(), width])?;
            all.iter().try_for_each(|vector| file.write(vector))?;
            file.finish()?;
        }
        Ok(())
    }
}

/// The vectors of a text, when they are there.
fn wait(mut stream: Stream) -> anyhow::Result<OfText> {
    let mut vectors = vec![];
    while let Some(event) = stream.blocking_next() {
        match event {
            Event::Embedding(made) => vectors = made,
            Event::Finished(finish) => return Ok(OfText { vectors, tokens: finish.usage.prompt }),
            Event::Failed(error) => return Err(anyhow!(error)),
            Event::Prompt(_) | Event::Token(_) => {}
        }
    }
    Err(anyhow!("the engine ended"))
}

/// What was made of a text.
struct OfText {
    vectors: Vec<Vec<f32>>,
    tokens: usize,
}
