use std::path::PathBuf;

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a model cannot be quantized.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for cannot be done.
    #[error("{0}")]
    Asked(String),
    /// A file of importance is not what it should be.
    #[error("{}: {what}", path.display())]
    Importance {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A tensor holds what no type can.
    #[error("tensor `{tensor}`: {what}")]
    Tensor {
        /// Its name.
        tensor: String,
        /// What is wrong with it.
        what: String,
    },
    /// A model file is at fault, or cannot be written.
    #[error(transparent)]
    File(#[from] onebit_formats::Error),
}
