//! Why a template was not rendered.

/// What is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The template called `raise_exception`.
    Raised,
    /// Values are not what the template takes.
    Values,
    /// The template itself: its syntax, what it asks for, or what it costs.
    Template,
}

/// An error, and the line of the template where it happened.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    text: String,
    line: Option<usize>,
}

impl Fault {
    pub(super) fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), line: None }
    }

    /// Values are not what is needed.
    pub(super) fn values<T>(text: impl Into<String>) -> Result<T, Self> {
        Err(Self::new(Kind::Values, text))
    }

    /// The template is at fault.
    pub(super) fn template<T>(text: impl Into<String>) -> Result<T, Self> {
        Err(Self::new(Kind::Template, text))
    }

    /// The same error, with its line if that is not known yet.
    pub(super) fn at(mut self, line: usize) -> Self {
        self.line.get_or_insert(line);
        self
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Longer ones quote what the template made.
        const MOST: usize = 1000;
        let text: String = self.text.chars().take(MOST).collect();
        match self.line {
            // What a template says is for whoever wrote the messages.
            Some(line) if self.kind != Kind::Raised => write!(f, "line {line}: {text}"),
            _ => f.write_str(&text),
        }
    }
}
