//! Where models come from: names that 1bit knows ([`Entry`]), repositories on the Hugging Face Hub, files on disk; and the
//! cache that downloads land in ([`Cache`]).
//!
//! A download is resumable, survives being killed at any moment, is checked against its sha256 before it gets its final
//! name, and is tried from each [`Source`] in turn.

mod cache;
mod download;
mod entry;
mod error;
mod hub;
mod reference;
mod source;

pub use cache::{Cache, Cached};
pub use entry::{Entry, FileEntry, Variant, entries, find};
pub use error::{Error, Result};
pub use hub::pull_repository;
pub use reference::Reference;
pub use source::{HuggingFace, PythonPackage, Source};

use std::{path::PathBuf, time::Duration};

/// [`Settings::stall`] where nobody says.
const STALL: Duration = Duration::from_secs(30);

/// What the person's environment says about fetching.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The Hub's address: `HF_ENDPOINT`, or the public one.
    pub endpoint: String,
    /// The Hub's access token: `HF_TOKEN`, or what `hf auth login` stored.
    pub token: Option<String>,
    /// Fetch nothing: `HF_HUB_OFFLINE` or `ONEBIT_OFFLINE`.
    pub offline: bool,
    /// The Python that runs pip: `ONEBIT_PYTHON`, or `python3`.
    pub python: String,
    /// The Hub's own cache, searched before anything is fetched: `HF_HUB_CACHE` or `HF_HOME/hub`.
    pub hub_cache: Option<PathBuf>,
    /// How long nothing, or next to nothing, may come before a connection is given up and made anew: `HF_HUB_DOWNLOAD_TIMEOUT` in
    /// seconds, or 30.
    pub stall: Duration,
}

impl Settings {
    /// Reads the environment.
    pub fn from_env() -> Self {
        let var = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        let home = var("HOME").map(PathBuf::from);
        let hf_home = var("HF_HOME").map(PathBuf::from).or_else(|| {
            let cache = var("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| home.as_ref().map(|h| h.join(".cache")))?;
            Some(cache.join("huggingface"))
        });
        let stored = || {
            let path = var("HF_TOKEN_PATH").map(PathBuf::from).or_else(|| Some(hf_home.as_ref()?.join("token")))?;
            Some(std::fs::read_to_string(path).ok()?.trim().to_string()).filter(|t| !t.is_empty())
        };
        let on = |name: &str| var(name).is_some_and(|v| !matches!(v.to_ascii_lowercase().as_str(), "0" | "false" | "no" | "off"));
        Self {
            endpoint: var("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".into()).trim_end_matches('/').to_string(),
            token: var("HF_TOKEN").or_else(stored),
            offline: on("HF_HUB_OFFLINE") || on("ONEBIT_OFFLINE"),
            python: var("ONEBIT_PYTHON").unwrap_or_else(|| "python3".into()),
            stall: var("HF_HUB_DOWNLOAD_TIMEOUT")
                .and_then(|s| s.parse().ok())
                .filter(|s| (1..=86_400).contains(s))
                .map_or(STALL, Duration::from_secs),
            hub_cache: var("HF_HUB_CACHE").map(PathBuf::from).or_else(|| Some(hf_home?.join("hub"))),
        }
    }
}

/// Watches a download; all methods may be called from one thread only.
pub trait Observer {
    /// `name` begins; `have` of its `size` bytes are there from an earlier try.
    fn begin(&self, name: &str, size: u64, have: u64);
    /// So many more bytes have arrived; negative when a try starts over.
    fn advance(&self, bytes: i64);
    /// The file is complete and checked.
    fn end(&self);
    /// Something that the person should know: a source that failed, say.
    fn note(&self, text: &str);
}

/// Watches nothing.
pub struct Silent;

impl Observer for Silent {
    fn begin(&self, _: &str, _: u64, _: u64) {}
    fn advance(&self, _: i64) {}
    fn end(&self) {}
    fn note(&self, _: &str) {}
}
