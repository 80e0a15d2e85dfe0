//! Answers that are held to a grammar.
//!
//! A mask says which tokens may come next. It depends on the last token only, so threads of their own make it while the device computes the
//! logits to which it will be applied. Where it takes longer, the row of logits is kept for it, and no other sequence waits.

use crate::EngineError;
use onebit_grammar::{Grammar, GrammarError, Guide, Mask};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// What a thread gives back.
type Made = (Guide, Result<Mask, GrammarError>);

struct Job {
    guide: Guide,
    reply: Sender<Made>,
}

/// Threads that make masks, started when the first is needed. They end with the engine.
#[derive(Debug, Default)]
pub(crate) struct Workers(OnceLock<Sender<Job>>);

impl Workers {
    fn make(&self, guide: Guide) -> Receiver<Made> {
        let (reply, made) = mpsc::channel();
        // Without a thread the reply is dropped, and whoever waits for it gets an error.
        let _ = self.0.get_or_init(start).send(Job { guide, reply });
        made
    }
}

/// Half of the processors, but no more than four: the device needs them, too.
fn start() -> Sender<Job> {
    let (sender, jobs) = mpsc::channel::<Job>();
    let jobs = Arc::new(Mutex::new(jobs));
    let count = std::thread::available_parallelism().map_or(1, |n| (n.get() / 2).clamp(1, 4));
    for _ in 0..count {
        let jobs = jobs.clone();
        let work = move || {
            loop {
                let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok(Job { mut guide, reply }) = job else { return };
                let mask = guide.mask();
                // Whoever asked may have left.
                let _ = reply.send((guide, mask));
            }
        };
        if let Err(error) = std::thread::Builder::new().name("1bit-masks".into()).spawn(work) {
            tracing::error!(%error, "a thread for masks cannot be started");
        }
    }
    sender
}

/// The grammar of one sequence, as far as its answer has come.
#[derive(Debug)]
pub(crate) struct Guided {
    workers: Arc<Workers>,
    state: State,
}

#[derive(Debug)]
enum State {
    Making(Receiver<Made>),
    Made(Guide, Mask),
    Failed(GrammarError),
}

impl Guided {
    pub(crate) fn new(grammar: &Grammar, workers: &Arc<Workers>) -> Self {
        let (guide, mask) = grammar.begin();
        Self { workers: workers.clone(), state: State::Made(guide, mask) }
    }

    /// Whether the mask of the next token need not be waited for.
    pub(crate) fn is_ready(&mut self) -> bool {
        let State::Making(made) = &self.state else { return true };
        match made.try_recv() {
            Err(mpsc::TryRecvError::Empty) => return false,
            made => self.receive(made.ok()),
        }
        true
    }

    /// The mask of the next token.
    pub(crate) fn mask(&mut self) -> Result<&Mask, EngineError> {
        if let State::Making(made) = &self.state {
            self.receive(made.recv().ok());
        }
        match &self.state {
            State::Made(_, mask) => Ok(mask),
            State::Failed(error) => Err(EngineError::Grammar(error.to_string())),
            State::Making(_) => Err(EngineError::Grammar("its mask was not made".into())),
        }
    }

    fn receive(&mut self, made: Option<Made>) {
        self.state = match made {
            Some((guide, Ok(mask))) => State::Made(guide, mask),
            Some((_, Err(error))) => State::Failed(error),
            None => State::Failed(GrammarError::Invalid("there is no thread to make its masks".into())),
        };
    }

    /// Takes note of a token that the mask allowed. Tells whether nothing can follow it.
    pub(crate) fn accept(&mut self, id: u32) -> Result<bool, EngineError> {
        self.mask()?;
        let failed = State::Failed(GrammarError::Invalid("it has ended".into()));
        let State::Made(mut guide, _) = std::mem::replace(&mut self.state, failed) else { return Ok(false) };
        guide.accept(id).map_err(|error| EngineError::Grammar(error.to_string()))?;
        if guide.is_complete() {
            return Ok(true);
        }
        self.state = State::Making(self.workers.make(guide));
        Ok(false)
    }
}
