//! Several models: loaded when somebody asks for them, and put away, the longest unused first, where there is no room for another.
//!
//! A model is absent, being loaded, ready, or leaving. One at a time is loaded, in the order in which they were asked for. What makes room
//! leaves first: no request gets it any more, those that have it end as they would have, and then its memory is given back. Who
//! asks for it meanwhile waits for it to be loaded again, so that nobody can keep others out by asking on.

use crate::error::ApiError;
use crate::json::shorten;
use crate::serve::LoadError;
use crate::state::{LoadProgress, Loaded, Model};
use onebit_engine::{Engine, SubmitError};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

/// Requests that may wait for models to be loaded.
const WAITING: usize = 256;
/// How often it is seen whether the last request has left a model.
const GLANCE: Duration = Duration::from_millis(5);

/// Loads a model, which may take so many bytes of memory, if there is a bound besides what the machine has.
pub type Loader = dyn Fn(LoadProgress, Option<usize>) -> Result<Loaded, LoadFault> + Send + Sync;

/// A model that can be asked for.
#[derive(Clone)]
pub struct Offer {
    /// Its name, as clients ask for it.
    pub name: String,
    /// Further names.
    pub aliases: Vec<String>,
    /// Loads it, each time when it is needed.
    pub load: Arc<Loader>,
}

/// Why a model could not be loaded.
#[derive(Debug)]
pub enum LoadFault {
    /// There is not enough memory; where another model leaves, there may be.
    Memory(LoadError),
    /// Anything else.
    Other(LoadError),
}

impl std::fmt::Display for LoadFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Memory(error) | Self::Other(error) => write!(f, "{error}"),
        }
    }
}

/// How many models may be loaded at a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShelfLimits {
    /// Models; `None` for as many as there is memory for.
    pub models: Option<usize>,
    /// Bytes that they may take together; `None` for what the machine has.
    pub memory: Option<usize>,
}

/// The models of a server.
pub(crate) struct Shelf {
    entries: Vec<Entry>,
    limits: ShelfLimits,
    /// How long a request may wait for a model.
    patience: Duration,
    /// Held by who loads.
    turn: tokio::sync::Mutex<()>,
    /// Counts changes of states.
    changes: watch::Sender<u64>,
    /// Counts uses, to tell which was the last.
    uses: AtomicU64,
    waiting: AtomicUsize,
    loads: AtomicU64,
    evictions: AtomicU64,
    stopping: Mutex<bool>,
}

struct Entry {
    offer: Offer,
    /// Requests that ask for it and do not have it yet.
    asking: AtomicUsize,
    state: Mutex<State>,
}

enum State {
    /// With the number of the last try that failed, and what it said.
    Absent(Option<(u64, ApiError)>),
    Loading {
        attempt: u64,
        progress: LoadProgress,
    },
    Ready {
        model: Arc<Model>,
        /// When it was asked for the last time.
        used: u64,
    },
    Leaving(Engine),
}

/// One of the models, for those who watch.
pub(crate) struct Shown {
    pub(crate) name: String,
    pub(crate) aliases: Vec<String>,
    pub(crate) model: Option<Arc<Model>>,
    /// In llama-server's words.
    pub(crate) status: Value,
}

/// Counts a request that waits, until it is dropped.
struct Waiter<'a>(&'a AtomicUsize);

impl<'a> Waiter<'a> {
    /// Counted, with how many there were before.
    fn count(counter: &'a AtomicUsize) -> (Self, usize) {
        let before = counter.fetch_add(1, Ordering::SeqCst);
        (Self(counter), before)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Shelf {
    pub(crate) fn new(offers: Vec<Offer>, limits: ShelfLimits, patience: Duration) -> Self {
        let entries = offers.into_iter().map(|offer| Entry { offer, asking: AtomicUsize::new(0), state: Mutex::new(State::Absent(None)) });
        Self {
            entries: entries.collect(),
            limits,
            patience,
            turn: tokio::sync::Mutex::new(()),
            changes: watch::Sender::new(0),
            uses: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            loads: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            stopping: Mutex::new(false),
        }
    }

    fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.offer.name == name || entry.offer.aliases.iter().any(|alias| alias == name))
    }

    /// The name by which a model is offered.
    fn resolve(&self, name: Option<&str>, any: bool) -> Result<&Entry, ApiError> {
        let first = || self.entries.first().ok_or_else(|| ApiError::internal("a server without models"));
        match name {
            Some(name) => match self.find(name) {
                Some(entry) => Ok(entry),
                None if any => first(),
                None => Err(ApiError::no_model(&shorten(name))),
            },
            None if any || self.entries.len() == 1 => first(),
            None => Err(ApiError::invalid("model", "`model` is missing: this server has several; GET /v1/models lists them")),
        }
    }

    /// A model that was asked for, loaded if it is not there. With `any`, unknown names are the first model's.
    pub(crate) async fn acquire(self: &Arc<Self>, name: Option<&str>, any: bool) -> Result<Arc<Model>, ApiError> {
        let entry = self.resolve(name, any)?;
        let mut changes = self.changes.subscribe();
        let deadline = Instant::now() + self.patience;
        let mut waited_for = None;
        let (_waiting, others) = Waiter::count(&self.waiting);
        if others >= WAITING {
            return Err(ApiError::busy(Duration::from_secs(5)));
        }
        let _asking = Waiter::count(&entry.asking);
        loop {
            if *self.is_stopping() {
                return Err(ApiError::unavailable("shutting_down", "The server is shutting down"));
            }
            match self.look(entry, &mut waited_for)? {
                Some(model) => return Ok(model),
                None => match timeout_at(deadline, changes.changed()).await {
                    Ok(Ok(())) => {}
                    _ => {
                        let message = format!("The model `{}` was not loaded within {} seconds", entry.offer.name, self.patience.as_secs());
                        return Err(ApiError::unavailable("loading", message).retry(10));
                    }
                },
            }
        }
    }

    /// The model if it is there; else sees to it that it is loaded. `waited_for` is the try that the caller waits for.
    fn look(self: &Arc<Self>, entry: &Entry, waited_for: &mut Option<u64>) -> Result<Option<Arc<Model>>, ApiError> {
        let mut state = entry.state();
        match &mut *state {
            State::Ready { model, .. } if matches!(model.engine.closed(), Some(SubmitError::Stopped(_))) => {
                // The engine has logged why. Another one is as good as new.
                *state = State::Absent(None);
            }
            State::Ready { model, used } => {
                *used = self.uses.fetch_add(1, Ordering::Relaxed);
                return Ok(Some(model.clone()));
            }
            State::Loading { attempt, .. } => {
                *waited_for = Some(*attempt);
                return Ok(None);
            }
            State::Leaving(_) => return Ok(None),
            State::Absent(Some((failed, error))) if Some(*failed) == *waited_for => return Err(error.clone()),
            State::Absent(_) => {}
        }
        let attempt = self.loads.fetch_add(1, Ordering::Relaxed);
        let progress = LoadProgress::default();
        *state = State::Loading { attempt, progress: progress.clone() };
        *waited_for = Some(attempt);
        drop(state);
        let (shelf, name) = (self.clone(), entry.offer.name.clone());
        // A task of its own: whoever asked may leave, and others wait as well.
        tokio::spawn(async move { shelf.load(&name, attempt, progress).await });
        Ok(None)
    }

    async fn load(&self, name: &str, attempt: u64, progress: LoadProgress) {
        let Some(entry) = self.find(name) else { return };
        let _turn = self.turn.lock().await;
        while self.limits.models.is_some_and(|most| self.count() >= most) {
            if !self.make_room().await {
                break;
            }
        }
        let begun = Instant::now();
        let loaded = loop {
            let room = self.limits.memory.map(|all| all.saturating_sub(self.memory()));
            let load = entry.offer.load.clone();
            let progress = progress.clone();
            let loading = crate::serve::on_a_thread(move || load(progress, room));
            match loading.await {
                Err(LoadFault::Memory(error)) => {
                    tracing::info!(model = name, %error, "a model has to leave for another one");
                    if !self.make_room().await {
                        break Err(LoadFault::Memory(error));
                    }
                }
                other => break other,
            }
        };
        let state = match loaded {
            Ok(loaded) => {
                let seconds = begun.elapsed().as_secs_f32();
                tracing::info!(model = name, seconds, "a model is loaded");
                let model = Arc::new(Model::new(loaded, entry.offer.name.clone()));
                State::Ready { model, used: self.uses.fetch_add(1, Ordering::Relaxed) }
            }
            Err(fault) => {
                let id = crate::error::fresh_id("err-");
                tracing::error!(model = name, id, error = %fault, "a model could not be loaded");
                let error = match fault {
                    LoadFault::Memory(_) => {
                        let message =
                            format!("There is not enough memory for the model `{name}`; the server's log tells more under the id {id}");
                        ApiError::unavailable("no_memory", message).retry(30)
                    }
                    LoadFault::Other(_) => {
                        let message = format!("The model `{name}` could not be loaded; the server's log tells why under the id {id}");
                        ApiError::unavailable("model_failed", message)
                    }
                };
                State::Absent(Some((attempt, error)))
            }
        };
        let stopping = self.is_stopping();
        // What comes too late is dropped, and with it its engine.
        if !*stopping {
            *entry.state() = state;
        }
        drop(stopping);
        self.changed();
    }

    /// Has one of the models leave, and waits until its memory is there again; false where there is none.
    async fn make_room(&self) -> bool {
        let (entry, model) = loop {
            match self.choose() {
                Some(chosen) => break chosen,
                // Those for whom a model was loaded have yet to take it: they must not see it leave before.
                None if self.count() > 0 && !*self.is_stopping() => sleep(GLANCE).await,
                None => return false,
            }
        };
        let (name, engine) = (&entry.offer.name, model.engine.clone());
        tracing::info!(model = name, "a model leaves");
        self.changed();
        // Handlers that have it have yet to submit.
        while Arc::strong_count(&model) > 1 {
            sleep(GLANCE).await;
        }
        drop(model);
        // What was submitted runs to its end.
        let ended = tokio::task::spawn_blocking(move || engine.shutdown(Duration::MAX)).await;
        if let Err(error) = ended {
            tracing::error!(model = name, %error, "waiting for a model's end failed");
        }
        *entry.state() = State::Absent(None);
        self.evictions.fetch_add(1, Ordering::Relaxed);
        self.changed();
        true
    }

    /// The model that leaves: of those that have nothing to do, or else of all, the longest unused. It is leaving from now on.
    fn choose(&self) -> Option<(&Entry, Arc<Model>)> {
        let rank = |entry: &Entry| match &*entry.state() {
            State::Ready { model, used } if entry.asking.load(Ordering::SeqCst) == 0 => {
                let stats = model.engine.stats();
                Some((stats.running + stats.waiting > 0 || Arc::strong_count(model) > 1, *used))
            }
            _ => None,
        };
        let entry = self.entries.iter().filter_map(|entry| rank(entry).map(|rank| (rank, entry))).min_by_key(|(rank, _)| *rank)?.1;
        let mut state = entry.state();
        let State::Ready { model, .. } = &*state else { return None };
        let model = model.clone();
        *state = State::Leaving(model.engine.clone());
        drop(state);
        Some((entry, model))
    }

    /// Nothing is loaded or given from now on. Gives the engines that run.
    pub(crate) fn stop(&self) -> Vec<Engine> {
        *self.is_stopping() = true;
        let engines = self.entries.iter().filter_map(|entry| match &*entry.state() {
            State::Ready { model, .. } => Some(model.engine.clone()),
            State::Leaving(engine) => Some(engine.clone()),
            State::Absent(_) | State::Loading { .. } => None,
        });
        let engines = engines.collect();
        self.changed();
        engines
    }

    /// Models that are loaded.
    fn count(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(&*entry.state(), State::Ready { .. } | State::Leaving(_))).count()
    }

    /// Bytes that loaded models take.
    fn memory(&self) -> usize {
        self.ready().iter().map(|model| model.info.memory).sum()
    }

    /// The models that are loaded.
    pub(crate) fn ready(&self) -> Vec<Arc<Model>> {
        let ready = self.entries.iter().filter_map(|entry| match &*entry.state() {
            State::Ready { model, .. } => Some(model.clone()),
            _ => None,
        });
        ready.collect()
    }

    /// A model of those that are loaded, for those who watch: the one that is named, or the only one.
    pub(crate) fn loaded(&self, name: Option<&str>) -> Result<Arc<Model>, ApiError> {
        let Some(name) = name else {
            let mut ready = self.ready();
            return match (ready.pop(), ready.is_empty()) {
                (Some(only), true) => Ok(only),
                _ => Err(ApiError::invalid("model", "Which model is meant is to be said: `?model=NAME`, of those that are loaded")),
            };
        };
        let entry = self.resolve(Some(name), false)?;
        match &*entry.state() {
            State::Ready { model, .. } => Ok(model.clone()),
            _ => Err(ApiError::unavailable("not_loaded", format!("The model `{}` is not loaded", entry.offer.name))),
        }
    }

    /// All models, in the order in which they were given.
    pub(crate) fn show(&self) -> Vec<Shown> {
        let shown = self.entries.iter().map(|entry| {
            let (model, status) = match &*entry.state() {
                State::Absent(None) => (None, json!({ "value": "unloaded" })),
                State::Absent(Some(_)) => (None, json!({ "value": "unloaded", "failed": true })),
                State::Loading { progress, .. } => (None, json!({ "value": "loading", "progress": progress.fraction() })),
                State::Ready { model, .. } => (Some(model.clone()), json!({ "value": "loaded" })),
                State::Leaving(_) => (None, json!({ "value": "unloading" })),
            };
            Shown { name: entry.offer.name.clone(), aliases: entry.offer.aliases.clone(), model, status }
        });
        shown.collect()
    }

    /// How often models were loaded, or tried to be, and had to leave.
    pub(crate) fn counts(&self) -> [u64; 2] {
        [self.loads.load(Ordering::Relaxed), self.evictions.load(Ordering::Relaxed)]
    }

    fn changed(&self) {
        self.changes.send_modify(|n| *n += 1);
    }

    fn is_stopping(&self) -> MutexGuard<'_, bool> {
        self.stopping.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// States are whole at every moment at which a panic is possible.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
