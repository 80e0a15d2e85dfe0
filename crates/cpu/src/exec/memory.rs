//! How much memory this process can still take.

use std::path::Path;

/// Bytes that can be allocated: what the system calls available, and what the process's control groups still allow.
/// `None` where the system tells nothing.
pub(crate) fn available() -> Option<usize> {
    let system = std::fs::read_to_string("/proc/meminfo").ok().and_then(|t| mem_available(&t));
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok().and_then(|t| in_groups(Path::new("/sys/fs/cgroup"), &t));
    system.into_iter().chain(groups).min()
}

fn mem_available(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)
}

/// The least that any control group of the process (version 2, or version 1's memory controller) has left.
fn in_groups(root: &Path, groups: &str) -> Option<usize> {
    groups
        .lines()
        .filter_map(|line| {
            // `0::/a/b` in version 2, `4:memory:/a/b` in version 1.
            let mut fields = line.splitn(3, ':');
            let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?.trim_start_matches('/'));
            match controllers {
                "" => least_left(root, path, "memory.max", "memory.current"),
                c if c.split(',').any(|c| c == "memory") => {
                    least_left(&root.join("memory"), path, "memory.limit_in_bytes", "memory.usage_in_bytes")
                }
                _ => None,
            }
        })
        .min()
}

/// The least that the group at `path` or one above it has left.
fn least_left(root: &Path, path: &str, limit: &str, usage: &str) -> Option<usize> {
    let inner = root.join(path);
    let all = inner.ancestors().take_while(|p| p.starts_with(root));
    all.filter_map(|group| left(group, limit, usage)).min()
}

fn left(group: &Path, limit: &str, usage: &str) -> Option<usize> {
    let number = |name: &str| std::fs::read_to_string(group.join(name)).ok()?.trim().parse::<usize>().ok();
    // No limit is written as `max` (not a number) or as a huge number.
    let limit = number(limit)?;
    // Pages of files count as used, but are given back when memory is short.
    let stat = std::fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let files = |key: &str| stat.lines().find_map(|l| l.strip_prefix(key)?.trim().parse::<usize>().ok()).unwrap_or(0);
    let used = number(usage)?.saturating_sub(files("inactive_file ") + files("active_file "));
    Some(limit.saturating_sub(used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_meminfo() {
        assert_eq!(mem_available("MemTotal:  10 kB\nMemAvailable:      3 kB\n"), Some(3072));
        assert_eq!(mem_available("MemTotal:  10 kB\n"), None);
        assert!(available().is_some_and(|n| n > 1 << 20));
    }

    #[test]
    fn the_tightest_control_group_counts() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("a/memory.max", "1000\n");
        write("a/memory.current", "700\n");
        write("a/memory.stat", "anon 500\ninactive_file 100\nactive_file 50\n");
        write("a/b/memory.max", "max\n");
        write("a/b/memory.current", "600\n");
        assert_eq!(in_groups(dir.path(), "0::/a/b\n"), Some(450));
        write("memory/c/memory.limit_in_bytes", "400\n");
        write("memory/c/memory.usage_in_bytes", "100\n");
        assert_eq!(in_groups(dir.path(), "7:cpu,cpuacct:/c\n4:memory:/c\n0::/a\n"), Some(300));
        assert_eq!(in_groups(dir.path(), "0::/nowhere\n"), None);
    }
}
