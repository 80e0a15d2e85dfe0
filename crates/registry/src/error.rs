use std::path::{Path, PathBuf};

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a model cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing has this name.
    #[error("no model is called `{name}`: give a file, a folder, `hf:owner/name`, or one of: {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The registry's names.
        known: String,
    },
    /// The reference itself is wrong.
    #[error("`{reference}`: {what}")]
    Reference {
        /// What was asked for.
        reference: String,
        /// What is wrong with it.
        what: String,
    },
    /// A registry file is wrong.
    #[error("registry/{file}: {what}")]
    Entry {
        /// The file.
        file: String,
        /// What is wrong with it.
        what: String,
    },
    /// The operating system refused something.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The disk has no room.
    #[error("{}: {needed} more bytes are needed, but the disk has {free} free: remove a model with `1bit rm`, or set XDG_CACHE_HOME to another disk", path.display())]
    Full {
        /// The cache.
        path: PathBuf,
        /// Bytes that are still to come.
        needed: u64,
        /// Bytes free.
        free: u64,
    },
    /// A source gave no file.
    #[error("{0}")]
    Fetch(String),
    /// The bytes are not those that were promised.
    #[error("{name}: {what} is {found}, but should be {expected}")]
    Mismatch {
        /// The file.
        name: String,
        /// Size or sha256.
        what: &'static str,
        /// What came.
        found: String,
        /// What was promised.
        expected: String,
    },
    /// Every source failed.
    #[error("{name} could not be fetched:{}", list(tries))]
    AllFailed {
        /// The file.
        name: String,
        /// Each source, and what went wrong with it.
        tries: Vec<(String, String)>,
    },
}

fn list(tries: &[(String, String)]) -> String {
    tries.iter().map(|(source, what)| format!("\n  - {source}: {what}")).collect()
}

impl Error {
    /// Names the file that an I/O error came from.
    pub(crate) fn io(path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        move |source| Self::Io { path, source }
    }
}
