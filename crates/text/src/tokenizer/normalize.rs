//! Normalizers: what is done to text before it is cut into words.

use super::{
    bytes,
    category::{is_accent, is_chinese, is_removed_by_bert},
    charsmap::Charsmap,
    sentence_piece::Whitespace,
    split::Pattern,
};
use crate::{Error, Result};
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
    /// Removes control characters, and makes all white space spaces.
    Clean,
    /// Puts spaces around Chinese characters.
    ChineseApart,
    /// Decomposes, and removes marks that take no space.
    StripBertAccents,
    /// Removes control characters of ASCII, and makes others, and some that cannot be seen, spaces.
    Nmt,
    /// Each byte becomes a visible character.
    ByteLevel,
    /// The table of a SentencePiece model, as `tokenizers` uses it.
    Charsmap(Charsmap),
    /// All that a SentencePiece model does to text.
    SentencePiece(Box<Whitespace>),
}

/// The most by which normalization may lengthen text.
const GROWTH_LIMIT: usize = 64;

/// Refuses steps that could lengthen text too much.
pub(crate) fn check_growth(origin: &str, steps: &[Normalizer]) -> Result<()> {
    let growth = steps.iter().fold(1usize, |growth, step| growth.saturating_mul(step.growth()));
    if growth > GROWTH_LIMIT {
        let what = format!("the normalizers can make text {growth} times as long; at most {GROWTH_LIMIT} times is accepted");
        return Err(Error::invalid(origin, what));
    }
    Ok(())
}

/// BERT's steps. Accents are removed where lower case is made, unless the file says.
pub(crate) fn bert(clean: bool, chinese: bool, accents: Option<bool>, lowercase: bool) -> impl Iterator<Item = Normalizer> {
    let wanted = [
        (clean, Normalizer::Clean),
        (chinese, Normalizer::ChineseApart),
        (accents.unwrap_or(lowercase), Normalizer::StripBertAccents),
        (lowercase, Normalizer::Lowercase),
    ];
    wanted.into_iter().filter(|(wanted, _)| *wanted).map(|(_, step)| step)
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
            Self::Charsmap(map) => map.growth(),
            Self::SentencePiece(steps) => steps.growth(),
            // U+FDFA becomes 18 characters, 33 bytes of 3.
            Self::Nfkc | Self::Nfkd => 11,
            Self::Nfd | Self::Nfc | Self::Lowercase | Self::StripAccents | Self::StripBertAccents => 3,
            Self::ByteLevel => 2,
            Self::Strip { .. } | Self::Prepend(_) | Self::Clean | Self::Nmt => 1,
            // A Chinese character has three bytes.
            Self::ChineseApart => 2,
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
            Self::Clean => {
                let plain = text.chars().all(|c| c == ' ' || !(c.is_whitespace() || is_removed_by_bert(c)));
                let kept = || text.chars().filter(|&c| !is_removed_by_bert(c)).map(|c| if c.is_whitespace() { ' ' } else { c });
                (!plain).then(|| kept().collect())
            }
            Self::ChineseApart => {
                let mut out = String::new();
                let mut done = 0;
                for (at, c) in text.char_indices().filter(|&(_, c)| is_chinese(c)) {
                    out.push_str(&text[done..at]);
                    out.extend([' ', c, ' ']);
                    done = at + c.len_utf8();
                }
                (done > 0).then(|| out + &text[done..])
            }
            Self::StripBertAccents => (!text.is_ascii()).then(|| text.nfd().filter(|&c| !is_accent(c)).collect()),
            Self::Nmt => Some(text.chars().filter_map(nmt).collect()),
            Self::ByteLevel => Some(bytes::encode(text)),
            Self::Charsmap(map) => map.by_clusters(text),
            Self::SentencePiece(steps) => Some(steps.normalize(text)),
            Self::Prepend(prefix) => (!text.is_empty()).then(|| format!("{prefix}{text}")),
        }
    }
}

/// What SentencePiece's rule `nmt` makes of a character.
fn nmt(c: char) -> Option<char> {
    match c {
        '\u{1}'..='\u{8}' | '\u{b}' | '\u{e}'..='\u{1f}' | '\u{7f}' | '\u{8f}' | '\u{9f}' => None,
        '\t' | '\n' | '\u{c}' | '\r' | '\u{1680}' | '\u{200b}'..='\u{200f}' | '\u{2028}' | '\u{2029}' | '▁' | '\u{feff}' | '\u{fffd}' => {
            Some(' ')
        }
        c => Some(c),
    }
}

/// What the cleaning of decoders replaces, in order.
const CLEANED: [(&str, &str); 11] = [
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" do not", " don't"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
];

/// Removes spaces that English does not have, as decoders do with each token.
pub(crate) fn clean_up(mut text: String) -> String {
    for (from, to) in CLEANED {
        if text.contains(from) {
            text = text.replace(from, to);
        }
    }
    text
}
