/// Why an answer cannot be held to what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrammarError {
    /// The text is larger than is allowed.
    #[error("it has {bytes} bytes; {limit} are allowed")]
    TooLarge {
        /// Its bytes.
        bytes: usize,
        /// [`Limits::bytes`](crate::Limits::bytes).
        limit: usize,
    },
    /// Its brackets lie deeper within one another than is allowed.
    #[error("it is nested more than {limit} levels deep")]
    TooDeep {
        /// [`Limits::depth`](crate::Limits::depth).
        limit: usize,
    },
    /// It is wrong, or asks for what cannot be done.
    #[error("{0}")]
    Invalid(String),
    /// Making a mask, or what it is made from, took more work than is allowed.
    #[error("it is too complex: {0}")]
    TooComplex(String),
}

impl GrammarError {
    /// What the library said, without the grammar that it repeats.
    pub(crate) fn of(message: &str) -> Self {
        let message = message.split("\n<").next().unwrap_or_default().trim();
        let short: String = message.chars().take(MESSAGE).collect();
        let is_complexity = ["too complex", "fuel", "limit", "too large", "too many", "; max is "].iter().any(|word| short.contains(word));
        if is_complexity { Self::TooComplex(short) } else { Self::Invalid(short) }
    }
}

/// Characters of a message that are passed on.
const MESSAGE: usize = 600;
