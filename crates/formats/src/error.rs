use std::path::{Path, PathBuf};

/// Why a model file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused something.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The file's bytes contradict its format, or a limit.
    #[error("{}: {what}", path.display())]
    Invalid {
        /// The file or folder.
        path: PathBuf,
        /// The field, what it holds, and the limit or what was expected.
        what: String,
    },
}

impl Error {
    /// Names the file that an I/O error came from.
    pub fn io(path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        move |source| Self::Io { path, source }
    }
    /// A fault in the file's contents.
    pub fn invalid(path: impl AsRef<Path>, what: impl Into<String>) -> Self {
        Self::Invalid { path: path.as_ref().to_path_buf(), what: what.into() }
    }
}
