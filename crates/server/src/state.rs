//! What all connections share: the options, the model once it is there, and what bounds the work outside the engine.

use crate::error::ApiError;
use crate::keys::Keys;
use crate::marks::Marks;
use crate::options::ServeOptions;
use crate::shelf::Shelf;
use axum::http::StatusCode;
use onebit_engine::{Engine, Sampling, SubmitError};
use onebit_grammar::{Answer, Compiler, Grammar, GrammarError, Limits};
use onebit_text::{ChatTemplate, Contents, Tokenizer, parse::Output};
use onebit_vision::Tower;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use tokio::sync::Semaphore;

/// A model that is ready to answer: what the loader hands to the server.
#[derive(Debug)]
pub struct Loaded {
    /// Runs it.
    pub engine: Engine,
    /// Makes prompts of chats, where the model has a template.
    pub template: Option<ChatTemplate>,
    /// What the model sees with, if it does.
    pub tower: Option<Tower>,
    /// How tokens are chosen where a request does not say: [`Sampling::default`] is what OpenAI's API documents.
    pub sampling: Sampling,
    /// What `/v1/models` tells.
    pub info: ModelInfo,
    /// Where the engine's vectors are scores of pairs of texts.
    pub ranks: Option<Ranks>,
}

/// How pairs of texts are put to a model that scores them.
#[derive(Clone, Debug, Default)]
pub struct Ranks {
    /// What the second text's tokens are given besides, where the model tells two kinds of tokens apart.
    pub second: Option<Arc<[f32]>>,
    /// What both texts are written into, at `{query}` and `{document}`, where the model reads them as a prompt.
    pub prompt: Option<String>,
}

/// Facts about a model, for `/v1/models`.
#[derive(Clone, Debug, Default)]
pub struct ModelInfo {
    /// The architecture's name: `llama`.
    pub architecture: String,
    /// Tokens of context that the model was trained for.
    pub trained_context: usize,
    /// Numbers in a token's embedding.
    pub embedding: usize,
    /// Numbers in all weights.
    pub parameters: u64,
    /// Bytes of all weights in the file.
    pub bytes: u64,
    /// How weights are stored, the most frequent first: `Q4_1`, `F32`.
    pub weight_types: Vec<String>,
    /// Bytes that the model takes where it runs: weights, caches and all else.
    pub memory: usize,
    /// Differs from that of any other model, and of this one on another device or with other caches.
    pub identity: [u8; 32],
}

/// How far loading has come, in bytes of weights. The loader reports it and everyone who asks `/health` sees it.
#[derive(Clone, Debug, Default)]
pub struct LoadProgress(Arc<(AtomicUsize, AtomicUsize)>);

impl LoadProgress {
    /// Reports that `done` of `total` bytes are loaded.
    pub fn report(&self, done: usize, total: usize) {
        self.0.0.store(done, Ordering::Relaxed);
        self.0.1.store(total, Ordering::Relaxed);
    }

    /// From 0 to 1.
    pub(crate) fn fraction(&self) -> f32 {
        let (done, total) = (self.0.0.load(Ordering::Relaxed), self.0.1.load(Ordering::Relaxed));
        if total == 0 { 0.0 } else { (done as f64 / total as f64).min(1.0) as f32 }
    }
}

/// A model that answers: what was loaded, and what the server makes of it once.
pub(crate) struct Model {
    /// As answers call it.
    pub(crate) name: String,
    pub(crate) engine: Engine,
    pub(crate) template: Option<ChatTemplate>,
    /// How the template takes what messages hold.
    pub(crate) contents: Contents,
    pub(crate) tower: Option<Tower>,
    pub(crate) sampling: Sampling,
    pub(crate) info: ModelInfo,
    pub(crate) ranks: Option<Ranks>,
    pub(crate) marks: Marks,
    /// How its chats' answers are read.
    pub(crate) reading: Reading,
    /// The same where the template has no place for tools.
    pub(crate) plain_reading: Reading,
    /// Makes grammars, once there was one to be made.
    compiler: OnceLock<Result<Compiler, GrammarError>>,
}

impl Model {
    /// Reads what an answer is to be held to. It takes a while, the first time a second for a large vocabulary.
    pub(crate) fn compile(&self, answer: &Answer, limits: &Limits) -> Result<Grammar, GrammarError> {
        let compiler = self.compiler.get_or_init(|| Compiler::of(self.engine.tokenizer(), limits.clone()));
        compiler.as_ref().map_err(Clone::clone)?.compile(answer)
    }
}

/// How the answers of a model are taken apart.
pub(crate) struct Reading {
    pub(crate) output: Output,
    /// The special tokens that this needs to see.
    pub(crate) shown: Arc<[u32]>,
}

impl Reading {
    fn of(template: Option<&ChatTemplate>, tokenizer: &Tokenizer) -> Self {
        Self::with(Output::of(&template.map(|t| t.sources().collect::<Vec<_>>().join("\n")).unwrap_or_default()), tokenizer)
    }

    fn with(output: Output, tokenizer: &Tokenizer) -> Self {
        let shown = tokenizer.special_ids().filter(|id| tokenizer.token_text(*id).is_some_and(|text| output.needs(&text))).collect();
        Self { output, shown }
    }
}

impl Model {
    pub(crate) fn new(loaded: Loaded, name: String) -> Self {
        let Loaded { engine, template, tower, sampling, info, ranks } = loaded;
        let processor = tower.as_ref().map(Tower::processor);
        let marks = Marks::of(engine.tokenizer(), processor.into_iter().flat_map(|p| [p.mark(), p.token()]));
        let reading = Reading::of(template.as_ref(), engine.tokenizer());
        let plain_reading = Reading::with(reading.output.with_plain_calls(), engine.tokenizer());
        let contents = template.as_ref().map_or(Contents::TEXT, |template| template.contents(processor.map(|p| p.mark())));
        Self { name, engine, template, contents, tower, sampling, info, ranks, marks, reading, plain_reading, compiler: OnceLock::new() }
    }
}

/// Answers sent, counted.
#[derive(Default)]
pub(crate) struct Answered([AtomicU64; 5]);

impl Answered {
    const CLASSES: [&'static str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

    pub(crate) fn count(&self, status: StatusCode) {
        if let Some(class) = self.0.get(usize::from(status.as_u16() / 100).wrapping_sub(1)) {
            class.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many there were of each class.
    pub(crate) fn read(&self) -> [(&'static str, u64); 5] {
        std::array::from_fn(|i| (Self::CLASSES[i], self.0[i].load(Ordering::Relaxed)))
    }
}

/// Where the server is in its life.
enum Phase {
    Loading,
    Ready(Arc<Model>),
    /// Several models, each of which has a state of its own.
    Several(Arc<Shelf>),
    Stopping,
}

/// Shared by all connections.
pub(crate) struct App {
    pub(crate) options: ServeOptions,
    pub(crate) keys: Keys,
    pub(crate) progress: LoadProgress,
    pub(crate) started: u64,
    phase: RwLock<Phase>,
    /// The engine, also after the phase has moved on to stopping.
    model: OnceLock<Arc<Model>>,
    /// The models, where there are several; also then.
    shelf: OnceLock<Arc<Shelf>>,
    /// Bytes of bodies that may still be taken in.
    pub(crate) bodies: Arc<Semaphore>,
    /// One at a time saves or restores a slot.
    pub(crate) keeping: Semaphore,
    /// Answers by the first digit of their status.
    pub(crate) answered: Answered,
    /// How many requests may be parsed, rendered and tokenized at a time: as many as there are processors.
    pub(crate) preparing: Semaphore,
}

impl App {
    pub(crate) fn new(options: ServeOptions) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let bodies = options.limits.bodies.min(Semaphore::MAX_PERMITS);
        Self {
            keys: Keys::new(&options.api_keys),
            options,
            progress: LoadProgress::default(),
            started: crate::error::unix_time(),
            phase: RwLock::new(Phase::Loading),
            model: OnceLock::new(),
            shelf: OnceLock::new(),
            bodies: Arc::new(Semaphore::new(bodies)),
            keeping: Semaphore::new(1),
            answered: Answered::default(),
            preparing: Semaphore::new(processors),
        }
    }

    /// Whether requests are answered, or the 503 that says why not.
    pub(crate) fn serving(&self) -> Result<(), ApiError> {
        match self.shelf() {
            Some(_) => Ok(()),
            None => self.only().map(drop),
        }
    }

    /// The models, where there are several and the server is not stopping.
    pub(crate) fn shelf(&self) -> Option<Arc<Shelf>> {
        match &*self.phase.read().unwrap_or_else(PoisonError::into_inner) {
            Phase::Several(shelf) => Some(shelf.clone()),
            _ => None,
        }
    }

    /// The model that a request names, loaded where there are several and it is not there yet; or the error that says why there is none.
    pub(crate) async fn model(&self, name: Option<&str>) -> Result<Arc<Model>, ApiError> {
        match self.shelf() {
            Some(shelf) => shelf.acquire(name, self.options.any_model).await,
            None => self.only(),
        }
    }

    /// The model, where there is one that is ready; of several, the one that `?model=NAME` of a query names, or the only one that is loaded.
    pub(crate) fn watched(&self, query: Option<&str>) -> Result<Arc<Model>, ApiError> {
        let Some(shelf) = self.shelf() else { return self.only() };
        let named = query.into_iter().flat_map(|query| query.split('&')).find_map(|part| part.strip_prefix("model="));
        shelf.loaded(named.map(percent_decoded).as_deref())
    }

    /// All models that are loaded.
    pub(crate) fn ready_models(&self) -> Result<Vec<Arc<Model>>, ApiError> {
        match self.shelf() {
            Some(shelf) => Ok(shelf.ready()),
            None => self.only().map(|model| vec![model]),
        }
    }

    /// The only model, or the 503 that says why there is none.
    fn only(&self) -> Result<Arc<Model>, ApiError> {
        match &*self.phase.read().unwrap_or_else(PoisonError::into_inner) {
            Phase::Ready(model) => match model.engine.closed() {
                // The engine has logged why.
                Some(SubmitError::Stopped(_)) => {
                    Err(ApiError::unavailable("engine_stopped", "The model has stopped working: the server has to be started again"))
                }
                _ => Ok(model.clone()),
            },
            Phase::Loading => {
                let mut error = ApiError::unavailable("loading", "Loading model").retry(1);
                error.progress = Some(self.progress.fraction());
                Err(error)
            }
            Phase::Several(_) | Phase::Stopping => Err(ApiError::unavailable("shutting_down", "The server is shutting down")),
        }
    }

    /// There are several models, none of which is loaded yet.
    pub(crate) fn offers(&self, shelf: Shelf) -> Arc<Shelf> {
        let shelf = self.shelf.get_or_init(|| Arc::new(shelf)).clone();
        *self.phase.write().unwrap_or_else(PoisonError::into_inner) = Phase::Several(shelf.clone());
        shelf
    }

    /// The model is there. Nothing happens when the server is stopping already.
    pub(crate) fn ready(&self, model: Model) -> Arc<Model> {
        let model = Arc::new(model);
        let mut phase = self.phase.write().unwrap_or_else(PoisonError::into_inner);
        if matches!(*phase, Phase::Loading) && self.model.set(model.clone()).is_ok() {
            *phase = Phase::Ready(model.clone());
        }
        model
    }

    /// New requests get a 503 from now on. Gives the engines, which may be running still.
    pub(crate) fn stop(&self) -> Vec<Engine> {
        *self.phase.write().unwrap_or_else(PoisonError::into_inner) = Phase::Stopping;
        let several = self.shelf.get().map(|shelf| shelf.stop()).unwrap_or_default();
        self.model.get().map(|m| m.engine.clone()).into_iter().chain(several).collect()
    }
}

/// A value of a query; what is wrongly encoded stays as it is.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).filter(|_| *first == b'%').and_then(|two| std::str::from_utf8(two).ok());
        match hex.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(if *first == b'+' { b' ' } else { *first });
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
