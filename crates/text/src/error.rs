/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a tokenizer or a chat template cannot be built or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The model file itself.
    #[error(transparent)]
    File(#[from] onebit_formats::Error),
    /// Contents that contradict themselves or pass a limit: the origin (a file or field), then what is wrong.
    #[error("{origin}: {what}")]
    Invalid {
        /// The file and field.
        origin: String,
        /// What it holds, and what was expected.
        what: String,
    },
    /// Something that this version does not do, named as the file names it.
    #[error("{origin}: {what} is not supported")]
    Unsupported {
        /// The file and field.
        origin: String,
        /// The name that the file gives it.
        what: String,
    },
    /// The messages do not suit the template: it called `raise_exception`, or used something that they lack. A fault of
    /// the request.
    #[error("chat template: {0}")]
    Messages(String),
    /// The template itself is at fault: its syntax, or a limit on time, depth or size.
    #[error("chat template: {0}")]
    Template(String),
}

impl Error {
    pub(crate) fn invalid(origin: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Invalid { origin: origin.into(), what: what.into() }
    }
    pub(crate) fn unsupported(origin: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Unsupported { origin: origin.into(), what: what.into() }
    }
}
