//! Where the time goes, by kind of step.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// Time and number of runs of one kind of step.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileRow {
    /// The ops that run as one, in their order: `rms_norm+fill`.
    pub name: String,
    /// Time in all, waiting for other threads included.
    pub time: Duration,
    /// How often it ran.
    pub runs: u64,
}

/// Measures all executables of a device, while it is switched on. Off, it costs one look at a flag for each step.
#[derive(Debug, Default)]
pub struct Profile {
    on: AtomicBool,
    tables: Mutex<Vec<Arc<Table>>>,
}

/// Counters of one executable.
#[derive(Debug)]
pub(crate) struct Table(Vec<(String, AtomicU64, AtomicU64)>);

impl Profile {
    /// Starts or stops measuring.
    pub fn switch(&self, on: bool) {
        self.on.store(on, Relaxed);
    }
    /// Forgets what was measured.
    pub fn reset(&self) {
        for table in self.tables.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            table.0.iter().for_each(|(_, time, runs)| {
                time.store(0, Relaxed);
                runs.store(0, Relaxed);
            });
        }
    }
    /// What was measured, longest first.
    pub fn rows(&self) -> Vec<ProfileRow> {
        let mut by_name = BTreeMap::<String, (u64, u64)>::new();
        for table in self.tables.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            for (name, time, runs) in &table.0 {
                let sum = by_name.entry(name.clone()).or_default();
                sum.0 += time.load(Relaxed);
                sum.1 += runs.load(Relaxed);
            }
        }
        let row = |(name, (time, runs))| ProfileRow { name, time: Duration::from_nanos(time), runs };
        let mut rows: Vec<_> = by_name.into_iter().filter(|(_, (_, runs))| *runs > 0).map(row).collect();
        rows.sort_by_key(|r| std::cmp::Reverse(r.time));
        rows
    }
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Relaxed)
    }
    /// A table for steps of these names.
    pub(crate) fn table(&self, names: Vec<String>) -> Arc<Table> {
        let table = Arc::new(Table(names.into_iter().map(|n| (n, AtomicU64::new(0), AtomicU64::new(0))).collect()));
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        // Tables of executables that are gone are dropped when the next comes.
        tables.retain(|t| Arc::strong_count(t) > 1);
        tables.push(table.clone());
        table
    }
}

impl Table {
    pub(crate) fn add(&self, step: usize, time: Duration) {
        let (_, total, runs) = &self.0[step];
        total.fetch_add(time.as_nanos() as u64, Relaxed);
        runs.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_up_by_name() {
        let profile = Profile::default();
        let table = profile.table(vec!["a".into(), "b".into(), "a".into()]);
        table.add(0, Duration::from_nanos(5));
        table.add(2, Duration::from_nanos(7));
        let rows = profile.rows();
        assert_eq!(rows, [ProfileRow { name: "a".into(), time: Duration::from_nanos(12), runs: 2 }]);
        profile.reset();
        assert!(profile.rows().is_empty());
    }
}
