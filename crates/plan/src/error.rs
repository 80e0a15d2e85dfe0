/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a plan cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A weight that the architecture needs is not in the checkpoint.
    #[error("tensor `{0}` is missing")]
    Missing(String),
    /// A weight has another shape than the configuration asks for.
    #[error("tensor `{name}` has shape {found:?}, but the configuration asks for {expected:?}")]
    Shape {
        /// The tensor's name in the file.
        name: String,
        /// Its shape, outermost dimension first.
        found: Vec<usize>,
        /// The shape that was expected.
        expected: Vec<usize>,
    },
    /// Ops do not fit each other, or a setting is outside what an op allows.
    #[error("{0}")]
    Invalid(String),
    /// The model's files are at fault.
    #[error(transparent)]
    File(#[from] onebit_formats::Error),
}

impl Error {
    /// A fault in words.
    pub fn invalid(what: impl Into<String>) -> Self {
        Self::Invalid(what.into())
    }
}
