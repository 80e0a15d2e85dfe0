use crate::{
    Loudness,
    failure::Usage,
    open::{self, ContextArgs, DeviceArgs},
};
use anyhow::Context;
use onebit_engine::Sampling;
use onebit_formats::Checkpoint;
use onebit_plan::Plan;
use onebit_server::{Loaded, ModelInfo, ServeOptions};
use onebit_text::ChatTemplate;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// Serve the OpenAI-compatible API
///
/// Listens at once; `/health` tells when the model is loaded. SIGTERM and Ctrl-C let running answers finish.
#[derive(clap::Args)]
pub(crate) struct Serve {
    /// The model
    #[arg(short, long, value_name = "MODEL")]
    model: String,
    /// The name that clients use [default: the model's own]
    #[arg(short, long, value_name = "NAME")]
    alias: Vec<String>,
    /// A chat template in Jinja, in place of the model's own
    #[arg(long, value_name = "FILE", alias = "chat-template-file")]
    chat_template: Option<PathBuf>,
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
    #[command(flatten)]
    context: ContextArgs,
    #[command(flatten)]
    device: DeviceArgs,
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
        let template = self.chat_template.as_deref().map(read_template).transpose()?;
        // Fetching may ask for patience and can fail: before the port is taken, so that a client never waits for a download.
        let path = open::obtain(&self.model, loudness)?;
        let name = open::display_name(&self.model, &path);
        let mut names = self.alias.clone();
        names.push(name);
        let mut keys = self.api_key.clone();
        if let Some(file) = &self.api_key_file {
            let text = std::fs::read_to_string(file).with_context(|| format!("{}", file.display()))?;
            keys.extend(text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')).map(str::to_string));
            if keys.is_empty() {
                return Err(Usage(format!("{} holds no key", file.display())).into());
            }
        }
        let options = ServeOptions {
            host: self.host.clone(),
            port: self.port,
            api_keys: keys,
            allow_no_auth: self.no_auth,
            allowed_hosts: self.allowed_host.clone(),
            allowed_origins: self.allowed_origin.clone(),
            model: names.remove(0),
            aliases: names,
            drain: Duration::from_secs(self.drain),
            ..ServeOptions::default()
        };
        let model = options.model.clone();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().context("starting the server")?;
        let load = move |progress: onebit_server::LoadProgress| -> Result<Loaded, onebit_server::LoadError> {
            let sequences = usize::from(self.parallel);
            let loaded =
                open::engine_at(&path, model.clone(), &self.device, &self.context, sequences, &mut |p| progress.report(p.done, p.total))
                    .map_err(Failed)?;
            if loudness > Loudness::Quiet {
                eprintln!("{model} is ready: {} sequences of {} tokens", self.parallel, loaded.engine.context());
            }
            let template = match &template {
                None => loaded.template,
                Some(source) => {
                    let replaced = ChatTemplate::replaced(&loaded.checkpoint, loaded.engine.tokenizer(), source);
                    Some(replaced.map_err(|e| Failed(e.into()))?)
                }
            };
            Ok(Loaded { sampling: suggested(&loaded.checkpoint), info: info(&loaded.plan), engine: loaded.engine, template })
        };
        let listening = |address: std::net::SocketAddr| {
            if loudness > Loudness::Quiet {
                eprintln!("listening on http://{address}/v1");
            }
        };
        runtime.block_on(onebit_server::serve(options, load, listening)).map_err(|e| match e {
            // The loader's own error knows what kind it is.
            onebit_server::ServeError::Load(inner) => match inner.downcast::<Failed>() {
                Ok(failed) => failed.0,
                Err(other) => anyhow::anyhow!(other),
            },
            other => other.into(),
        })
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
