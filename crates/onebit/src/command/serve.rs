use crate::{
    Cli, Loudness,
    command::{
        embed::PoolingArgs,
        operations::{self, Operations},
    },
    companion,
    failure::Usage,
    identity, log,
    offered::{Offered, Offers},
    open::{self, ContextArgs, DeviceArgs, Purpose, Whole},
    sight::{See, SightArgs},
};
use anyhow::Context;
use onebit_engine::Sampling;
use onebit_formats::Checkpoint;
use onebit_plan::{DeviceError, Plan};
use onebit_registry::Reference;
use onebit_server::{LoadFault, LoadProgress, Loaded, Loader, ModelInfo, Offer, Ranks, ServeOptions, ShelfLimits};
use onebit_text::ChatTemplate;
use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Serve the OpenAI-compatible API
///
/// Listens at once; `/health` tells when the model is loaded. SIGTERM and Ctrl-C let running answers finish.
#[derive(clap::Args)]
pub(crate) struct Serve {
    /// The model; several, or a folder of several, are loaded when they are asked for, and the longest unused one leaves where there is no
    /// room
    #[arg(short, long, value_name = "MODEL", required = true)]
    model: Vec<String>,
    /// The name that clients use [default: the model's own]; with several models, ALIAS=NAME is another name for one
    #[arg(short, long, value_name = "NAME")]
    alias: Vec<String>,
    /// Most of several models that are loaded at a time; 1 for one after the other [default: as many as fit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    max_loaded: Option<u16>,
    /// Most memory that several models take together, such as 12G or 800M [default: what is free when the server starts]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    max_memory: Option<usize>,
    /// Answer whatever model a request names
    #[arg(long)]
    any_model: bool,
    /// A chat template in Jinja, in place of the model's own
    #[arg(long, value_name = "FILE", alias = "chat-template-file")]
    chat_template: Option<PathBuf>,
    /// The most tokens of reasoning in an answer, after which it is closed; 0 for none, -1 for no bound
    #[arg(long, default_value_t = -1, value_name = "N", value_parser = clap::value_parser!(i64).range(-1..=i64::from(u32::MAX)))]
    reasoning_budget: i64,
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    host: String,
    /// Port to listen on; 0 takes a free one
    #[arg(long, default_value_t = 8080, value_name = "PORT")]
    port: u16,
    /// Sequences that are answered at once; further requests wait
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    parallel: u16,
    /// Ask clients for this key; can be given several times
    #[arg(long, env = "ONEBIT_API_KEY", hide_env_values = true, value_name = "KEY")]
    api_key: Vec<String>,
    /// Ask clients for one of the keys in this file, one on each line
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,
    /// Let everyone who reaches the address use the server
    #[arg(long)]
    no_auth: bool,
    /// Answer requests for this Host as well; `*` for any
    #[arg(long, value_name = "HOST")]
    allowed_host: Vec<String>,
    /// Let pages of this origin call the server; `*` for any
    #[arg(long, value_name = "ORIGIN")]
    allowed_origin: Vec<String>,
    /// How long running answers may go on after a signal to stop, in seconds
    #[arg(long, default_value_t = 10, value_name = "SECONDS")]
    drain: u64,
    /// Stop when the process with this number ends, however it ends
    #[arg(long, value_name = "PID")]
    stop_with: Option<u32>,
    /// Take no images, and leave the model's vision tower aside
    #[arg(long, conflicts_with = "mmproj")]
    no_mmproj: bool,
    /// Most bytes of an image's file
    #[arg(long, default_value_t = onebit_vision::Limits::default().bytes, value_name = "BYTES")]
    image_max_bytes: usize,
    /// Most pixels of an image, width times height
    #[arg(long, default_value_t = onebit_vision::Limits::default().pixels, value_name = "N")]
    image_max_pixels: usize,
    /// Most images of a chat
    #[arg(long, default_value_t = onebit_server::Limits::default().images, value_name = "N")]
    max_images: usize,
    /// Make embeddings, also of a model that is made to write text; encoders do so by themselves
    #[arg(long, alias = "embedding")]
    embeddings: bool,
    /// Score documents by how well they answer a query (`/v1/rerank`), with a model that is made for it
    #[arg(long, alias = "rerank", conflicts_with = "pool")]
    reranking: bool,
    #[command(flatten)]
    pub(crate) operations: Operations,
    #[command(flatten)]
    pooling: PoolingArgs,
    #[command(flatten)]
    sampling: Defaults,
    #[command(flatten)]
    sight: SightArgs,
    #[command(flatten)]
    context: ContextArgs,
    #[command(flatten)]
    device: DeviceArgs,
}

/// How tokens are chosen where a request does not say; what is not given is as the model's makers suggest.
#[derive(clap::Args)]
#[command(next_help_heading = "Sampling, where a request does not say")]
struct Defaults {
    /// Randomness; 0 always takes the most probable token
    #[arg(long, alias = "temp", value_name = "T", value_parser = range(0.0, 100.0))]
    temperature: Option<f32>,
    /// Keep the K most probable tokens; 0 keeps all
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,
    /// Keep the most probable tokens that together reach P
    #[arg(long, value_name = "P", value_parser = range(f32::MIN_POSITIVE, 1.0))]
    top_p: Option<f32>,
    /// Keep tokens at least P times as probable as the most probable one
    #[arg(long, value_name = "P", value_parser = range(0.0, 1.0))]
    min_p: Option<f32>,
    /// Divide the logits of tokens seen lately; 1 does nothing
    #[arg(long, value_name = "X", value_parser = range(0.01, 100.0))]
    repeat_penalty: Option<f32>,
    /// Subtract from the logits of tokens seen lately
    #[arg(long, value_name = "X", value_parser = range(-100.0, 100.0))]
    presence_penalty: Option<f32>,
    /// Subtract from the logits of tokens seen lately, for each time
    #[arg(long, value_name = "X", value_parser = range(-100.0, 100.0))]
    frequency_penalty: Option<f32>,
    /// Where the random numbers start
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// A number of bytes, in units of 1024 where a letter says so.
fn bytes(text: &str) -> Result<usize, String> {
    let (number, shift) = match text.trim_end_matches(['B', 'b', 'i']).char_indices().last() {
        Some((at, 'K' | 'k')) => (&text[..at], 10),
        Some((at, 'M' | 'm')) => (&text[..at], 20),
        Some((at, 'G' | 'g')) => (&text[..at], 30),
        Some((at, 'T' | 't')) => (&text[..at], 40),
        _ => (text, 0),
    };
    let exact = number.parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0).map(|n| n * (1u64 << shift) as f64);
    exact.filter(|n| *n < 1e18).map(|n| n as usize).ok_or_else(|| "a number of bytes is needed, such as 800M or 12G".into())
}

/// Numbers from `least` to `most`.
fn range(least: f32, most: f32) -> impl Fn(&str) -> Result<f32, String> + Clone + Send + Sync + 'static {
    move |text| match text.parse::<f32>() {
        Ok(x) if (least..=most).contains(&x) => Ok(x),
        _ => Err(format!("a number from {least} to {most} is needed")),
    }
}

impl Defaults {
    /// These in place of `suggested`.
    fn over(&self, suggested: Sampling) -> Sampling {
        Sampling {
            temperature: self.temperature.unwrap_or(suggested.temperature),
            top_k: self.top_k.unwrap_or(suggested.top_k),
            top_p: self.top_p.unwrap_or(suggested.top_p),
            min_p: self.min_p.unwrap_or(suggested.min_p),
            repeat_penalty: self.repeat_penalty.unwrap_or(suggested.repeat_penalty),
            presence_penalty: self.presence_penalty.unwrap_or(suggested.presence_penalty),
            frequency_penalty: self.frequency_penalty.unwrap_or(suggested.frequency_penalty),
            seed: self.seed.or(suggested.seed),
            ..suggested
        }
    }
}

/// A template's source, if it is one: before the model is loaded, and with the file's name in what is wrong.
fn read_template(file: &Path) -> anyhow::Result<String> {
    let wrong = |e: &dyn std::fmt::Display| Usage(format!("--chat-template {}: {e}", file.display()));
    let source = std::fs::read_to_string(file).map_err(|e| wrong(&e))?;
    ChatTemplate::new(&source, "", "").map_err(|e| wrong(&e))?;
    Ok(source)
}

impl Serve {
    pub(crate) fn run(self, loudness: Loudness) -> anyhow::Result<()> {
        if self.operations.check_config {
            return self.check();
        }
        self.stop_with.map_or(Ok(()), companion::end_with)?;
        let template = self.chat_template.as_deref().map(read_template).transpose()?;
        // Fetching may ask for patience and can fail: before the port is taken, so that a client never waits for a download.
        let offers = Offers::find(&self.model, &self.alias, loudness)?;
        let options = self.options(&offers)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().context("starting the server")?;
        let socket = operations::passed_socket()?;
        let (reloads, notify) = (self.operations.config.is_some() || self.api_key_file.is_some(), options.notify.clone());
        let json = self.operations.log_format == log::Format::Json;
        let say = move |text: String| match loudness {
            Loudness::Quiet => {}
            _ if json => tracing::info!("{text}"),
            _ => eprintln!("{text}"),
        };
        let listening = |server: &onebit_server::Server| {
            say(format!("listening on http://{}/v1", server.address()));
            // Where nothing can have changed, a terminal that closes ends the server, as it does other programs.
            if reloads && let Err(error) = operations::reload_on_hangup(server.keys(), notify, Self::again) {
                tracing::error!("settings cannot be read again: {error:#}");
            }
        };
        let offers = match offers {
            Offers::One(one) => {
                let load = move |progress| self.load(&one, template.as_deref(), progress, None, &say).map_err(|error| Failed(error).into());
                return runtime.block_on(onebit_server::serve(options, socket, load, listening)).map_err(|e| match e {
                    // The loader's own error knows what kind it is.
                    onebit_server::ServeError::Load(inner) => match inner.downcast::<Failed>() {
                        Ok(failed) => failed.0,
                        Err(other) => anyhow::anyhow!(other),
                    },
                    other => other.into(),
                });
            }
            Offers::Several(offers) => offers,
        };
        let limits = ShelfLimits {
            models: self.max_loaded.map(usize::from),
            // Caches take their memory when they are written, so what is free tells too much while models have just been loaded.
            memory: self.max_memory.or_else(onebit_cpu::available_memory),
        };
        let serve = Arc::new(self);
        let offer = |offered: Offered| {
            let (name, aliases, serve) = (offered.name.clone(), offered.aliases.clone(), serve.clone());
            let load: Arc<Loader> = Arc::new(move |progress, room| {
                serve.load(&offered, None, progress, room, &say).map_err(|error| {
                    // One that would not fit alone need not have others leave.
                    let may_fit = |needed: usize| limits.memory.is_none_or(|all| needed <= all);
                    let is_memory = error
                        .chain()
                        .any(|cause| matches!(cause.downcast_ref(), Some(DeviceError::Memory { needed, .. }) if may_fit(*needed)));
                    let error = anyhow::anyhow!("{error:#}").into();
                    if is_memory { LoadFault::Memory(error) } else { LoadFault::Other(error) }
                })
            });
            Offer { name, aliases, load }
        };
        let offers = offers.into_iter().map(offer).collect();
        Ok(runtime.block_on(onebit_server::serve_several(options, socket, offers, limits, listening))?)
    }

    /// What is served of a model; in `room` bytes of memory, where there is a bound.
    fn load(
        &self,
        offered: &Offered,
        template: Option<&str>,
        progress: LoadProgress,
        room: Option<usize>,
        say: &dyn Fn(String),
    ) -> anyhow::Result<Loaded> {
        let purpose = match self.pooling.pool() {
            _ if self.reranking => Purpose::Ranking,
            pool if self.embeddings || pool.is_some() => Purpose::Embeddings(pool),
            _ => Purpose::Own,
        };
        let see = if self.no_mmproj || purpose != Purpose::Own { See::Not } else { See::IfItCan(&self.sight) };
        let report = &mut |p: onebit_plan::Progress| progress.report(p.done, p.total);
        let whole = Whole { sequences: usize::from(self.parallel), purpose, see, room };
        let loaded = open::engine_at(&offered.path, offered.name.clone(), &self.device, &self.context, whole, report)?;
        if loaded.engine.config().pooling.is_some()
            && let Some(name) = onebit_models::prompts(&loaded.checkpoint)?.usual
        {
            tracing::warn!("the model was made with its prompt `{name}` before each text: clients have to write it");
        }
        say(format!("{} is ready: {} sequences of {} tokens", offered.name, self.parallel, loaded.engine.context()));
        let identity = if self.operations.saves_slots() { identity::of(&loaded, &self.device) } else { [0; 32] };
        let template = match template {
            None => loaded.template,
            Some(source) => Some(ChatTemplate::replaced(&loaded.checkpoint, loaded.engine.tokenizer(), source)?),
        };
        let ranks = match purpose {
            Purpose::Ranking => {
                let ranking = open::ranking(&loaded.checkpoint)?;
                Some(Ranks { second: ranking.second, prompt: ranking.prompt })
            }
            _ => None,
        };
        Ok(Loaded {
            sampling: self.sampling.over(suggested(&loaded.checkpoint)),
            info: ModelInfo { identity, memory: loaded.memory, ..info(&loaded.plan) },
            engine: loaded.engine,
            template,
            ranks,
            tower: loaded.tower,
        })
    }

    /// What the server is told.
    fn options(&self, offers: &Offers) -> anyhow::Result<ServeOptions> {
        let (model, aliases) = match offers {
            Offers::One(one) => (one.name.clone(), one.aliases.clone()),
            Offers::Several(_) => {
                for (flag, is_given) in [("--chat-template", self.chat_template.is_some()), ("--mmproj", self.sight.mmproj.is_some())] {
                    if is_given {
                        return Err(Usage(format!("{flag} is for one model, and there are several")).into());
                    }
                }
                (String::new(), vec![])
            }
        };
        let mut options = ServeOptions {
            host: self.host.clone(),
            port: self.port,
            api_keys: self.keys()?,
            allow_no_auth: self.no_auth,
            allowed_hosts: self.allowed_host.clone(),
            allowed_origins: self.allowed_origin.clone(),
            any_model: self.any_model,
            model,
            aliases,
            reasoning_budget: usize::try_from(self.reasoning_budget).ok(),
            drain: Duration::from_secs(self.drain),
            limits: onebit_server::Limits {
                images: self.max_images,
                image: onebit_vision::Limits { bytes: self.image_max_bytes, pixels: self.image_max_pixels },
                ..Default::default()
            },
            ..ServeOptions::default()
        };
        self.operations.apply(&mut options)?;
        Ok(options)
    }

    /// The keys of which clients have to present one.
    fn keys(&self) -> anyhow::Result<Vec<String>> {
        let mut keys = self.api_key.clone();
        if let Some(file) = &self.api_key_file {
            let text = std::fs::read_to_string(file).with_context(|| format!("{}", file.display()))?;
            keys.extend(text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')).map(str::to_string));
            if keys.is_empty() {
                return Err(Usage(format!("{} holds no key", file.display())).into());
            }
        }
        Ok(keys)
    }

    /// Keys and level of the log as command line and files have them now.
    fn again() -> anyhow::Result<(Vec<String>, log::Level)> {
        let cli = Cli::read(std::env::args_os().collect())?;
        let level = cli.log_level();
        match cli.command {
            crate::Command::Serve(serve) => Ok((serve.keys()?, level)),
            _ => anyhow::bail!("the command line is of another command"),
        }
    }

    /// Says whether all that can be known before a model is loaded is right.
    fn check(&self) -> anyhow::Result<()> {
        self.chat_template.as_deref().map(read_template).transpose()?;
        let offers = match self
            .model
            .iter()
            .map(|model| Ok(matches!(Reference::parse(model)?, Reference::Path(_))))
            .collect::<anyhow::Result<Vec<_>>>()?
        {
            // What would have to be fetched is not looked at.
            local if local.contains(&false) => {
                let named = |model: &String| Offered { path: model.into(), name: model.clone(), aliases: vec![] };
                Offers::Several(self.model.iter().map(named).collect())
            }
            _ => Offers::find(&self.model, &self.alias, Loudness::Quiet)?,
        };
        let paths = match &offers {
            Offers::One(one) => std::slice::from_ref(one),
            Offers::Several(all) => all.as_slice(),
        };
        for offered in paths.iter().filter(|offered| offered.path.exists()) {
            Checkpoint::open(&offered.path)?;
        }
        let options = self.options(&offers)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the check")?;
        let address = runtime.block_on(onebit_server::Server::check(&options))?;
        Ok(writeln!(std::io::stdout(), "{} would be served at http://{address}/v1: flags and settings are right", self.model.join(", "))?)
    }
}

/// What the model's makers suggest in `generation_config.json`, for requests that do not say.
fn suggested(checkpoint: &Checkpoint) -> Sampling {
    let number = |key: &str| checkpoint.generation_config.get(key).and_then(serde_json::Value::as_f64);
    let mut sampling = Sampling::default();
    if let Some(t) = number("temperature").filter(|t| (0.0..=2.0).contains(t)) {
        sampling.temperature = t as f32;
    }
    if let Some(p) = number("top_p").filter(|p| *p > 0.0 && *p <= 1.0) {
        sampling.top_p = p as f32;
    }
    if let Some(k) = number("top_k").filter(|k| (0.0..=1e6).contains(k)) {
        sampling.top_k = k as usize;
    }
    sampling
}

fn info(plan: &Plan) -> ModelInfo {
    let mut types: Vec<(String, usize)> = vec![];
    for w in &plan.weights {
        match types.iter_mut().find(|t| t.0 == w.ty.name()) {
            Some(t) => t.1 += w.bytes,
            None => types.push((w.ty.name().to_string(), w.bytes)),
        }
    }
    types.sort_by_key(|t| std::cmp::Reverse(t.1));
    ModelInfo {
        architecture: plan.name.clone(),
        trained_context: plan.context,
        embedding: plan.values.first().map_or(0, |v| v.width),
        parameters: plan.weights.iter().map(|w| w.shape.iter().product::<usize>() as u64).sum(),
        bytes: plan.weight_bytes() as u64,
        weight_types: types.into_iter().map(|t| t.0).collect(),
        memory: 0,
        identity: [0; 32],
    }
}

/// Carries an error of this crate through the server, kind and all.
#[derive(Debug)]
struct Failed(anyhow::Error);

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl std::error::Error for Failed {}
