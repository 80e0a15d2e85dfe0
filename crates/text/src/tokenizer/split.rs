//! Pre-tokenizers: how normalized text is cut into the words that a model encodes one by one.

use super::{
    bytes,
    category::{is_decimal, is_punctuation, is_word},
    scan::Scanner,
    scripts::{ANY, Script, script},
    unicode::Classes,
};
use crate::{Error, Result};
use aho_corasick::{AhoCorasick, MatchKind};
use std::ops::Range;

/// What is looked for in text.
#[derive(Debug)]
pub(crate) enum Pattern {
    /// An expression that has a scanner.
    Scan(Scanner),
    /// Any other expression.
    Regex(Box<fancy_regex::Regex>),
    /// This text.
    Literal(String),
    /// Any of several texts; the longest at each place.
    Texts(AhoCorasick),
    /// Each character of a kind.
    Chars(fn(char) -> bool),
    /// Numbers in groups of three, from the last digit on.
    Digits(DigitGroups),
    /// In a text of white space without line ends: 512 characters, half of those, and so on; the last may be one or two.
    Halves,
}

/// Which numbers are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DigitGroups {
    /// All runs of `\p{N}`.
    All,
    /// `\d{1,3}(?=(?:\d{3})*\b)`: runs of digits that no word character follows.
    BeforeBoundary,
    /// `(?=(\d{3})+(?!\d))`: runs of digits are cut before each group, and nowhere else.
    Cuts,
}

/// Calls `found` for each group of numbers in order, or for the empty text before it.
fn digit_groups(kind: DigitGroups, text: &str, mut found: impl FnMut(Range<usize>)) {
    let is_digit = |c: char| if kind == DigitGroups::All { c.is_numeric() } else { is_decimal(c) };
    let mut at = 0;
    while let Some(start) = text[at..].find(is_digit).map(|i| at + i) {
        let length = text[start..].find(|c| !is_digit(c)).unwrap_or(text.len() - start);
        at = start + length;
        if kind == DigitGroups::BeforeBoundary && text[at..].chars().next().is_some_and(is_word) {
            continue;
        }
        let count = text[start..at].chars().count();
        let mut left = count;
        let mut from = start;
        let mut ends = text[start..at].char_indices().map(|(i, c)| start + i + c.len_utf8());
        while left > 0 {
            let group = if left.is_multiple_of(3) { 3 } else { left % 3 };
            let end = ends.nth(group - 1).unwrap_or(at);
            match kind {
                DigitGroups::Cuts if group == 3 => found(from..from),
                DigitGroups::Cuts => {}
                _ => found(from..end),
            }
            (from, left) = (end, left - group);
        }
    }
}

/// Calls `found` for each part of a text of white space without line ends.
fn halves(text: &str, mut found: impl FnMut(Range<usize>)) {
    if !text.chars().all(|c| c.is_whitespace() && c != '\r' && c != '\n') {
        return;
    }
    let mut left = text.chars().count();
    let mut start = 0;
    let mut ends = text.char_indices().map(|(i, c)| i + c.len_utf8());
    while left > 0 {
        let size = [512, 256, 128, 64, 32, 16, 8, 4, 2, 1].into_iter().find(|&size| size <= left).unwrap_or(1);
        let end = ends.nth(size - 1).unwrap_or(text.len());
        found(start..end);
        (start, left) = (end, left - size);
    }
}

/// How far one search with an expression without scanner may go back, at most.
const BACKTRACK_LIMIT: usize = 100_000;
/// The longest expression.
const PATTERN_LIMIT: usize = 16 << 10;

impl Pattern {
    /// A regular expression in Oniguruma's syntax, where it means the same to `fancy-regex`.
    pub(crate) fn regex(origin: &str, pattern: &str) -> Result<Self> {
        if let Some(scanner) = Scanner::for_pattern(pattern) {
            return Ok(Self::Scan(scanner));
        }
        if pattern.len() > PATTERN_LIMIT {
            return Err(Error::invalid(
                origin,
                format!("the regular expression has {} bytes; at most {PATTERN_LIMIT} are read", pattern.len()),
            ));
        }
        // POSIX classes are Unicode in one and ASCII in the other; these letters mean other things.
        for differs in ["[[:", "[^[:", r"\h", r"\H", r"\R", r"\X", r"\O", r"\N", "(?m", "(?s", "(?x"] {
            if pattern.contains(differs) {
                return Err(Error::unsupported(origin, format!("`{differs}` in the regular expression `{pattern}`")));
            }
        }
        let regex = fancy_regex::RegexBuilder::new(pattern).backtrack_limit(BACKTRACK_LIMIT).delegate_size_limit(16 << 20).build();
        let regex = regex.map_err(|e| Error::invalid(origin, format!("the regular expression `{pattern}` cannot be read: {e}")))?;
        Ok(Self::Regex(Box::new(regex)))
    }

    /// Any of these texts.
    pub(crate) fn texts<'a>(origin: &str, texts: impl Iterator<Item = &'a [u8]>) -> Result<Self> {
        let automaton = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(texts);
        automaton.map(Self::Texts).map_err(|e| Error::invalid(origin, format!("the user-defined tokens are too many or too long: {e}")))
    }

    /// Calls `part` for each part of the text in order, with whether it matches. Parts are not empty.
    ///
    /// Where an expression without scanner passes its limit, what is left of the text is one part that does not match.
    pub(crate) fn each(&self, text: &str, mut part: impl FnMut(Range<usize>, bool)) {
        let mut done = 0;
        let mut found = |range: Range<usize>| {
            if done < range.start {
                part(done..range.start, false);
            }
            done = range.end;
            if !range.is_empty() {
                part(range, true);
            }
        };
        match self {
            Self::Scan(scanner) => {
                let classes = Classes::get();
                let mut at = 0;
                while let Some(range) = scanner.find(classes, text, at) {
                    at = range.end;
                    found(range);
                }
            }
            Self::Regex(regex) => regex.find_iter(text).map_while(|m| m.ok()).map(|m| m.range()).for_each(found),
            Self::Literal(literal) => text.match_indices(literal.as_str()).for_each(|(at, m)| found(at..at + m.len())),
            Self::Texts(automaton) => automaton.find_iter(text).for_each(|m| found(m.range())),
            Self::Digits(kind) => digit_groups(*kind, text, found),
            Self::Halves => halves(text, found),
            Self::Chars(is) => text.char_indices().filter(|&(_, c)| is(c)).for_each(|(at, c)| found(at..at + c.len_utf8())),
        }
        if done < text.len() {
            part(done..text.len(), false);
        }
    }
}

/// What becomes of the matches of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
pub(crate) enum Behavior {
    /// They are dropped.
    Removed,
    /// Each is a word.
    Isolated,
    /// Each ends the word before it.
    MergedWithPrevious,
    /// Each starts the word after it.
    MergedWithNext,
    /// Neighbours of one kind are one word.
    Contiguous,
}

/// When [`Step::Metaspace`] puts its character in front.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Prepend {
    /// Before the first word of a text.
    First,
    /// Before no word.
    Never,
    /// Before each word that has none.
    #[default]
    Always,
}

/// One step.
#[derive(Debug)]
pub(crate) enum Step {
    /// Cuts at the matches of a pattern, or with `invert` at what does not match.
    Split { pattern: Pattern, behavior: Behavior, invert: bool },
    /// Cuts where the script changes.
    Scripts,
    /// Cuts into words of so many characters.
    FixedLength(usize),
    /// Writes each byte as a visible character.
    ByteLevel,
    /// Puts a space before a word that has none.
    PrefixSpace,
    /// SentencePiece's: spaces become `replacement`, and words start with it.
    Metaspace { replacement: char, prepend: Prepend, split: bool },
}

/// BERT's steps.
pub(crate) fn bert() -> [Step; 2] {
    [(Pattern::Chars(char::is_whitespace), Behavior::Removed), (Pattern::Chars(is_punctuation), Behavior::Isolated)]
        .map(|(pattern, behavior)| Step::Split { pattern, behavior, invert: false })
}

/// Cuts `text` by all steps; `first` where it is the start of what the user gave. Words are not empty.
pub(crate) fn split(steps: &[Step], text: &str, first: bool, word: &mut dyn FnMut(&str)) {
    if text.is_empty() {
        return;
    }
    let Some((step, rest)) = steps.split_first() else {
        return word(text);
    };
    match step {
        Step::Split { pattern, behavior, invert } => {
            pieces(pattern, *behavior, *invert, text, |range| split(rest, &text[range.clone()], first && range.start == 0, word));
        }
        Step::Scripts => script_runs(text, |range| split(rest, &text[range.clone()], first && range.start == 0, word)),
        Step::FixedLength(length) => {
            let cuts = || text.char_indices().map(|(at, _)| at).step_by(*length);
            for (start, end) in cuts().zip(cuts().skip(1).chain([text.len()])) {
                split(rest, &text[start..end], first && start == 0, word);
            }
        }
        Step::ByteLevel => split(rest, &bytes::encode(text), first, word),
        Step::PrefixSpace if text.starts_with(' ') => split(rest, text, first, word),
        Step::PrefixSpace => split(rest, &format!(" {text}"), first, word),
        Step::Metaspace { replacement, prepend, split: cut } => {
            let mark = replacement.encode_utf8(&mut [0; 4]).to_owned();
            let mut marked = text.replace(' ', &mark);
            let wanted = match prepend {
                Prepend::Always => true,
                Prepend::First => first,
                Prepend::Never => false,
            };
            if wanted && !marked.starts_with(*replacement) {
                marked.insert_str(0, &mark);
            }
            if *cut {
                let pattern = Pattern::Literal(mark);
                pieces(&pattern, Behavior::MergedWithNext, false, &marked, |range| {
                    split(rest, &marked[range.clone()], first && range.start == 0, word);
                });
            } else {
                split(rest, &marked, first, word);
            }
        }
    }
}

/// Calls `piece` for each run of one script. Characters of none belong to the run before them; at the start they are lost, as
/// in `tokenizers`.
fn script_runs(text: &str, mut piece: impl FnMut(Range<usize>)) {
    let mut open: Option<(usize, Script)> = None;
    for (at, c) in text.char_indices() {
        let script = script(c);
        if script == ANY || open.is_some_and(|(_, other)| other == script) {
            continue;
        }
        if let Some((start, _)) = open.replace((at, script)) {
            piece(start..at);
        }
    }
    if let Some((start, _)) = open {
        piece(start..text.len());
    }
}

/// Calls `piece` for each piece that a split leaves.
fn pieces(pattern: &Pattern, behavior: Behavior, invert: bool, text: &str, mut piece: impl FnMut(Range<usize>)) {
    // The piece that may still grow, and whether the last part was a match.
    let mut open: Option<Range<usize>> = None;
    let mut last_match = None;
    pattern.each(text, |range, is_match| {
        let is_match = is_match != invert;
        let joins = match behavior {
            Behavior::Removed if is_match => return,
            Behavior::Removed | Behavior::Isolated => return piece(range),
            Behavior::MergedWithPrevious => is_match && last_match == Some(false),
            Behavior::MergedWithNext => !is_match && last_match == Some(true),
            Behavior::Contiguous => last_match == Some(is_match),
        };
        last_match = Some(is_match);
        match &mut open {
            Some(open) if joins => open.end = range.end,
            _ => open.replace(range).into_iter().for_each(&mut piece),
        }
    });
    open.into_iter().for_each(piece);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(step: Step, text: &str) -> Vec<String> {
        let mut words = Vec::new();
        split(&[step], text, true, &mut |w| words.push(w.to_owned()));
        words
    }

    /// From `tokenizers` 0.23: `Split(" ", behavior)` and its inverse on `" a  b "`.
    #[test]
    fn behaviors() {
        for (behavior, want, inverse) in [
            (Behavior::Removed, vec!["a", "b"], vec![" ", " ", " ", " "]),
            (Behavior::Isolated, vec![" ", "a", " ", " ", "b", " "], vec![" ", "a", " ", " ", "b", " "]),
            (Behavior::MergedWithPrevious, vec![" ", "a ", " ", "b "], vec![" a", " ", " b", " "]),
            (Behavior::MergedWithNext, vec![" a", " ", " b", " "], vec![" ", "a ", " ", "b "]),
            (Behavior::Contiguous, vec![" ", "a", "  ", "b", " "], vec![" ", "a", "  ", "b", " "]),
        ] {
            let step = |invert| Step::Split { pattern: Pattern::Literal(" ".into()), behavior, invert };
            assert_eq!(cut(step(false), " a  b "), want, "{behavior:?}");
            assert_eq!(cut(step(true), " a  b "), inverse, "{behavior:?} inverted");
        }
    }

    #[test]
    fn metaspace() {
        let step = |prepend, split| Step::Metaspace { replacement: '▁', prepend, split };
        assert_eq!(cut(step(Prepend::Always, true), "a b  c"), ["▁a", "▁b", "▁", "▁c"]);
        assert_eq!(cut(step(Prepend::Never, true), "a b"), ["a", "▁b"]);
        assert_eq!(cut(step(Prepend::First, false), "a b"), ["▁a▁b"]);
    }
}
