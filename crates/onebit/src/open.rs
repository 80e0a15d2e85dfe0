//! From what was typed to something that runs: file, plan, device, engine.

use crate::{
    Loudness, check,
    failure::Usage,
    progress,
    several::Several,
    sight::{self, See},
};
use anyhow::Context;
use onebit_engine::{Config, Engine, Pool, Pooling, Vocabulary};
use onebit_formats::Checkpoint;
use onebit_gpu::{Gpu, driver::SimOptions};
use onebit_models::Ranking;
use onebit_plan::{ActivationKind, Device, Executable, KvType, Limits, Model, Plan, Progress, Sight};
use onebit_registry::{Cache, Reference, Settings};
use onebit_text::{ChatTemplate, Tokenizer};
use onebit_vision::Tower;
use serde::Serialize;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Tokens in one page of the key/value cache.
const PAGE: usize = 64;
/// Most fixed states that are kept for others to go on from.
const REMEMBERED: usize = 12;
/// Tokens of context where nobody asks for another number; more costs memory that few chats use.
const DEFAULT_CONTEXT: usize = 8192;
/// Prompt tokens in one step.
const PROMPT_CHUNK: usize = 512;
/// Tokens of an answer that is made out of masks: all of them have logits at once.
const MASKED_ANSWER: usize = 512;

/// Where and how a model runs; shared by all commands that run one.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Device")]
pub(crate) struct DeviceArgs {
    /// Where to run: `auto` or a name from `1bit devices`; or `sim`, a gfx1151 in software, for development. Several, separated by
    /// commas, are tried in this order
    #[arg(long, default_value = "auto", value_name = "NAME")]
    pub device: String,
    /// Threads [default: the physical cores that this process may use]
    #[arg(short = 't', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// How activations are rounded before they are multiplied with quantized weights; `auto` takes int16 for models below a
    /// billion parameters, where the rounding of int8 can choose other words, and int8 above, which reads prompts up to twice as fast
    #[arg(long, value_enum, default_value_t = Activations::Auto, value_name = "KIND")]
    pub activations: Activations,
    /// How keys and values are stored: half the bytes, as q8_0 takes, are read in half the time where the context is long
    #[arg(long, value_enum, default_value_t = CacheType::F16, value_name = "TYPE")]
    pub cache_type: CacheType,
    /// Compute in f32 throughout (`--activations f32 --cache-type f32`): slower, for checking
    #[arg(long, conflicts_with_all = ["activations", "cache_type"])]
    pub exact: bool,
    /// Take the model for one of this family, whatever it calls itself: a name as in `model_type` or `general.architecture`
    #[arg(long, value_name = "NAME")]
    pub family: Option<String>,
    /// Read all weights first, and refuse a model with NaNs or infinities among them, naming tensor and block
    #[arg(long)]
    pub check_tensors: bool,
}

/// [`ActivationKind`], or the one that fits the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Activations {
    Auto,
    F32,
    Int16,
    Int8,
}

/// [`KvType`], by the names that other engines give them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum CacheType {
    F16,
    Bf16,
    #[value(name = "q8_0")]
    Q8,
    F32,
}

/// The emulator's name.
const SIM: &str = "sim";

/// Below so many parameters, `auto` is int16.
const SMALL: usize = 1_000_000_000;

impl DeviceArgs {
    fn kv(&self) -> KvType {
        match self.cache_type {
            _ if self.exact => KvType::F32,
            CacheType::F16 => KvType::F16,
            CacheType::Bf16 => KvType::Bf16,
            CacheType::Q8 => KvType::Q8,
            CacheType::F32 => KvType::F32,
        }
    }
    pub(crate) fn kind(&self, plan: &Plan) -> ActivationKind {
        let parameters: usize = plan.weights.iter().map(|w| w.shape.iter().product::<usize>()).sum();
        match self.activations {
            _ if self.exact => ActivationKind::F32,
            // What the kernels of GPUs round to.
            Activations::Auto if self.device.split(',').any(|name| name == SIM) => ActivationKind::Int8,
            Activations::Auto if parameters < SMALL => ActivationKind::Int16,
            Activations::Auto | Activations::Int8 => ActivationKind::Int8,
            Activations::Int16 => ActivationKind::Int16,
            Activations::F32 => ActivationKind::F32,
        }
    }
}

/// The context's size; shared by the commands that answer.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ContextArgs {
    /// Tokens of context for each sequence, prompt and answer together; 0: all that the model was made for [default: that, at most 8192]
    #[arg(short = 'c', long, value_name = "N")]
    pub ctx_size: Option<u32>,
}

/// The file or folder that a model's name stands for, fetched where needed.
pub(crate) fn obtain(model: &str, loudness: Loudness) -> anyhow::Result<PathBuf> {
    let reference = Reference::parse(model)?;
    Ok(reference.obtain(&Settings::from_env(), &Cache::from_env()?, &progress::Downloads::new(loudness))?)
}

/// [`obtain`], opened.
pub(crate) fn checkpoint(model: &str, loudness: Loudness) -> anyhow::Result<Checkpoint> {
    Ok(Checkpoint::open(obtain(model, loudness)?)?)
}

/// The model in a checkpoint, its tensors checked where that was asked for: one that gives logits.
pub(crate) fn model(checkpoint: &Checkpoint, args: &DeviceArgs, loudness: Loudness) -> anyhow::Result<Model> {
    let model = any_model(checkpoint, args, loudness)?;
    if model.plan.gives_hidden() {
        let what = "is an encoder, which makes embeddings and no text: use `1bit embed`";
        return Err(Usage(format!("{}: {what}", checkpoint.path.display())).into());
    }
    Ok(model)
}

/// [`model`], or an encoder.
fn any_model(checkpoint: &Checkpoint, args: &DeviceArgs, loudness: Loudness) -> anyhow::Result<Model> {
    checked(onebit_models::load_as(checkpoint, args.family.as_deref())?, checkpoint, args, loudness)
}

/// A model that takes images, as `sight` tells.
fn seeing(checkpoint: &Checkpoint, args: &DeviceArgs, sight: Sight) -> anyhow::Result<Model> {
    if args.family.is_some() {
        return Err(Usage("--family cannot be given for a model that sees, whose own name tells how".into()).into());
    }
    checked(onebit_models::load_seeing(checkpoint, sight)?, checkpoint, args, Loudness::Quiet)
}

fn checked(model: Model, checkpoint: &Checkpoint, args: &DeviceArgs, loudness: Loudness) -> anyhow::Result<Model> {
    if args.check_tensors {
        let bar = progress::bar(loudness, "checking", checkpoint.bytes());
        let findings = check::check(checkpoint, &|bytes| bar.inc(bytes as u64));
        bar.finish_and_clear();
        check::refuse_broken(&checkpoint.path, &findings).map_err(Usage)?;
    }
    Ok(model)
}

/// [`model`], which must be one that continues a text: `what` it is for makes no sense of others.
pub(crate) fn decoder(checkpoint: &Checkpoint, args: &DeviceArgs, loudness: Loudness, what: &str) -> anyhow::Result<Model> {
    let model = model(checkpoint, args, loudness)?;
    if model.plan.answering.is_some() {
        let (path, name) = (checkpoint.path.display(), &model.plan.name);
        return Err(Usage(format!(
            "{path}: `{name}` has an encoder and answers to what that reads; {what} needs a model that continues a text"
        ))
        .into());
    }
    Ok(model)
}

/// Refuses to write to `out` where that is a file of the model that is read.
pub(crate) fn not_over_itself(checkpoint: &Checkpoint, out: &Path) -> anyhow::Result<()> {
    if checkpoint.is_read_from(out) {
        return Err(Usage(format!("{}: is a file of the model itself; write to another one", out.display())).into());
    }
    Ok(())
}

/// What `1bit devices` tells of a device.
#[derive(Serialize)]
pub(crate) struct DeviceInfo {
    pub name: String,
    pub description: String,
    pub isa: String,
    pub threads: usize,
    /// Bytes that can still be taken.
    pub available_memory: Option<usize>,
}

/// All devices of this machine.
pub(crate) fn devices() -> Vec<DeviceInfo> {
    let cpu = onebit_cpu::Cpu::new(None);
    vec![DeviceInfo {
        name: cpu.name().to_string(),
        description: onebit_cpu::processor_name(),
        isa: cpu.isa().level().to_string(),
        threads: cpu.threads(),
        available_memory: onebit_cpu::available_memory(),
    }]
}

/// The device that was asked for, or all that were, in turn.
pub(crate) fn device(args: &DeviceArgs) -> anyhow::Result<Box<dyn Device>> {
    let mut devices: Vec<Box<dyn Device>> = vec![];
    for name in args.device.split(',') {
        devices.push(match name {
            SIM => Box::new(Gpu::sim(SimOptions { threads: args.threads.map_or(1, |t| t as usize), ..SimOptions::default() })),
            name => Box::new(cpu(&DeviceArgs { device: name.into(), ..args.clone() })?),
        });
    }
    match devices.pop() {
        Some(only) if devices.is_empty() => Ok(only),
        last => Ok(Box::new(Several(devices.into_iter().chain(last).collect()))),
    }
}

/// [`device`], where only the processor can do what is needed.
pub(crate) fn cpu(args: &DeviceArgs) -> anyhow::Result<onebit_cpu::Cpu> {
    match args.device.as_str() {
        "auto" | "cpu" => Ok(onebit_cpu::Cpu::new(args.threads.map(|t| t as usize))),
        other => {
            let known = "this machine has auto, cpu (see `1bit devices`), and sim for development";
            Err(Usage(format!("--device {other}: there is no such device; {known}")).into())
        }
    }
}

/// What an executable for `sequences` sequences of `context` tokens needs.
pub(crate) fn limits(plan: &Plan, context: usize, sequences: usize, outputs: usize, args: &DeviceArgs) -> Limits {
    let pages = context.div_ceil(PAGE) * sequences;
    let batch = PROMPT_CHUNK.min(context).max(1) + sequences;
    // Beside those of running sequences, states that others may go on from. They take memory only when they are written.
    let slots = if plan.fixed_state() > 0 { sequences + (3 * sequences).min(REMEMBERED) } else { sequences };
    Limits { batch, outputs: outputs.max(sequences), page: PAGE, pages, slots, kv: args.kv(), activations: args.kind(plan) }
}

/// Loads `model` onto the device, with a bar.
pub(crate) fn executable(model: Model, args: &DeviceArgs, limits: &Limits, loudness: Loudness) -> anyhow::Result<Box<dyn Executable>> {
    executable_on(device(args)?.as_ref(), model, limits, loudness)
}

/// [`executable`], on a device that is there.
pub(crate) fn executable_on(device: &dyn Device, model: Model, limits: &Limits, loudness: Loudness) -> anyhow::Result<Box<dyn Executable>> {
    let bar = progress::bar(loudness, "loading", model.plan.weight_bytes() as u64);
    let loaded = load(device, model, limits, &mut |p| bar.set_position(p.done as u64));
    bar.finish_and_clear();
    loaded
}

/// What a model is loaded for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To write text.
    Text,
    /// To make embeddings, by this pooling or the model's own.
    Embeddings(Option<Pool>),
    /// To score pairs of texts.
    Ranking,
    /// For what it is made for.
    Own,
}

/// How a model is loaded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whole<S> {
    /// So many sequences run at once.
    pub sequences: usize,
    pub purpose: Purpose,
    /// What it sees, or whether it is to.
    pub see: S,
    /// Bytes of memory that it may take, where there is a bound besides what the machine has.
    pub room: Option<usize>,
}

/// A model that answers.
pub(crate) struct Loaded<V: Vocabulary = Tokenizer> {
    pub engine: Engine<V>,
    pub template: Option<ChatTemplate>,
    /// What it sees with, where it does.
    pub tower: Option<Tower>,
    /// A name for people and clients.
    pub name: String,
    pub plan: Plan,
    /// Where it came from.
    pub checkpoint: Checkpoint,
    /// Bytes that it takes, its vision tower aside.
    pub memory: usize,
}

/// Fetches, opens, loads; with a bar.
pub(crate) fn engine(model: &str, device: &DeviceArgs, context: &ContextArgs, see: See<'_>, loudness: Loudness) -> anyhow::Result<Loaded> {
    let path = obtain(model, loudness)?;
    let name = display_name(model, &path);
    let bar = progress::bar(loudness, "loading", 0);
    let loaded = engine_at(&path, name, device, context, Whole { sequences: 1, purpose: Purpose::Text, see, room: None }, &mut |p| {
        bar.set_length(p.total as u64);
        bar.set_position(p.done as u64);
    });
    bar.finish_and_clear();
    loaded
}

/// Opens and loads what is at `path`, for so many sequences at once.
pub(crate) fn engine_at(
    path: &Path,
    name: String,
    device: &DeviceArgs,
    context: &ContextArgs,
    whole: Whole<See<'_>>,
    progress: &mut dyn FnMut(Progress),
) -> anyhow::Result<Loaded> {
    let checkpoint = Checkpoint::open(path)?;
    let tokenizer = Arc::new(Tokenizer::from_checkpoint(&checkpoint)?);
    let template = ChatTemplate::from_checkpoint(&checkpoint, &tokenizer).with_context(|| path.display().to_string())?;
    let see = if device.family.is_some() { whole.see.of_family() } else { whole.see };
    let vision = see.find(&checkpoint)?;
    let sight = vision.as_ref().map(|vision| vision.sight);
    let Whole { sequences, purpose, room, .. } = whole;
    let whole = Whole { sequences, purpose, see: sight, room };
    let (engine, plan, memory) = engine_of(&checkpoint, tokenizer, device, context, whole, progress)?;
    let tower = vision.map(|vision| sight::load(vision, self::device(device)?.as_ref(), device, progress)).transpose()?;
    Ok(Loaded { engine, template, tower, name, plan, checkpoint, memory })
}

/// An engine for the model of a checkpoint, its plan, and the bytes that it takes; for one that sees where there is a `sight`.
pub(crate) fn engine_of<V: Vocabulary>(
    checkpoint: &Checkpoint,
    vocabulary: Arc<V>,
    device: &DeviceArgs,
    context: &ContextArgs,
    Whole { sequences, purpose, see: sight, room }: Whole<Option<Sight>>,
    progress: &mut dyn FnMut(Progress),
) -> anyhow::Result<(Engine<V>, Plan, usize)> {
    let mut model = match (purpose, sight) {
        (_, Some(sight)) => seeing(checkpoint, device, sight)?,
        (Purpose::Text, None) => model(checkpoint, device, Loudness::Quiet)?,
        _ => any_model(checkpoint, device, Loudness::Quiet)?,
    };
    let pooling = match purpose {
        Purpose::Embeddings(pool) => Some(pooling(checkpoint, &model.plan, pool)?),
        Purpose::Ranking => Some(ranking(checkpoint)?.pooling),
        Purpose::Own if model.plan.gives_hidden() => Some(pooling(checkpoint, &model.plan, None)?),
        _ => None,
    };
    if pooling.is_some() {
        model = model.up_to_hidden()?;
    }
    let tokens = context_of(&model.plan, context)?;
    model.plan.fit_context(tokens);
    let plan = model.plan.clone();
    let limits = match &pooling {
        Some(pooling) => embedding_limits(&plan, tokens, sequences, pooling.pool, device),
        // A source is read whole.
        None if plan.answering.is_some() => Limits { batch: tokens.max(sequences), ..limits(&plan, tokens, sequences, sequences, device) },
        // A sequence is computed whole in each step.
        None if plan.denoising.is_some() => {
            Limits { batch: tokens, ..limits(&plan, tokens, sequences, tokens.min(MASKED_ANSWER + 1), device) }
        }
        None => limits(&plan, tokens, sequences, sequences, device),
    };
    let on = self::device(device)?;
    let memory = on.memory(&model, &limits);
    if let Some(room) = room {
        memory.fits(room).context("the model could not be loaded")?;
    }
    let executable = load(on.as_ref(), model, &limits, progress)?;
    let config = Config {
        max_sequences: sequences,
        context: tokens,
        prompt_chunk: PROMPT_CHUNK,
        prefix_reuse: true,
        fixed_state: plan.fixed_state() > 0,
        denoising: plan.denoising,
        answering: plan.answering.clone(),
        pooling: pooling.map(Arc::new),
        whole: plan.looks_ahead(),
        ..Config::default()
    };
    Ok((Engine::new(executable, vocabulary, config), plan, memory.total()))
}

/// How the model scores pairs of texts.
pub(crate) fn ranking(checkpoint: &Checkpoint) -> anyhow::Result<Ranking> {
    let missing = || Usage(format!("{}: has no head that scores pairs of texts", checkpoint.path.display()));
    Ok(onebit_models::ranking(checkpoint)?.ok_or_else(missing)?)
}

/// Tokens of context for each sequence.
fn context_of(plan: &Plan, args: &ContextArgs) -> anyhow::Result<usize> {
    let stated = args.ctx_size.map(|n| if n == 0 { plan.context } else { n as usize });
    let Some(wanted) = stated else { return Ok(plan.context.min(DEFAULT_CONTEXT)) };
    if let Some(most) = plan.positions().filter(|most| wanted > *most) {
        anyhow::bail!("--ctx-size {wanted} is beyond the {most} positions of which the model has a table; a smaller one is needed");
    }
    if wanted > plan.context {
        let made = plan.context;
        tracing::warn!("--ctx-size {wanted} is beyond the {made} tokens that the model was made for: answers may get worse there");
    }
    Ok(wanted)
}

/// What embeddings are made of: what the checkpoint says, with the pooling that was asked for in place of its own. Where nobody says, the
/// mean where tokens see the whole text, and else the last, which has seen it.
fn pooling(checkpoint: &Checkpoint, plan: &Plan, asked: Option<Pool>) -> anyhow::Result<Pooling> {
    if plan.answering.is_some() {
        let what = "has an encoder and a decoder, of which no embeddings are made";
        return Err(Usage(format!("{}: {what}", checkpoint.path.display())).into());
    }
    let usual = if plan.looks_ahead() { Pool::Mean } else { Pool::Last };
    let mut pooling = onebit_models::pooling(checkpoint)?.unwrap_or_else(|| usual.into());
    pooling.pool = asked.unwrap_or(pooling.pool);
    let width = plan.hidden.map_or(0, |hidden| plan.value(hidden).width);
    match pooling.fault(width) {
        Some(fault) => anyhow::bail!("{}: {fault}", checkpoint.path.display()),
        None => Ok(pooling),
    }
}

/// As [`limits`], for embeddings: rows of output for all tokens that the pooling needs in one step.
fn embedding_limits(plan: &Plan, context: usize, sequences: usize, pool: Pool, args: &DeviceArgs) -> Limits {
    let usual = limits(plan, context, sequences, sequences, args);
    // A sequence is computed whole in one step; its keys and values take little room, as all layers share it.
    let (batch, kv) = if plan.looks_ahead() { (context.max(sequences), KvType::F32) } else { (usual.batch, usual.kv) };
    let outputs = if pool == Pool::Last { sequences } else { batch };
    Limits { batch, outputs, kv, ..usual }
}

/// A model on a device.
pub(crate) fn load(
    device: &dyn Device,
    model: Model,
    limits: &Limits,
    progress: &mut dyn FnMut(Progress),
) -> anyhow::Result<Box<dyn Executable>> {
    device.load(model, limits, progress).context("the model could not be loaded")
}

/// What clients call the model: what was typed, without folders and endings.
pub(crate) fn display_name(typed: &str, path: &Path) -> String {
    match Reference::parse(typed) {
        Ok(Reference::Path(_)) => {
            let whole = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
            let name = path.file_name().or(whole.file_name()).map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            name.strip_suffix(".gguf").map_or(name.clone(), str::to_string)
        }
        Ok(Reference::Hub { repo, .. }) => repo,
        _ => typed.to_string(),
    }
}
