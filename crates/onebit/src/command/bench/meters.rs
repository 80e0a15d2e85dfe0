//! What the system tells of memory and energy.

use std::path::{Path, PathBuf};

/// Counts the peak from now on, where the system allows it (Linux, Documentation/filesystems/proc.rst, `clear_refs`).
pub(super) fn forget_peak() {
    // A refusal leaves the peak as it was, which is one too.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The most memory that this process has had at once, in bytes, since [`forget_peak`].
pub(super) fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The processors' energy counters (RAPL: Linux, Documentation/power/powercap), where this process may read them.
pub(super) struct Energy {
    counters: Vec<Counter>,
}

struct Counter {
    path: PathBuf,
    /// Where it begins again.
    range: u64,
}

impl Energy {
    /// Those of this machine.
    pub(super) fn new() -> Self {
        Self::below(Path::new("/sys/class/powercap"))
    }
    fn below(folder: &Path) -> Self {
        let zones = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let counter = |zone: PathBuf| {
            let read = |name: &str| std::fs::read_to_string(zone.join(name)).ok();
            // Zones within a package are counted by it.
            let whole = read("name")?.starts_with("package-");
            let range = read("max_energy_range_uj")?.trim().parse().ok()?;
            whole.then_some(Counter { path: zone.join("energy_uj"), range })
        };
        Self { counters: zones.filter_map(counter).collect() }
    }
    /// The counters' values, in microjoules; `None` where there are none, or they are not for us.
    pub(super) fn now(&self) -> Option<Vec<u64>> {
        let read = |c: &Counter| std::fs::read_to_string(&c.path).ok()?.trim().parse().ok();
        Some(self.counters.iter().map(read).collect::<Option<Vec<u64>>>()?).filter(|all| !all.is_empty())
    }
    /// Joules since `then`.
    pub(super) fn since(&self, then: &[u64]) -> Option<f64> {
        let passed = |((now, then), counter): ((u64, &u64), &Counter)| match now.checked_sub(*then) {
            Some(passed) => passed,
            None => (now + counter.range).saturating_sub(*then),
        };
        Some(self.now()?.into_iter().zip(then).zip(&self.counters).map(passed).sum::<u64>() as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_there_on_linux() {
        forget_peak();
        assert_eq!(peak_memory().is_some_and(|n| n > 1 << 20), cfg!(target_os = "linux"));
    }

    #[test]
    fn energy_of_packages_is_added_up_across_the_counters_end() {
        let dir = tempfile::tempdir().unwrap();
        let write = |zone: &str, name: &str, text: &str| {
            std::fs::create_dir_all(dir.path().join(zone)).unwrap();
            std::fs::write(dir.path().join(zone).join(name), text).unwrap();
        };
        assert_eq!(Energy::below(dir.path()).now(), None);
        for (zone, name) in [("intel-rapl:0", "package-0\n"), ("intel-rapl:1", "package-1\n"), ("intel-rapl:0:0", "core\n")] {
            write(zone, "name", name);
            write(zone, "max_energy_range_uj", "10000000\n");
            write(zone, "energy_uj", "9000000\n");
        }
        let energy = Energy::below(dir.path());
        let then = energy.now().unwrap();
        assert_eq!(then, [9_000_000; 2]);
        write("intel-rapl:0", "energy_uj", "9500000\n");
        write("intel-rapl:1", "energy_uj", "1000000\n");
        assert_eq!(energy.since(&then), Some(2.5));
    }
}
