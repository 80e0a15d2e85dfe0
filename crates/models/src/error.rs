use std::path::PathBuf;

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a checkpoint cannot be run or converted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No architecture goes by the name that the checkpoint gives, and no family's tensors and settings are just those it has.
    #[error("{}: architecture `{name}` is not known, and {why}", path.display())]
    Unknown {
        /// The checkpoint.
        path: PathBuf,
        /// What it calls itself.
        name: String,
        /// The family that comes closest; empty where none was looked for.
        closest: String,
        /// The closest family, what it leaves unexplained, and what to do.
        why: String,
    },
    /// No family goes by the name that was asked for.
    #[error("there is no family `{name}`; known are {known}")]
    Family {
        /// The name.
        name: String,
        /// All names that would do.
        known: String,
    },
    /// A setting is missing, of another type, out of range, or names something that is not known.
    #[error("{}: `{key}` {what}", path.display())]
    Setting {
        /// The file.
        path: PathBuf,
        /// The setting's key in it.
        key: String,
        /// What is wrong, and what would be right.
        what: String,
    },
    /// The plan cannot be built: a tensor is missing or has the wrong shape, or settings contradict each other.
    #[error("{}: {source}", path.display())]
    Plan {
        /// The checkpoint.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: onebit_plan::Error,
    },
    /// Tensors that no part of the architecture accounts for: running without them would give wrong answers.
    #[error("{}: the architecture `{name}` does not explain {count} of the tensors: {tensors}", path.display())]
    Unexplained {
        /// The checkpoint.
        path: PathBuf,
        /// The architecture.
        name: String,
        /// How many.
        count: usize,
        /// The first of them.
        tensors: String,
    },
    /// A GGUF file of the architecture cannot say something that this model needs.
    #[error("{}: cannot be converted: {what}", path.display())]
    Convert {
        /// The checkpoint.
        path: PathBuf,
        /// What cannot be said.
        what: String,
    },
    /// A file is at fault.
    #[error(transparent)]
    File(#[from] onebit_formats::Error),
}
