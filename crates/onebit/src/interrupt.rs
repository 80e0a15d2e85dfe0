//! Ctrl-C and SIGTERM for commands that write large files: what is not whole goes away with them.

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};
use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// Files of this command's own that are to go, too.
static OURS: Mutex<Vec<PathBuf>> = Mutex::new(vec![]);

/// From now on a signal removes what is not whole, and ends the program with the exit code that shells give for the signal.
pub(crate) fn cleans_up() -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            onebit_formats::remove_unfinished();
            for path in OURS.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                let _ = std::fs::remove_file(path);
            }
            std::process::exit(128 + signal);
        }
    };
    std::thread::Builder::new().name("interrupt".into()).spawn(wait)?;
    Ok(())
}

/// Has this file removed, too.
pub(crate) fn removes(path: &Path) {
    OURS.lock().unwrap_or_else(PoisonError::into_inner).push(path.to_path_buf());
}
