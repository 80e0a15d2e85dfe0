//! Where the time goes: by kind of step, and event by event.

use crate::ops::effort::Effort;
use serde::Serialize;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Time, number of runs, and work of one kind of step.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileRow {
    /// The ops that run as one, in their order: `rms_norm+fill`.
    pub name: String,
    /// Time in all, waiting for other threads included.
    pub time: Duration,
    /// How often it ran.
    pub runs: u64,
    /// What it had to read and to multiply.
    pub effort: Effort,
}

/// Measures all executables of a device, while it is switched on. Off, it costs one look at a flag for each step.
#[derive(Debug, Default)]
pub struct Profile {
    on: AtomicBool,
    /// Whether events are kept, too.
    recording: AtomicBool,
    tables: Mutex<Vec<Arc<Table>>>,
    events: Mutex<Vec<Event>>,
}

/// A thread's part of one step, in the terms of the Trace Event Format ("complete events") that Chrome and Perfetto show.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// As in [`ProfileRow`].
    pub name: String,
    /// `X`.
    pub ph: char,
    /// Beginning, in microseconds after the first.
    pub ts: f64,
    /// Length, in microseconds.
    pub dur: f64,
    /// 0, as there is one process; whoever shows several things side by side sets it.
    pub pid: u32,
    /// The thread of the pool.
    pub tid: usize,
    /// Beginning.
    #[serde(skip)]
    at: Instant,
}

/// Counters of one executable.
#[derive(Debug)]
pub(crate) struct Table(Vec<Counters>);

/// Of one step.
#[derive(Debug, Default)]
struct Counters {
    name: Arc<str>,
    time: AtomicU64,
    runs: AtomicU64,
    bytes: AtomicU64,
    products: AtomicU64,
}

impl Profile {
    /// Starts or stops measuring.
    pub fn switch(&self, on: bool) {
        self.on.store(on, Relaxed);
    }
    /// Starts or stops keeping events; they take memory.
    pub fn record(&self, on: bool) {
        self.recording.store(on, Relaxed);
    }
    /// Forgets what was measured.
    pub fn reset(&self) {
        for counters in self.tables.lock().unwrap_or_else(PoisonError::into_inner).iter().flat_map(|t| &t.0) {
            [&counters.time, &counters.runs, &counters.bytes, &counters.products].into_iter().for_each(|n| n.store(0, Relaxed));
        }
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
    /// What was measured, longest first.
    pub fn rows(&self) -> Vec<ProfileRow> {
        let mut by_name = BTreeMap::<Arc<str>, (u64, u64, Effort)>::new();
        for counters in self.tables.lock().unwrap_or_else(PoisonError::into_inner).iter().flat_map(|t| &t.0) {
            let (time, runs, effort) = by_name.entry(counters.name.clone()).or_default();
            *time += counters.time.load(Relaxed);
            *runs += counters.runs.load(Relaxed);
            *effort += Effort { bytes: counters.bytes.load(Relaxed), products: counters.products.load(Relaxed) };
        }
        let row = |(name, (time, runs, effort)): (Arc<str>, _)| ProfileRow {
            name: name.to_string(),
            time: Duration::from_nanos(time),
            runs,
            effort,
        };
        let mut rows: Vec<_> = by_name.into_iter().map(row).filter(|r| r.runs > 0).collect();
        rows.sort_by_key(|r| std::cmp::Reverse(r.time));
        rows
    }
    /// The events that were kept, in their order.
    pub fn take_events(&self) -> Vec<Event> {
        let mut events = std::mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner));
        events.sort_by_key(|e| e.at);
        if let Some(first) = events.first().map(|e| e.at) {
            events.iter_mut().for_each(|e| e.ts = (e.at - first).as_secs_f64() * 1e6);
        }
        events
    }
    /// A table for steps of these names.
    pub(crate) fn table(&self, names: Vec<String>) -> Arc<Table> {
        let counters = |name: String| Counters { name: name.into(), ..Counters::default() };
        let table = Arc::new(Table(names.into_iter().map(counters).collect()));
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        // Tables of executables that are gone are dropped when the next comes.
        tables.retain(|t| Arc::strong_count(t) > 1);
        tables.push(table.clone());
        table
    }
    /// A clock for one thread's way through the steps of a table.
    pub(crate) fn clock<'a>(&'a self, table: &'a Table, thread: usize) -> Clock<'a> {
        let (on, recording) = (self.on.load(Relaxed), self.recording.load(Relaxed));
        let started = (recording || on && thread == 0).then(Instant::now);
        Clock {
            profile: self,
            table,
            thread,
            started,
            sums: on && thread == 0,
            effort: Effort::default(),
            events: recording.then(Vec::new),
        }
    }
}

/// Measures one thread's steps. Where nothing is measured, it does nothing.
pub(crate) struct Clock<'a> {
    profile: &'a Profile,
    table: &'a Table,
    thread: usize,
    /// When the step began.
    started: Option<Instant>,
    /// Whether this thread's time is the one that is summed.
    sums: bool,
    effort: Effort,
    events: Option<Vec<Event>>,
}

impl Clock<'_> {
    /// The thread has done its part of a step, of which this is all that was asked.
    pub(crate) fn worked(&mut self, step: usize, effort: impl FnOnce() -> Effort) {
        let Some(at) = self.started else { return };
        if let Some(events) = &mut self.events {
            let name = self.table.0[step].name.to_string();
            events.push(Event { name, ph: 'X', ts: 0.0, dur: at.elapsed().as_secs_f64() * 1e6, pid: 0, tid: self.thread, at });
        }
        if self.sums {
            self.effort = effort();
        }
    }
    /// All threads have: the next step begins.
    pub(crate) fn passed(&mut self, step: usize) {
        let Some(started) = self.started else { return };
        let now = Instant::now();
        if self.sums {
            self.table.add(step, now - started, std::mem::take(&mut self.effort));
        }
        self.started = Some(now);
    }
}

impl Drop for Clock<'_> {
    fn drop(&mut self) {
        if let Some(events) = &mut self.events {
            self.profile.events.lock().unwrap_or_else(PoisonError::into_inner).append(events);
        }
    }
}

impl Table {
    fn add(&self, step: usize, time: Duration, effort: Effort) {
        let counters = &self.0[step];
        counters.time.fetch_add(time.as_nanos() as u64, Relaxed);
        counters.runs.fetch_add(1, Relaxed);
        counters.bytes.fetch_add(effort.bytes, Relaxed);
        counters.products.fetch_add(effort.products, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_up_by_name() {
        let profile = Profile::default();
        let table = profile.table(vec!["a".into(), "b".into(), "a".into()]);
        let effort = |bytes, products| Effort { bytes, products };
        table.add(0, Duration::from_nanos(5), effort(1, 2));
        table.add(2, Duration::from_nanos(7), effort(10, 20));
        let rows = profile.rows();
        assert_eq!(rows, [ProfileRow { name: "a".into(), time: Duration::from_nanos(12), runs: 2, effort: effort(11, 22) }]);
        profile.reset();
        assert!(profile.rows().is_empty());
    }

    #[test]
    fn keeps_events_of_all_threads_and_sums_of_one() {
        let profile = Profile::default();
        let table = profile.table(vec!["a".into(), "b".into()]);
        let run = |thread| {
            let mut clock = profile.clock(&table, thread);
            for step in 0..2 {
                clock.worked(step, || Effort { bytes: 3, products: 0 });
                clock.passed(step);
            }
        };
        run(0);
        assert!(profile.rows().is_empty() && profile.take_events().is_empty());
        profile.switch(true);
        profile.record(true);
        (0..3).for_each(run);
        let sums: Vec<_> = profile.rows().into_iter().map(|r| (r.runs, r.effort.bytes)).collect();
        assert_eq!(sums, [(1, 3); 2]);
        let events = profile.take_events();
        let seen: Vec<_> = events.iter().map(|e| (e.tid, &*e.name)).collect();
        assert_eq!(seen, [(0, "a"), (0, "b"), (1, "a"), (1, "b"), (2, "a"), (2, "b")]);
        assert!(events[0].ts == 0.0 && events.is_sorted_by(|a, b| a.ts <= b.ts) && profile.take_events().is_empty());
    }
}
