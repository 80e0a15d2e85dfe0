use crate::{
    Loudness,
    open::{self, DeviceArgs},
    progress,
};
use clap::ValueEnum;
use onebit_engine::sampler;
use onebit_plan::{ActivationKind, Batch, Executable, Limits, Span};
use serde::Serialize;
use std::{io::Write, time::Instant};

/// Measure how fast a model reads prompts and answers on this machine
///
/// Times the engine's steps alone, without sampling, over made-up tokens; each figure is the median of its repetitions.
#[derive(clap::Args)]
pub(crate) struct Bench {
    /// The model
    model: String,
    /// Tokens of prompt; several values, separated by commas; 0 leaves it out
    #[arg(short = 'p', long, value_delimiter = ',', default_value = "512", value_name = "N")]
    prompt: Vec<usize>,
    /// Tokens to generate; several values, separated by commas; 0 leaves it out
    #[arg(short = 'n', long, value_delimiter = ',', default_value = "128", value_name = "N")]
    generate: Vec<usize>,
    /// Tokens that are in the context before the measurement; several values, separated by commas
    #[arg(short = 'd', long, value_delimiter = ',', default_value = "0", value_name = "N")]
    depth: Vec<usize>,
    /// Sequences that generate at once; several values, separated by commas
    #[arg(short = 'b', long, value_delimiter = ',', default_value = "1", value_name = "N")]
    batch: Vec<usize>,
    /// Repetitions of each measurement, after one that does not count
    #[arg(short = 'r', long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    /// Form of the result
    #[arg(short, long, value_enum, default_value_t = Form::Md)]
    output: Form,
    #[command(flatten)]
    device: DeviceArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// A Markdown table
    Md,
    /// JSON
    Json,
    /// CSV
    Csv,
}

/// One measurement.
#[derive(Serialize)]
struct Row {
    /// `pp512`, `tg128`, with `@d4096` and `x8` where that applies.
    test: String,
    /// Tokens per second, over all sequences: the median.
    tokens_per_second: f64,
    /// The slowest repetition.
    min: f64,
    /// The fastest.
    max: f64,
    /// Bytes of weights that a token's step reads, times steps per second: only where one token is generated at a time.
    weight_bytes_per_second: Option<f64>,
}

/// What is measured: some sequences, each with a context, read or generate some tokens.
struct Shape {
    sequences: usize,
    depth: usize,
    tokens: usize,
    prompt: bool,
}

impl Bench {
    pub(crate) fn run(&self, loudness: Loudness) -> anyhow::Result<()> {
        let checkpoint = open::checkpoint(&self.model, loudness)?;
        let mut model = open::model(&checkpoint, &self.device, loudness)?;
        let mut shapes = vec![];
        for &depth in &self.depth {
            shapes.extend(self.prompt.iter().filter(|p| **p > 0).map(|&tokens| Shape { sequences: 1, depth, tokens, prompt: true }));
            for &sequences in self.batch.iter().filter(|b| **b > 0) {
                shapes.extend(self.generate.iter().filter(|g| **g > 0).map(|&tokens| Shape { sequences, depth, tokens, prompt: false }));
            }
        }
        let sequences = shapes.iter().map(|s| s.sequences).max().unwrap_or(1);
        let context = shapes.iter().map(|s| s.depth + s.tokens).max().unwrap_or(1);
        model.plan.fit_context(context);
        let plan = model.plan.clone();
        let limits = Limits { slots: sequences, ..open::limits(&plan, context, sequences, sequences, &self.device) };
        let mut executable = open::executable(model, &self.device, &limits, loudness)?;
        let mut rows = vec![];
        for shape in &shapes {
            let spinner = progress::spinner(loudness, &shape.name());
            let mut rates = vec![];
            for repetition in 0..=self.repetitions {
                let rate = measure(&mut *executable, &limits, shape)?;
                if repetition > 0 {
                    rates.push(rate);
                }
            }
            spinner.finish_and_clear();
            rates.sort_by(f64::total_cmp);
            let median = rates[rates.len() / 2];
            let bytes = (!shape.prompt && shape.sequences == 1).then(|| median * plan.weight_bytes() as f64);
            rows.push(Row {
                test: shape.name(),
                tokens_per_second: median,
                min: rates[0],
                max: rates[rates.len() - 1],
                weight_bytes_per_second: bytes,
            });
        }
        self.print(&plan.name, plan.weight_bytes(), limits.activations, &rows)
    }

    fn print(&self, architecture: &str, bytes: usize, activations: ActivationKind, rows: &[Row]) -> anyhow::Result<()> {
        let device = open::devices().remove(0);
        let threads = self.device.threads.map_or(device.threads, |t| t as usize);
        let mut out = std::io::stdout().lock();
        match self.output {
            Form::Json => {
                let value = serde_json::json!({
                    "model": self.model, "architecture": architecture, "weight_bytes": bytes, "device": "cpu", "processor": device.description,
                    "isa": device.isa, "threads": threads, "activations": activations, "repetitions": self.repetitions, "version": env!("CARGO_PKG_VERSION"), "tests": rows,
                });
                writeln!(out, "{}", serde_json::to_string_pretty(&value)?)?;
            }
            Form::Csv => {
                writeln!(out, "test,tokens_per_second,min,max,weight_bytes_per_second")?;
                for r in rows {
                    let bytes = r.weight_bytes_per_second.map_or(String::new(), |b| format!("{b:.0}"));
                    writeln!(out, "{},{:.2},{:.2},{:.2},{bytes}", r.test, r.tokens_per_second, r.min, r.max)?;
                }
            }
            Form::Md => {
                writeln!(
                    out,
                    "{} · {architecture} · {:.1} MB of weights · {}, {}, {threads} threads, activations {activations:?}",
                    self.model,
                    bytes as f64 / 1e6,
                    device.description,
                    device.isa
                )?;
                writeln!(out, "\n| test | tokens/s | min | max | weights read, GB/s |\n|---|---:|---:|---:|---:|")?;
                for r in rows {
                    let bytes = r.weight_bytes_per_second.map_or("-".into(), |b| format!("{:.1}", b / 1e9));
                    writeln!(out, "| {} | {:.1} | {:.1} | {:.1} | {bytes} |", r.test, r.tokens_per_second, r.min, r.max)?;
                }
            }
        }
        Ok(())
    }
}

impl Shape {
    fn name(&self) -> String {
        let depth = if self.depth > 0 { format!(" @d{}", self.depth) } else { String::new() };
        let sequences = if self.sequences > 1 { format!(" x{}", self.sequences) } else { String::new() };
        format!("{}{}{sequences}{depth}", if self.prompt { "pp" } else { "tg" }, self.tokens)
    }
}

/// Tokens per second of one repetition, after bringing the sequences to their depth.
fn measure(executable: &mut dyn Executable, limits: &Limits, shape: &Shape) -> anyhow::Result<f64> {
    let vocabulary = executable.vocabulary();
    let token = |i: usize, sequence: usize| ((i * 7919 + sequence * 104_729 + 100) % vocabulary) as u32;
    let each = limits.pages / limits.slots;
    let pages: Vec<Vec<u32>> = (0..shape.sequences).map(|s| (s * each..(s + 1) * each).map(|p| p as u32).collect()).collect();
    let read = |executable: &mut dyn Executable, sequence: usize, from: usize, to: usize| -> anyhow::Result<()> {
        let ids: Vec<u32> = (from..to).map(|i| token(i, sequence)).collect();
        let mut start = from;
        for tokens in ids.chunks(limits.batch) {
            let outputs = usize::from(start + tokens.len() == to);
            let span = Span { len: tokens.len(), start, pages: &pages[sequence], slot: sequence as u32, outputs };
            let logits = executable.step(&Batch::text(tokens, &[span]))?;
            start += tokens.len();
            if outputs > 0 {
                // A model that computes nonsense is not fast.
                sampler::check(logits, start - 1)?;
            }
        }
        Ok(())
    };
    for sequence in 0..shape.sequences {
        read(executable, sequence, 0, shape.depth)?;
    }
    let begin = Instant::now();
    let end = shape.depth + shape.tokens;
    if shape.prompt {
        read(executable, 0, shape.depth, end)?;
    } else {
        for i in shape.depth..end {
            let tokens: Vec<u32> = (0..shape.sequences).map(|s| token(i, s)).collect();
            let spans: Vec<Span<'_>> =
                pages.iter().enumerate().map(|(s, p)| Span { len: 1, start: i, pages: p, slot: s as u32, outputs: 1 }).collect();
            let logits = executable.step(&Batch::text(&tokens, &spans))?;
            if i + 1 == end {
                sampler::check(&logits[..vocabulary], i)?;
            }
        }
    }
    Ok((shape.tokens * shape.sequences) as f64 / begin.elapsed().as_secs_f64())
}
