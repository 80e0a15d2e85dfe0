//! Normalizers: what is done to text before it is cut into words.

use super::split::Pattern;
use std::borrow::Cow;
use unicode_normalization::{IsNormalized, UnicodeNormalization, char::is_combining_mark, is_nfc_quick};

/// One step.
#[derive(Debug)]
pub(crate) enum Normalizer {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
    /// Each character by itself: a final sigma is as any other.
    Lowercase,
    Strip {
        left: bool,
        right: bool,
    },
    /// Removes marks.
    StripAccents,
    Replace {
        pattern: Pattern,
        content: String,
    },
    /// Puts this before text that is not empty.
    Prepend(String),
}

/// All steps in order.
pub(crate) fn normalize<'a>(steps: &[Normalizer], text: &'a str) -> Cow<'a, str> {
    let mut text = Cow::Borrowed(text);
    for step in steps {
        if let Some(changed) = step.apply(&text) {
            text = Cow::Owned(changed);
        }
    }
    text
}

impl Normalizer {
    /// By how much text can grow, at most.
    pub(crate) fn growth(&self) -> usize {
        match self {
            Self::Replace { pattern: Pattern::Literal(text), content } => content.len().div_ceil(text.len().max(1)).max(1),
            Self::Replace { content, .. } => content.len().max(1),
            // U+FDFA becomes 18 characters, 33 bytes of 3.
            Self::Nfkc | Self::Nfkd => 11,
            Self::Nfd | Self::Lowercase | Self::StripAccents => 3,
            Self::Nfc => 3,
            Self::Strip { .. } | Self::Prepend(_) => 1,
        }
    }

    /// The changed text; `None` where nothing changes.
    fn apply(&self, text: &str) -> Option<String> {
        match self {
            Self::Nfc => {
                // Nothing below U+0300 composes or is reordered.
                let plain = text.chars().all(|c| c < '\u{300}') || is_nfc_quick(text.chars()) == IsNormalized::Yes;
                (!plain).then(|| text.nfc().collect())
            }
            Self::Nfd => (!text.is_ascii()).then(|| text.nfd().collect()),
            Self::Nfkc => (!text.is_ascii()).then(|| text.nfkc().collect()),
            Self::Nfkd => (!text.is_ascii()).then(|| text.nfkd().collect()),
            Self::Lowercase => Some(text.chars().flat_map(char::to_lowercase).collect()),
            Self::Strip { left, right } => {
                let text = if *left { text.trim_start() } else { text };
                Some(if *right { text.trim_end() } else { text }.to_owned())
            }
            Self::StripAccents => (!text.is_ascii()).then(|| text.chars().filter(|&c| !is_combining_mark(c)).collect()),
            Self::Replace { pattern, content } => {
                let mut out = String::new();
                let mut done = 0;
                pattern.each(text, |range, is_match| {
                    if is_match {
                        out.push_str(&text[done..range.start]);
                        out.push_str(content);
                        done = range.end;
                    }
                });
                (done > 0).then(|| out + &text[done..])
            }
            Self::Prepend(prefix) => (!text.is_empty()).then(|| format!("{prefix}{text}")),
        }
    }
}
