//! What this machine is, for people.

use crate::exec::memory;

/// The processor's name, as `/proc/cpuinfo` gives it.
pub fn processor_name() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|l| l.strip_prefix("model name")?.split_once(':')).map(|(_, name)| name.trim());
    name.unwrap_or("unknown processor").to_string()
}

/// Memory that the process can still take, in bytes: what the system has available, within the limits of its control groups.
/// `None` where the system tells nothing.
pub fn available_memory() -> Option<usize> {
    memory::available()
}
