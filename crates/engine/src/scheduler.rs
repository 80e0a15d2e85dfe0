//! The loop of the engine's thread, which owns the executable, the caches and all sequences.
//!
//! Each turn: sequences whose callers have left or whose time is over give up their places; waiting ones get places as long as
//! there are any; a batch is chosen, computed, and its rows become tokens and events.
//!
//! **Who goes first.** Requests have a rank: their [priority](crate::Request::priority), and among equals their age. The lower rank goes
//! first, gets its place first, and keeps it longest. Those that run are all in every step, whatever their rank.
//!
//! **The batch.** Every running sequence that has read its prompt gets its next token in every step. What room is left, up to
//! [`Config::prompt_chunk`](crate::Config::prompt_chunk), goes to prompts, the same to each; what a short one does not need goes
//! to the others.
//!
//! **Sources.** A model of an encoder and a decoder reads the source of a sequence before its first step, whole, as each of its tokens
//! sees all others: up to a batch of tokens of such sources come before each step.
//!
//! **Pages.** A sequence gets a place when there are pages for all tokens that it has, and more pages as its answer grows. When
//! there are none, the last sequence by rank gives up its place; later its tokens, prompt and answer so far, are computed
//! again like a prompt, but for what is still known of them. So does the last where one of a lower priority finds no place. Since devices compute a position the same way in whatever batch it is, this changes nothing but time.
//! The first by rank never gives up its place, and alone it has all pages, which are enough for any accepted request: so
//! everything that is accepted ends, unless requests of lower priorities never end coming.
//!
//! **Faults.** If a step fails, by an error or a panic, the caches of all its sequences are in doubt. If it had one sequence, that
//! one fails. If it had several, each is computed again alone, up to and past the point of the failure; one that fails alone
//! fails, the others go on as if nothing had happened. After each failure the executable has to pass a step of one token; if it cannot,
//! it is broken, and everything fails.

use crate::cache::{Cache, Place};
use crate::engine::{Keep, Shared};
use crate::given::StepInputs;
use crate::sampler::Scratch;
use crate::seats::Seats;
use crate::sequence::{Sequence, Work};
use crate::{EngineError, Event, FinishReason, KeepError, Saved, Stats, SubmitError, Vocabulary};
use onebit_plan::{Batch, Executable, Inputs, Span};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

pub(crate) struct Scheduler<V> {
    executable: Box<dyn Executable>,
    shared: Arc<Shared<V>>,
    cache: Cache,
    /// By rank.
    running: Vec<Sequence>,
    /// Had places and lost them. By rank.
    displaced: Vec<Sequence>,
    /// With their last events, which are sent when the turn is over and the statistics tell of it.
    ended: Vec<(Sequence, Event)>,
    /// The step's parts, in the order of its tokens.
    work: Vec<Work>,
    tokens: Vec<u32>,
    inputs: StepInputs,
    scratch: Scratch,
    seats: Seats,
    stats: Stats,
}

/// Tells that the thread has ended, however it does.
struct Ending<V>(Arc<Shared<V>>);

impl<V> Drop for Ending<V> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl<V: Vocabulary> Scheduler<V> {
    pub(crate) fn new(executable: Box<dyn Executable>, shared: Arc<Shared<V>>) -> Self {
        let limits = &shared.limits;
        let stats = Stats {
            max_sequences: shared.config.max_sequences,
            pages: limits.pages,
            page: limits.page,
            slots: limits.slots,
            ..Stats::default()
        };
        Self {
            cache: Cache::with_fixed(limits, shared.config.fixed_state),
            executable,
            running: Vec::new(),
            displaced: Vec::new(),
            ended: Vec::new(),
            work: Vec::new(),
            tokens: Vec::new(),
            inputs: StepInputs::default(),
            scratch: Scratch::default(),
            seats: Seats::new(shared.config.max_sequences),
            stats,
            shared,
        }
    }

    /// Tells those who watch.
    pub(crate) fn publish(&self) {
        self.shared.publish(&self.stats, self.seats.status());
    }

    /// The whole life of the thread.
    pub(crate) fn run(self) {
        // Dropped in the reverse order: first the sequences, which tell their streams, and the executable's memory.
        let _ending = Ending(self.shared.clone());
        let mut scheduler = self;
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| scheduler.serve())) {
            scheduler.fail_all(&describe(&*payload));
            scheduler.settle();
        }
    }

    fn serve(&mut self) {
        loop {
            if self.running.is_empty() && self.displaced.is_empty() {
                self.shared.wait();
                let inbox = self.shared.inbox();
                if inbox.closed.is_some() && inbox.waiting.is_empty() {
                    return;
                }
            }
            self.keep();
            self.sweep();
            self.admit();
            self.encode();
            self.resume(false);
            self.choose();
            match self.work.is_empty() {
                false => self.step(),
                // Nothing can be computed before a mask is there.
                true => self.resume(true),
            }
            self.settle();
        }
    }

    /// Does what is to be done with what is known of slots. Nobody waits for an answer that is not taken.
    fn keep(&mut self) {
        let keeping = std::mem::take(&mut self.shared.inbox().keeping);
        for keep in keeping {
            match keep {
                Keep::Save { slot, reply } => drop(reply.send(self.save(slot))),
                Keep::Restore { slot, saved, reply } => drop(reply.send(self.restore(slot, saved))),
                Keep::Erase { slot, reply } => drop(reply.send(self.tokens_of(slot).map(|tokens| self.cache.erase(&tokens)))),
            }
        }
    }

    /// The tokens of the sequence that runs in a slot, as far as they are computed, or of the last that ran there.
    fn tokens_of(&self, slot: usize) -> Result<Vec<u32>, KeepError> {
        let slots = self.shared.config.max_sequences;
        if slot >= slots {
            return Err(KeepError::NoSlot { slot, slots });
        }
        let running = self.running.iter().find(|sequence| sequence.seat == Some(slot));
        let tokens = match running {
            Some(sequence) => sequence.only_tokens().map(|tokens| &tokens[..sequence.computed()]),
            None => self.seats.tokens(slot),
        };
        tokens.map(<[u32]>::to_vec).ok_or(KeepError::Images { slot })
    }

    fn save(&mut self, slot: usize) -> Result<Saved, KeepError> {
        let tokens = self.tokens_of(slot)?;
        let saved = self.cache.save(&tokens, &mut *self.executable)?;
        saved.ok_or(KeepError::Nothing { slot, page: self.shared.limits.page })
    }

    fn restore(&mut self, slot: usize, saved: Saved) -> Result<(), KeepError> {
        self.tokens_of(slot).or_else(|error| if matches!(error, KeepError::Images { .. }) { Ok(vec![]) } else { Err(error) })?;
        self.cache.load(&saved, &mut *self.executable)?;
        self.seats.put(slot, saved.tokens);
        Ok(())
    }

    /// Takes out sequences that were cancelled, or whose time is over.
    fn sweep(&mut self) {
        let now = Instant::now();
        let Self { running, displaced, ended, shared, .. } = self;
        let mut inbox = shared.inbox();
        let over = inbox.deadline.is_some_and(|d| now >= d);
        let mut end =
            |sequence: &mut Sequence| sequence.interrupted(now).or_else(|| over.then_some(Event::Failed(EngineError::ShuttingDown)));
        extract(running, &mut end, ended);
        extract(displaced, &mut end, ended);
        // Nothing is moved unless something ends, so that a long queue costs little.
        let waiting = &mut inbox.waiting;
        let mut i = 0;
        while i < waiting.len() {
            match end(&mut waiting[i]) {
                Some(event) => ended.extend(waiting.remove(i).map(|s| (s, event))),
                None => i += 1,
            }
        }
        drop(inbox);
        if !self.ended.is_empty() {
            self.settle();
        }
    }

    /// Gives places to those that wait, by rank, as long as there are any.
    fn admit(&mut self) {
        loop {
            // One that has to be computed alone has the executable for itself.
            let probe = self.displaced.iter().position(|s| s.suspect.is_some());
            let alone = probe.is_some() || self.running.iter().any(|s| s.suspect.is_some());
            if alone && !self.running.is_empty() {
                return;
            }
            let has_seat = self.running.len() < self.shared.config.max_sequences;
            let Some((mut sequence, mut place)) = has_seat.then(|| self.next(probe)).flatten() else {
                match self.running.last() {
                    None => return self.refuse(),
                    // It is worth more than another's going on.
                    Some(last) if self.first_priority().is_some_and(|first| first < last.priority) => self.displace_last(),
                    Some(_) => return,
                }
                continue;
            };
            self.cache.recall(&mut place, &mut *self.executable);
            self.stats.cached_tokens += place.len() as u64;
            if self.shared.config.prefix_reuse {
                self.stats.asked_tokens += sequence.tokens.len() as u64;
            }
            sequence.begin(place, Instant::now(), &mut self.stats.times);
            self.seats.take(&mut sequence);
            let at = self.running.partition_point(|s| s.rank() < sequence.rank());
            self.running.insert(at, sequence);
        }
    }

    /// The priority of the first that waits.
    fn first_priority(&self) -> Option<i32> {
        let waiting = self.shared.inbox().waiting.front().map(|s| s.priority);
        waiting.into_iter().chain(self.displaced.first().map(|s| s.priority)).min()
    }

    /// The next sequence that waits and its place, if there is room for it: the given one of the displaced, or else the first by rank.
    fn next(&mut self, probe: Option<usize>) -> Option<(Sequence, Place)> {
        let Self { cache, shared, running, .. } = self;
        let mut open = |sequence: &Sequence| {
            let reuse = if shared.config.prefix_reuse { sequence.reusable() } else { 0 };
            let place = cache.open(sequence.content(), reuse).ok()?;
            // Each of those that run may soon need a page.
            if cache.free_pages() >= running.len() {
                return Some(place);
            }
            cache.release(place);
            None
        };
        let mut inbox = shared.inbox();
        let before = |sequence: &Sequence| inbox.waiting.front().is_none_or(|waiting| sequence.rank() < waiting.rank());
        let displaced = probe.or_else(|| self.displaced.first().is_some_and(before).then_some(0));
        if let Some((at, sequence)) = displaced.and_then(|at| Some((at, self.displaced.get(at)?))) {
            let place = open(sequence)?;
            return Some((self.displaced.remove(at), place));
        }
        let place = open(inbox.waiting.front()?)?;
        Some((inbox.waiting.pop_front()?, place))
    }

    /// Fails what waits first and finds no place although all are free. It cannot be, unless the executable was made without pages or slots;
    /// and then nothing may wait for ever.
    fn refuse(&mut self) {
        let first = if self.displaced.is_empty() { self.shared.inbox().waiting.pop_front() } else { Some(self.displaced.remove(0)) };
        let error = EngineError::Step("the executable has no pages or no slot for it".into());
        self.ended.extend(first.map(|sequence| (sequence, Event::Failed(error))));
    }

    /// Chooses the tokens of sequences whose logits waited for a mask; with `waits` it waits for the first of them.
    fn resume(&mut self, mut waits: bool) {
        let Self { running, ended, shared, scratch, stats, .. } = self;
        let mut resume = |sequence: &mut Sequence| {
            if !sequence.is_held() {
                return None;
            }
            let known = sequence.tokens.len();
            let waits = std::mem::take(&mut waits);
            let outcome = catch_unwind(AssertUnwindSafe(|| sequence.resume(waits, &*shared.vocabulary, scratch)));
            if sequence.tokens.len() > known {
                stats.completion_tokens += (sequence.tokens.len() - known) as u64;
                sequence.time_token(Instant::now(), &mut stats.times);
            }
            outcome.unwrap_or_else(|payload| Some(Event::Failed(EngineError::Step(describe(&*payload)))))
        };
        extract(running, &mut resume, ended);
    }

    /// Has the sources read of sequences that have begun, each by itself, oldest first, up to a batch of tokens in a turn.
    fn encode(&mut self) {
        let mut budget = self.shared.limits.batch;
        for index in 0..self.running.len() {
            let sequence = &mut self.running[index];
            let len = sequence.source().len();
            if sequence.has_read() || len > budget {
                continue;
            }
            budget -= len;
            let (pages, slot) = sequence.place.as_ref().map_or((&[][..], 0), |p| (p.pages(), p.slot()));
            let span = Span { len, start: 0, pages, slot, outputs: 0 };
            let begun = Instant::now();
            let outcome = attempt_to_encode(&mut *self.executable, &Batch::text(sequence.source(), &[span]));
            self.stats.steps += 1;
            self.stats.sequence_steps += 1;
            self.stats.times.batch.add(len as u64);
            self.stats.last_batch = len;
            self.stats.step_microseconds += begun.elapsed().as_micros() as u64;
            if let Err(message) = outcome {
                self.work = vec![Work { index, start: 0, len, outputs: 0 }];
                return self.recover(&message);
            }
            self.stats.prompt_tokens += len as u64;
            if let Some(place) = &mut sequence.place {
                place.has_read(len);
            }
        }
    }

    /// Decides who gets how many tokens of the next step.
    fn choose(&mut self) {
        self.work.clear();
        let limits = &self.shared.limits;
        if self.shared.config.is_whole() {
            return self.choose_whole(limits.batch, limits.outputs);
        }
        let mut budget = limits.batch;
        let mut rows = limits.outputs;
        let mut i = 0;
        while i < self.running.len() {
            if self.running[i].has_read() && self.running[i].remaining() == 1 && self.make_room(i) {
                let start = self.running[i].computed();
                let outputs = self.running[i].outputs(start, 1);
                self.work.push(Work { index: i, start, len: 1, outputs });
                budget -= 1;
                rows -= outputs;
            }
            i += 1;
        }
        self.share(budget.min(self.shared.config.prompt_chunk), rows);
    }

    /// Takes sequences whole, oldest first, as long as there is room.
    fn choose_whole(&mut self, mut budget: usize, mut rows: usize) {
        for (index, sequence) in self.running.iter().enumerate() {
            let (len, outputs) = (sequence.remaining(), sequence.outputs(0, sequence.remaining()));
            if len <= budget && outputs <= rows {
                self.work.push(Work { index, start: 0, len, outputs });
                (budget, rows) = (budget - len, rows - outputs);
            }
        }
    }

    /// Makes sure that the sequence has pages for its next token: if there are none, the last by rank lose theirs, at last itself.
    fn make_room(&mut self, index: usize) -> bool {
        while let Some(sequence) = self.running.get_mut(index) {
            let Some(place) = &mut sequence.place else { return false };
            if self.cache.reserve(place, 1, &mut *self.executable).is_ok() {
                return true;
            }
            self.displace_last();
        }
        false
    }

    /// The last by rank makes way.
    fn displace_last(&mut self) {
        if let Some(last) = self.running.pop() {
            self.stats.preemptions += 1;
            self.displace(last);
        }
    }

    /// Takes a sequence's place, to be computed again later.
    fn displace(&mut self, mut sequence: Sequence) {
        if let Some(place) = sequence.place.take() {
            self.cache.release(place);
        }
        sequence.let_go();
        self.seats.leave(&mut sequence);
        let at = self.displaced.partition_point(|s| s.rank() < sequence.rank());
        self.displaced.insert(at, sequence);
    }

    /// Shares a budget of tokens and rows of logits among prompts.
    fn share(&mut self, mut budget: usize, mut rows: usize) {
        let decoding = self.work.len();
        let prompts = self.running.iter().enumerate().filter(|(_, s)| s.has_read() && s.remaining() > 1);
        self.work.extend(prompts.map(|(index, s)| Work { index, start: s.computed(), len: s.remaining(), outputs: 0 }));
        let prompts = &mut self.work[decoding..];
        // From the shortest on, each gets its share of what is left. There is a token and a row for each, by the way that
        // the configuration is bounded.
        prompts.sort_unstable_by_key(|w| (w.len, w.index));
        let mut left = prompts.len();
        for work in prompts {
            let sequence = &self.running[work.index];
            work.len = work.len.min(budget / left);
            if self.cache.remembers() {
                work.len = sequence.up_to_mark(work.start, work.len, self.shared.limits.page);
            }
            left -= 1;
            work.outputs = sequence.outputs(work.start, work.len);
            while work.outputs > rows.saturating_sub(left) {
                // Every row fewer is a token fewer, from the end.
                work.len -= work.outputs - rows.saturating_sub(left);
                work.outputs = sequence.outputs(work.start, work.len);
            }
            budget -= work.len;
            rows -= work.outputs;
        }
        self.keep_whole(decoding, budget);
        self.work.retain(|w| w.len > 0);
    }

    /// Changes the prompts' parts, those from `first` on, so that none cuts an image whose tokens see each other; `spare` tokens are left
    /// in the step. The oldest gets its image in any case, if need be instead of all others.
    fn keep_whole(&mut self, first: usize, mut spare: usize) {
        let Self { running, work, .. } = self;
        let prompts = &mut work[first..];
        prompts.sort_unstable_by_key(|work| work.index);
        let total = spare + prompts.iter().map(|work| work.len).sum::<usize>();
        for i in 0..prompts.len() {
            let work = prompts[i];
            let sequence = &running[work.index];
            let Some([shorter, longer]) = sequence.whole(work.start, work.len) else { continue };
            let len = if longer - work.len <= spare { longer } else { shorter };
            if i == 0 && len == 0 {
                prompts.iter_mut().for_each(|work| (work.len, work.outputs) = (0, 0));
                (prompts[0].len, spare) = (longer, total - longer);
            } else {
                spare = spare + work.len - len;
                prompts[i].len = len;
            }
            let work = &mut prompts[i];
            work.outputs = running[work.index].outputs(work.start, work.len);
        }
    }

    /// Computes the batch, and makes tokens and events of its rows.
    fn step(&mut self) {
        let begun = Instant::now();
        let mut spans = Vec::with_capacity(self.work.len());
        self.tokens.clear();
        for work in &self.work {
            let sequence = &self.running[work.index];
            self.tokens.extend_from_slice(&sequence.input()[work.start..work.start + work.len]);
            let (pages, slot) = sequence.place.as_ref().map_or((&[][..], 0), |p| (p.pages(), p.slot()));
            spans.push(Span { len: work.len, start: work.start, pages, slot, outputs: work.outputs });
        }
        self.inputs.gather(self.work.iter().map(|work| self.running[work.index].part(work)), self.shared.given);
        self.inputs.gather_sources(self.work.iter().map(|work| self.running[work.index].source().len()));
        let outcome = attempt(&mut *self.executable, &Batch { tokens: &self.tokens, spans: &spans, inputs: self.inputs.inputs() });
        self.stats.steps += 1;
        self.stats.sequence_steps += self.work.len() as u64;
        self.stats.times.batch.add(self.tokens.len() as u64);
        self.stats.last_batch = self.tokens.len();
        self.stats.step_microseconds += begun.elapsed().as_micros() as u64;
        let mut rest = match outcome {
            Ok(logits) => logits,
            Err(message) => return self.recover(&message),
        };
        let shared = &*self.shared;
        let width = shared.width;
        let mut ends = Vec::new();
        let is_alone = self.running.len() == 1;
        let now = Instant::now();
        for work in &self.work {
            let (rows, others) = rest.split_at(work.outputs * width);
            rest = others;
            let sequence = &mut self.running[work.index];
            let known = sequence.tokens.len();
            let (vocabulary, scratch) = (&*shared.vocabulary, &mut self.scratch);
            let end = catch_unwind(AssertUnwindSafe(|| sequence.take(*work, rows, width, vocabulary, scratch, is_alone)));
            let end = end.unwrap_or_else(|payload| Some(Event::Failed(EngineError::Step(describe(&*payload)))));
            if shared.config.prefix_reuse
                && !matches!(end, Some(Event::Failed(_)))
                && let Some(mut place) = sequence.place.take()
            {
                self.cache.publish(&mut place, sequence.content());
                sequence.place = Some(place);
            }
            ends.extend(end.map(|event| (work.index, event)));
            let chosen = sequence.tokens.len() - known;
            self.stats.completion_tokens += chosen as u64;
            self.stats.longest = self.stats.longest.max(sequence.tokens.len());
            if chosen > 0 {
                sequence.time_token(now, &mut self.stats.times);
            }
            let read = if sequence.is_whole() { 0 } else { work.len };
            self.stats.prompt_tokens += if work.len > 1 || work.start == 0 { read as u64 } else { 0 };
        }
        self.remember();
        ends.sort_unstable_by_key(|(index, _)| *index);
        for (index, event) in ends.into_iter().rev() {
            let sequence = self.running.remove(index);
            self.ended.push((sequence, event));
        }
        self.clear_suspect();
    }

    /// Keeps the fixed states of those that have come to where it is worth it.
    fn remember(&mut self) {
        let Self { work, running, cache, executable, shared, .. } = self;
        if !cache.remembers() {
            return;
        }
        for work in work {
            let sequence = &mut running[work.index];
            if let Some(stay) = sequence.worth(shared.limits.page)
                && let Some(place) = &mut sequence.place
            {
                cache.remember(place, stay, &mut **executable);
            }
        }
    }

    /// Lets a sequence go on with the others if it has passed the point of a failure alone.
    fn clear_suspect(&mut self) {
        let Some(sequence) = self.running.first_mut() else { return };
        if sequence.suspect.is_none_or(|n| sequence.computed() < n && !sequence.is_whole()) {
            return;
        }
        sequence.suspect = None;
        // It was alone. If there are more that have to be, it makes place for the next.
        if self.displaced.iter().any(|s| s.suspect.is_some()) {
            let sequence = self.running.remove(0);
            self.displace(sequence);
        }
    }

    /// After a failed step: finds out whose fault it is, and whether the executable still works.
    fn recover(&mut self, message: &str) {
        self.stats.failed_steps += 1;
        self.cache.forget();
        tracing::error!(sequences = self.work.len(), "a step failed: {message}");
        if let [work] = self.work[..] {
            let sequence = self.running.remove(work.index);
            self.ended.push((sequence, Event::Failed(EngineError::Step(message.to_owned()))));
            self.vacate();
        } else {
            for work in &self.work {
                self.running[work.index].suspect = Some(work.start + work.len);
            }
            for sequence in std::mem::take(&mut self.running) {
                self.displace(sequence);
            }
        }
        if let Err(again) = self.probe() {
            let broken = format!("{message}; then a single token failed too: {again}");
            tracing::error!("the executable is broken: {broken}");
            self.fail_all(&broken);
        }
    }

    /// A step of one token, of nobody's sequence.
    fn probe(&mut self) -> Result<(), String> {
        let Ok(place) = self.cache.open(&[0], 0) else { return Ok(()) };
        let spans = [Span { len: 1, start: 0, pages: place.pages(), slot: place.slot(), outputs: 1 }];
        let source = [Span { outputs: 0, ..spans[0] }];
        let (reads, read) = match self.shared.config.answering {
            Some(_) => (&[1][..], attempt_to_encode(&mut *self.executable, &Batch::text(&[0], &source))),
            None => (&[][..], Ok(())),
        };
        let inputs = Inputs { sources: reads, ..Inputs::default() };
        let outcome = read.and_then(|()| attempt(&mut *self.executable, &Batch { inputs, ..Batch::text(&[0], &spans) }).map(|_| ()));
        self.cache.release(place);
        outcome
    }

    /// The end of everything.
    fn fail_all(&mut self, message: &str) {
        let waiting = {
            let mut inbox = self.shared.inbox();
            inbox.closed = Some(SubmitError::Stopped(message.to_owned()));
            std::mem::take(&mut inbox.waiting)
        };
        let all = std::mem::take(&mut self.running).into_iter().chain(std::mem::take(&mut self.displaced)).chain(waiting);
        for sequence in all {
            self.ended.push((sequence, Event::Failed(EngineError::Stopped(message.to_owned()))));
        }
    }

    /// Gives back the places of what has ended.
    fn vacate(&mut self) {
        for (sequence, _) in &mut self.ended {
            if let Some(place) = sequence.place.take() {
                self.cache.release(place);
            }
        }
    }

    /// Tells what has ended, when all else is done: whoever reads the last event finds the place free and the statistics right.
    fn settle(&mut self) {
        self.ended.iter_mut().for_each(|(sequence, _)| self.seats.leave(sequence));
        self.running.iter().for_each(|sequence| self.seats.see(sequence));
        self.vacate();
        for (_, event) in &self.ended {
            match event {
                Event::Finished(finish) if finish.reason == FinishReason::Cancelled => self.stats.cancelled += 1,
                Event::Finished(finish) => self.stats.count(finish),
                _ => self.stats.failed += 1,
            }
        }
        self.stats.running = self.running.len();
        self.stats.waiting = self.displaced.len();
        self.stats.pages_used = self.cache.used_pages();
        self.stats.slots_used = self.cache.used_slots();
        self.publish();
        for (sequence, event) in self.ended.drain(..) {
            sequence.sender.send(event);
        }
    }
}

/// Moves those that end from a list.
fn extract(list: &mut Vec<Sequence>, mut end: impl FnMut(&mut Sequence) -> Option<Event>, ended: &mut Vec<(Sequence, Event)>) {
    let mut i = 0;
    while i < list.len() {
        match end(&mut list[i]) {
            Some(event) => ended.push((list.remove(i), event)),
            None => i += 1,
        }
    }
}

/// A step whose errors and panics are both messages, and whose rows are as many as were asked for.
fn attempt<'a>(executable: &'a mut dyn Executable, batch: &Batch<'_>) -> Result<&'a [f32], String> {
    let wanted = batch.spans.iter().map(|s| s.outputs).sum::<usize>() * executable.width();
    let outcome = catch_unwind(AssertUnwindSafe(move || {
        // Moved, so that the logits may outlive the closure.
        let executable = executable;
        executable.step(batch)
    }));
    match outcome {
        Ok(Ok(logits)) if logits.len() >= wanted => Ok(logits),
        Ok(Ok(logits)) => Err(format!("the device gave {} numbers instead of {wanted}", logits.len())),
        Ok(Err(error)) => Err(error.to_string()),
        Err(payload) => Err(describe(&*payload)),
    }
}

/// The same for sources that are to be read.
fn attempt_to_encode(executable: &mut dyn Executable, sources: &Batch<'_>) -> Result<(), String> {
    let outcome = catch_unwind(AssertUnwindSafe(|| executable.encode(sources)));
    outcome.map_err(|payload| describe(&*payload))?.map_err(|error| error.to_string())
}

/// What a panic said.
fn describe(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!("panic: {}", text.unwrap_or("without a message"))
}
