//! Mapped files: pages that go and come back, and a file that is shortened while in use.

#![allow(clippy::unwrap_used, reason = "a test")]

use onebit_formats::Mapping;
use std::{
    fs::{self, OpenOptions},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, Output},
};

const PAGE: usize = 4096;

/// Kilobytes of the mapping of `path` that are resident in this process, from /proc/self/smaps.
fn resident(path: &Path) -> usize {
    let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
    let mine = smaps.lines().skip_while(|l| !l.ends_with(path.to_str().unwrap()));
    let rss = mine.skip(1).find(|l| l.starts_with("Rss:")).unwrap();
    rss.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn released_pages_go_and_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights");
    let bytes: Vec<u8> = (0..64 * PAGE + 100).map(|i| (i * 7 % 251) as u8).collect();
    fs::write(&path, &bytes).unwrap();
    let map = Mapping::open(&path).unwrap();
    assert_eq!(map.path(), path);
    map.advise_huge_pages();
    map.advise_sequential(5, bytes.len());
    map.populate(0, bytes.len());
    assert_eq!(resident(&path), 65 * 4);
    // Pages that the range only touches stay: 1 and 9 of 0..64.
    map.release(PAGE + 1, 8 * PAGE);
    assert_eq!(resident(&path), (65 - 7) * 4);
    // Less than a page, nothing, beyond the end.
    map.release(20 * PAGE + 1, PAGE);
    map.release(20 * PAGE, 0);
    map.release(usize::MAX, usize::MAX);
    assert_eq!(resident(&path), (65 - 7) * 4);
    assert_eq!(map.bytes(), bytes);
    // Up to the end, the last page goes too, though the file does not fill it.
    map.release(0, usize::MAX);
    assert_eq!(resident(&path), 0);
    assert_eq!(map.bytes(), bytes);
}

const CHILD: &str = "ONEBIT_TEST_SIGBUS";

/// Runs this very test in a child process, which does what `what` says.
fn child(what: &str) -> Output {
    let me = std::env::current_exe().unwrap();
    Command::new(me).args(["--exact", "a_shortened_file_is_named", "--nocapture"]).env(CHILD, what).output().unwrap()
}

/// What the child does: maps files, shortens one, reads where nothing is any more.
fn shorten(what: &str) {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["first.gguf", "weights.gguf", "last.gguf"].map(|n| folder.path().join(n));
    for path in &paths {
        fs::write(path, vec![1; 8 * PAGE]).unwrap();
    }
    if what != "no handler" {
        Mapping::install_sigbus_message();
        Mapping::install_sigbus_message();
    }
    let maps = paths.each_ref().map(|p| Mapping::open(p).unwrap());
    // A mapping that is gone is not confused with one that lives.
    drop(Mapping::open(&paths[0]).unwrap());
    let other = (what == "elsewhere").then(|| {
        let file = fs::File::open(&paths[1]).unwrap();
        // SAFETY: only read below, where the SIGBUS that it gives is the test.
        unsafe { memmap2::Mmap::map(&file) }.unwrap()
    });
    OpenOptions::new().write(true).open(&paths[1]).unwrap().set_len(PAGE as u64).unwrap();
    fs::remove_dir_all(folder.path()).unwrap();
    let bytes = other.as_ref().map_or(maps[1].bytes(), |o| &o[..]);
    assert_eq!(bytes[PAGE - 1], 1);
    let read = std::hint::black_box(bytes)[4 * PAGE];
    unreachable!("read {read} beyond the end");
}

#[test]
fn a_shortened_file_is_named() {
    if let Ok(what) = std::env::var(CHILD) {
        return shorten(&what);
    }
    let out = child("watched");
    let text = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(74), "{text}");
    let line = text.lines().find(|l| l.starts_with("1bit: ")).unwrap();
    assert!(line.contains("/weights.gguf: the file changed or was shortened while in use"), "{line}");
    assert!(!text.contains("first.gguf") && !text.contains("last.gguf"), "{text}");
    // Faults elsewhere, and processes without the handler, die of the signal as before.
    for what in ["elsewhere", "no handler"] {
        let out = child(what);
        let text = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.signal(), Some(7), "{what}: {text}");
        assert!(!text.contains("1bit:"), "{what}: {text}");
    }
}
