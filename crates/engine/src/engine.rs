//! The handle that callers hold, and what it shares with the scheduler's thread.

use crate::given::Beside;
use crate::guided::Workers;
use crate::scheduler::Scheduler;
use crate::sequence::Sequence;
use crate::stream::channel;
use crate::{Config, KeepError, Request, Saved, SavedForm, SlotStatus, Stats, Stream, SubmitError, Text, Vocabulary};
use onebit_plan::{Executable, Limits};
use onebit_text::Tokenizer;
use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A model that runs for many callers at once. Clones are handles to the same engine; it can be shared by threads.
///
/// When the last handle is gone, no more requests come; those accepted run to their ends, and then the thread ends and
/// gives back the executable's memory. [`shutdown`](Engine::shutdown) waits for that, and not longer than it is told.
#[derive(Debug)]
pub struct Engine<V: Vocabulary = Tokenizer> {
    handle: Arc<Handle<V>>,
}

/// Counted by `Engine`'s clones, where `Shared` is held by the thread too.
#[derive(Debug)]
struct Handle<V> {
    shared: Arc<Shared<V>>,
}

/// What handles and the scheduler's thread share.
#[derive(Debug)]
pub(crate) struct Shared<V> {
    pub config: Config,
    pub limits: Limits,
    /// Ids are below it.
    pub ids: usize,
    /// Numbers in a row of output: of logits, or of hidden states.
    pub width: usize,
    /// Numbers in a row that stands in for a token; 0 where there are none.
    pub given: usize,
    /// Bytes of a page and of a slot, where the executable gives them out.
    parts: Option<[usize; 2]>,
    pub vocabulary: Arc<V>,
    /// Make the masks of grammars.
    workers: Arc<Workers>,
    inbox: Mutex<Inbox>,
    /// Something came into the inbox.
    wake: Condvar,
    /// The thread ended.
    ended: Condvar,
    stats: Mutex<Stats>,
    slots: Mutex<Vec<SlotStatus>>,
}

#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// Accepted and not yet begun, those first that go first.
    pub waiting: VecDeque<Sequence>,
    /// To be done between two steps.
    pub keeping: Vec<Keep>,
    /// Why nothing is accepted any more.
    pub closed: Option<SubmitError>,
    /// When running streams are to be failed.
    pub deadline: Option<Instant>,
    accepted: u64,
    refused: u64,
    ended: bool,
}

/// Where the answer to a [`Keep`] goes.
pub(crate) type Reply<T> = SyncSender<Result<T, KeepError>>;

/// What is to be done with what is known of a slot's last sequence.
#[derive(Debug)]
pub(crate) enum Keep {
    Save { slot: usize, reply: Reply<Saved> },
    Restore { slot: usize, saved: Saved, reply: Reply<()> },
    Erase { slot: usize, reply: Reply<usize> },
}

impl<V> Clone for Engine<V>
where
    V: Vocabulary,
{
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone() }
    }
}

impl<V: Vocabulary> Engine<V> {
    /// Starts the scheduler's thread, which owns `executable`.
    ///
    /// # Panics
    /// If the system cannot start a thread.
    pub fn new(executable: Box<dyn Executable>, tokenizer: Arc<V>, config: Config) -> Self {
        let limits = executable.limits().clone();
        let shared = Arc::new(Shared {
            config: config.within(&limits),
            ids: executable.vocabulary(),
            width: executable.width(),
            given: executable.given(),
            limits,
            parts: executable.part_bytes(),
            vocabulary: tokenizer,
            workers: Arc::default(),
            inbox: Mutex::default(),
            wake: Condvar::new(),
            ended: Condvar::new(),
            stats: Mutex::default(),
            slots: Mutex::default(),
        });
        let scheduler = Scheduler::new(executable, shared.clone());
        scheduler.publish();
        std::thread::Builder::new()
            .name("1bit-engine".into())
            .spawn(move || scheduler.run())
            .unwrap_or_else(|error| panic!("the engine's thread cannot be started: {error}"));
        Self { handle: Arc::new(Handle { shared }) }
    }

    /// Queues a request. It is checked first, and refused without any work if it breaks a limit.
    pub fn submit(&self, mut request: Request) -> Result<Stream, SubmitError> {
        let shared = &self.handle.shared;
        if shared.config.pooling.is_some() {
            return Err(SubmitError::NoText);
        }
        let source = request.take_source(shared.config.answering.as_ref(), shared.config.context)?;
        if let Some(id) = source.iter().find(|id| **id as usize >= shared.ids) {
            return Err(SubmitError::Invalid {
                param: "prompt",
                message: format!("token {id} is not in the vocabulary of {}", shared.ids),
            });
        }
        request.validate(shared.ids, shared.config.context)?;
        // What a prompt can have of a step in which all others that run get a token.
        let step = shared.config.prompt_chunk.min(shared.limits.batch.saturating_sub(shared.config.max_sequences - 1));
        Beside::validate(&request.given, &request.axes, request.prompt.len(), shared.given, step)?;
        match shared.config.denoising {
            Some(model) => request.fit_diffusion(shared.limits.outputs.saturating_sub(usize::from(model.shifted)))?,
            None => request.refuse_diffusion()?,
        }
        self.enqueue(request, source)
    }

    /// Queues a text of which vectors are to be made, by an engine whose [`Config::pooling`] says how: the stream yields an
    /// [`Event::Embedding`](crate::Event).
    pub fn embed(&self, text: impl Into<Text>) -> Result<Stream, SubmitError> {
        let Text { ids, given, timeout } = text.into();
        let shared = &self.handle.shared;
        if shared.config.pooling.is_none() {
            return Err(SubmitError::NoEmbeddings);
        }
        if ids.len() > shared.config.context {
            return Err(SubmitError::SourceTooLong { prompt: ids.len(), limit: shared.config.context });
        }
        Beside::validate(&given, &[], ids.len(), shared.given, shared.config.context)?;
        let request = Request { prompt: ids, given, timeout, ..Request::default() };
        request.validate_prompt(shared.ids)?;
        self.enqueue(request, vec![])
    }

    fn enqueue(&self, request: Request, source: Vec<u32>) -> Result<Stream, SubmitError> {
        let shared = &self.handle.shared;
        let (sender, stream) = channel();
        let sequence = Sequence::new(request, source, sender, &shared.config, shared.given, &shared.workers, &*shared.vocabulary);
        shared.accept(sequence)?;
        Ok(stream)
    }

    /// Accepts nothing more, gives what was accepted the time `drain` to end, fails what has not, and waits until the thread has
    /// ended: at most `drain` and one step. It blocks; a later call can shorten the time but not lengthen it.
    pub fn shutdown(&self, drain: Duration) {
        let shared = &self.handle.shared;
        let deadline = Instant::now().checked_add(drain);
        let mut inbox = shared.inbox();
        inbox.closed.get_or_insert(SubmitError::ShuttingDown);
        inbox.deadline = match (inbox.deadline, deadline) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        shared.wake.notify_all();
        while !inbox.ended {
            inbox = shared.ended.wait(inbox).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What the engine is doing and has done, as of the last step.
    pub fn stats(&self) -> Stats {
        let shared = &self.handle.shared;
        let mut stats = shared.stats.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let inbox = shared.inbox();
        stats.waiting += inbox.waiting.len();
        stats.requests = inbox.accepted;
        stats.refused = inbox.refused;
        stats
    }

    /// The places in which sequences run, as of the last step.
    pub fn slots(&self) -> Vec<SlotStatus> {
        self.handle.shared.slots.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is known of the beginning of the last sequence that ran in a slot, or runs there: whole pages of its tokens. It waits for the end of
    /// a step.
    pub fn save(&self, slot: usize) -> Result<Saved, KeepError> {
        self.keep(|reply| Keep::Save { slot, reply })
    }

    /// Makes known what was saved, as if it had been computed in this slot.
    pub fn restore(&self, slot: usize, saved: Saved) -> Result<(), KeepError> {
        self.keep(|reply| Keep::Restore { slot, saved, reply })
    }

    /// Forgets what is known of the last sequence that ran in a slot; gives how many tokens that were.
    pub fn erase(&self, slot: usize) -> Result<usize, KeepError> {
        self.keep(|reply| Keep::Erase { slot, reply })
    }

    fn keep<T>(&self, make: impl FnOnce(Reply<T>) -> Keep) -> Result<T, KeepError> {
        let shared = &self.handle.shared;
        if !shared.config.prefix_reuse {
            return Err(KeepError::Unsupported("beginnings of sequences are not kept with this model".into()));
        }
        let (reply, answer) = std::sync::mpsc::sync_channel(1);
        let mut inbox = shared.inbox();
        if inbox.closed.is_some() {
            return Err(KeepError::Stopped);
        }
        inbox.keeping.push(make(reply));
        shared.wake.notify_all();
        drop(inbox);
        answer.recv().unwrap_or(Err(KeepError::Stopped))
    }

    /// What files of [saved](Self::save) beginnings have to be like; none where nothing can be saved.
    pub fn saved_form(&self) -> Option<SavedForm> {
        let Shared { config, limits, ids, parts, .. } = &*self.handle.shared;
        let [page_bytes, state_bytes] = parts.filter(|_| config.prefix_reuse)?;
        let state_bytes = if config.fixed_state { state_bytes } else { 0 };
        Some(SavedForm { page: limits.page, page_bytes, state_bytes, tokens: config.context, vocabulary: *ids })
    }

    /// Why nothing is accepted any more, if so.
    pub fn closed(&self) -> Option<SubmitError> {
        self.handle.shared.inbox().closed.clone()
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Arc<V> {
        &self.handle.shared.vocabulary
    }

    /// Tokens that one sequence may have, prompt and answer together.
    pub fn context(&self) -> usize {
        self.handle.shared.config.context
    }

    /// The configuration in force.
    pub fn config(&self) -> &Config {
        &self.handle.shared.config
    }

    /// What the executable was made for.
    pub fn limits(&self) -> &Limits {
        &self.handle.shared.limits
    }

    /// Token ids are below it.
    pub fn vocabulary(&self) -> usize {
        self.handle.shared.ids
    }

    /// Numbers in a vector, where the engine makes embeddings.
    pub fn embedding_width(&self) -> Option<usize> {
        let shared = &self.handle.shared;
        shared.config.pooling.as_ref().map(|pooling| pooling.width(shared.width))
    }
}

impl<V> Drop for Handle<V> {
    fn drop(&mut self) {
        self.shared.inbox().closed.get_or_insert(SubmitError::ShuttingDown);
        self.shared.wake.notify_all();
    }
}

impl<V> Shared<V> {
    /// The inbox is whole at every moment at which a panic is possible, so a poisoned lock can be used.
    pub(crate) fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(&self, sequence: Sequence) -> Result<(), SubmitError> {
        let mut inbox = self.inbox();
        if let Some(reason) = &inbox.closed {
            return Err(reason.clone());
        }
        if inbox.waiting.len() >= self.config.queue {
            // Those that have left do not count.
            inbox.waiting.retain(|s| !s.sender.is_cancelled());
            if inbox.waiting.len() >= self.config.queue {
                inbox.refused += 1;
                let limit = self.config.queue;
                return Err(SubmitError::QueueFull { limit, wait: self.mean_turn() });
            }
        }
        let mut sequence = sequence;
        sequence.order = inbox.accepted;
        inbox.accepted += 1;
        let at = inbox.waiting.partition_point(|other| other.rank() < sequence.rank());
        inbox.waiting.insert(at, sequence);
        self.wake.notify_all();
        Ok(())
    }

    /// In how long one more request ends, on average.
    fn mean_turn(&self) -> Duration {
        let stats = self.stats.lock().unwrap_or_else(PoisonError::into_inner);
        let request = &stats.times.request;
        let places = self.config.max_sequences as u64;
        Duration::from_micros(request.sum().checked_div(request.count().saturating_mul(places)).unwrap_or(0))
    }

    /// Sleeps until there is something to do.
    pub(crate) fn wait(&self) {
        let mut inbox = self.inbox();
        while inbox.waiting.is_empty() && inbox.keeping.is_empty() && inbox.closed.is_none() {
            inbox = self.wake.wait(inbox).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn publish(&self, stats: &Stats, slots: &[SlotStatus]) {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner).clone_from(stats);
        let mut published = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        published.resize_with(slots.len(), SlotStatus::default);
        published.clone_from_slice(slots);
    }

    /// The last thing that the thread does.
    pub(crate) fn end(&self) {
        let mut inbox = self.inbox();
        inbox.closed.get_or_insert(SubmitError::Stopped("its thread ended unexpectedly".into()));
        let left = std::mem::take(&mut inbox.waiting);
        let keeping = std::mem::take(&mut inbox.keeping);
        inbox.ended = true;
        self.ended.notify_all();
        drop(inbox);
        drop((left, keeping));
    }
}
