//! `1bit bench`.

mod measure;
mod meters;
mod predict;
mod report;

use crate::{
    Loudness,
    failure::Usage,
    open::{self, DeviceArgs},
    progress,
};
use anyhow::Context;
use clap::ValueEnum;
use measure::Shape;
use meters::Energy;
use onebit_cpu::{Cpu, Effort, Event, Roof};
use onebit_formats::Checkpoint;
use onebit_plan::{Executable, Limits};
use report::{About, Row, Step};
use serde_json::json;
use std::{path::PathBuf, time::Instant};

/// Measure how fast a model reads prompts and answers on this machine
///
/// Times the engine's steps alone, without sampling, over made-up tokens; each figure is the median of its repetitions. Beside it
/// stands what share that is of the rate at which this machine reads memory, and of that at which it multiplies, both measured first.
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
    /// Also tell, for each measurement, how time, bytes and products divide among the kinds of steps, by one repetition more
    #[arg(long)]
    profile: bool,
    /// Write when each thread did which step of that repetition to a file that chrome://tracing and ui.perfetto.dev show
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Measure nothing: tell what a device of this architecture (gfx1151) would do, by a model of time; reads no weights
    #[arg(long, value_name = "ARCHITECTURE", conflicts_with_all = ["profile", "trace"])]
    predict: Option<String>,
    #[command(flatten)]
    device: DeviceArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// A Markdown table
    Md,
    /// JSON
    Json,
    /// CSV
    Csv,
}

impl Bench {
    pub(crate) fn run(&self, loudness: Loudness) -> anyhow::Result<()> {
        if self.profile && self.output == Form::Csv {
            return Err(Usage("--profile has no place in the rows of --output csv; take md or json".into()).into());
        }
        let path = open::obtain(&self.model, loudness)?;
        if let Some(architecture) = &self.predict {
            return self.predict(architecture, &path, loudness);
        }
        let cpu = open::cpu(&self.device)?;
        let spinner = progress::spinner(loudness, "what the machine can do");
        let roof = cpu.roof();
        spinner.finish_and_clear();
        meters::forget_peak();
        let start = Instant::now();
        let checkpoint = Checkpoint::open(path)?;
        let mut model = open::decoder(&checkpoint, &self.device, loudness, "a benchmark")?;
        let shapes = self.shapes();
        let sequences = shapes.iter().map(|s| s.sequences).max().unwrap_or(1);
        let context = shapes.iter().map(|s| s.depth + s.tokens).max().unwrap_or(1);
        model.plan.fit_context(context);
        let plan = model.plan.clone();
        let limits = Limits { slots: sequences, ..open::limits(&plan, context, sequences, sequences, &self.device) };
        let mut executable = open::executable_on(&cpu, model, &limits, loudness)?;
        let load_seconds = start.elapsed().as_secs_f64();
        let mut trace = Trace::default();
        let mut rows = vec![];
        for shape in &shapes {
            let spinner = progress::spinner(loudness, &shape.name());
            rows.push(self.measure(&cpu, &mut *executable, &limits, roof, shape, &mut trace)?);
            spinner.finish_and_clear();
        }
        if let Some(path) = &self.trace {
            trace.write(path)?;
        }
        let about = About {
            model: self.model.clone(),
            architecture: plan.name.clone(),
            weight_bytes: plan.weight_bytes(),
            device: "cpu",
            processor: onebit_cpu::processor_name(),
            isa: cpu.isa().level().to_string(),
            threads: cpu.threads(),
            activations: limits.activations,
            repetitions: self.repetitions,
            version: env!("CARGO_PKG_VERSION"),
            roof,
            load_seconds,
            peak_memory_bytes: meters::peak_memory(),
        };
        Ok(report::write(&mut std::io::stdout().lock(), self.output, &about, &rows)?)
    }

    /// All that was asked for.
    fn shapes(&self) -> Vec<Shape> {
        let asked = |of: &[usize]| of.iter().copied().filter(|n| *n > 0).collect::<Vec<_>>();
        let (prompts, generate, batch) = (asked(&self.prompt), asked(&self.generate), asked(&self.batch));
        let of_depth = |&depth: &usize| {
            let prompts = prompts.iter().map(move |&tokens| Shape { sequences: 1, depth, tokens, prompt: true });
            let answers = batch.iter().flat_map(|&sequences| generate.iter().map(move |&tokens| (sequences, tokens)));
            prompts.chain(answers.map(move |(sequences, tokens)| Shape { sequences, depth, tokens, prompt: false })).collect::<Vec<_>>()
        };
        self.depth.iter().flat_map(of_depth).collect()
    }

    fn measure(
        &self,
        cpu: &Cpu,
        executable: &mut dyn Executable,
        limits: &Limits,
        roof: Roof,
        shape: &Shape,
        trace: &mut Trace,
    ) -> anyhow::Result<Row> {
        let profile = cpu.profile();
        let watched = |executable: &mut dyn Executable, record: bool| {
            let seconds = shape.seconds(executable, limits, || {
                profile.reset();
                profile.switch(true);
                profile.record(record);
            });
            profile.switch(false);
            profile.record(false);
            seconds.map(|_| profile.rows())
        };
        let tokens = shape.total() as f64;
        let mut effort = Effort::default();
        watched(executable, false)?.into_iter().for_each(|row| effort += row.effort);
        let (energy, mut joules) = (Energy::new(), Some(0.0));
        let mut rates = vec![];
        for _ in 0..self.repetitions {
            let mut before = None;
            let seconds = shape.seconds(executable, limits, || before = energy.now())?;
            let spent = before.and_then(|before| energy.since(&before));
            joules = joules.zip(spent).map(|(sum, spent)| sum + spent);
            rates.push(tokens / seconds);
        }
        let mut steps = None;
        if self.profile || self.trace.is_some() {
            let rows = watched(executable, self.trace.is_some())?;
            steps = self.profile.then(|| Step::all(&rows, roof));
            trace.add(&shape.name(), profile.take_events());
        }
        rates.sort_by(f64::total_cmp);
        let median = rates[rates.len() / 2];
        let [bytes_per_token, products_per_token] = [effort.bytes, effort.products].map(|n| n as f64 / tokens);
        Ok(Row {
            test: shape.name(),
            tokens_per_second: median,
            min: rates[0],
            max: rates[rates.len() - 1],
            bytes_per_token,
            products_per_token,
            share_of_reading: median * bytes_per_token / roof.read_bytes_per_second,
            share_of_products: median * products_per_token / roof.products_per_second,
            joules_per_token: joules.map(|j| j / tokens / f64::from(self.repetitions)),
            profile: steps,
        })
    }
}

/// Events in the Trace Event Format, each measurement as a process of its own.
#[derive(Default)]
struct Trace(Vec<serde_json::Value>, u32);

impl Trace {
    fn add(&mut self, name: &str, events: Vec<Event>) {
        self.1 += 1;
        self.0.push(json!({ "name": "process_name", "ph": "M", "pid": self.1, "args": { "name": name } }));
        self.0.extend(events.into_iter().map(|mut event| {
            event.pid = self.1;
            json!(event)
        }));
    }
    fn write(&self, path: &std::path::Path) -> anyhow::Result<()> {
        let whole = json!({ "traceEvents": self.0, "displayTimeUnit": "ns" });
        std::fs::write(path, whole.to_string()).with_context(|| format!("{}: the trace cannot be written", path.display()))
    }
}
