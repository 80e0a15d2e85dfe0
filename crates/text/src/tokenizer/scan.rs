//! Hand-written scanners for the regular expressions with which published byte-level vocabularies cut text into words.
//!
//! Each gives exactly the matches of its expression (the tests compare them with `fancy-regex` on random text) in one pass,
//! without backtracking: where an expression would give characters back, the scanner remembers the last place that it could
//! have stopped at.

use super::category::is_word;
use super::unicode::{CASELESS, Class, Classes, LETTER, LOWER, MARK, NUMBER, PUNCTUATION, SPACE, SYMBOL, UPPER};
use std::ops::Range;

/// One of the known expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scanner {
    /// GPT-2's.
    Gpt2,
    /// cl100k's and its relatives: `letters` make words, at most `digits` numbers make one word.
    Words { letters: Class, digits: usize },
    /// o200k's and its relatives: words end where a small letter is followed by a capital.
    Cased { contractions: bool, digits: usize },
    /// The last of DeepSeek-V3's three.
    DeepSeek,
    /// A run of at most `max` numbers.
    Numbers { max: usize },
    /// A run of Chinese characters or kana, as DeepSeek-V3 has them.
    HanKana,
    /// A run of word characters, or of others that are no white space.
    WordsAndSymbols,
}

/// GPT-2's expression (Radford et al. 2019, `encoder.py`), also what a `ByteLevel` pre-tokenizer uses.
pub(crate) const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// Llama 3's and cl100k's.
pub(crate) const LLAMA3: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Qwen 2's and 3's.
pub(crate) const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Qwen 3.5's.
pub(crate) const QWEN35: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// GPT-4o's and gpt-oss's.
pub(crate) const O200K: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
/// Mistral's tekken.
pub(crate) const TEKKEN: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|",
    r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
/// DeepSeek-V3's three, in order.
pub(crate) const DEEPSEEK: [&str; 3] = [
    DIGITS_3,
    "[一-龥\u{3040}-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
];
/// Up to three numbers.
pub(crate) const DIGITS_3: &str = r"\p{N}{1,3}";
/// What the pre-tokenizer `Whitespace` finds.
const WORDS_AND_SYMBOLS: &str = r"\w+|[^\w\s]+";
/// Each number.
pub(crate) const DIGIT: &str = r"\p{N}";

/// The expressions that have a scanner.
const KNOWN: &[(&str, Scanner)] = &[
    (GPT2, Scanner::Gpt2),
    (LLAMA3, Scanner::Words { letters: LETTER, digits: 3 }),
    (QWEN2, Scanner::Words { letters: LETTER, digits: 1 }),
    (QWEN35, Scanner::Words { letters: LETTER | MARK, digits: 1 }),
    (O200K, Scanner::Cased { contractions: true, digits: 3 }),
    (TEKKEN, Scanner::Cased { contractions: false, digits: 1 }),
    (DEEPSEEK[1], Scanner::HanKana),
    (DEEPSEEK[2], Scanner::DeepSeek),
    (DIGITS_3, Scanner::Numbers { max: 3 }),
    (DIGIT, Scanner::Numbers { max: 1 }),
    (WORDS_AND_SYMBOLS, Scanner::WordsAndSymbols),
];

impl Scanner {
    /// The scanner for an expression, where there is one.
    pub(crate) fn for_pattern(pattern: &str) -> Option<Self> {
        KNOWN.iter().find(|(known, _)| *known == pattern).map(|(_, scanner)| *scanner)
    }

    /// The first match at or after the byte `at` of `text`, never empty.
    #[inline]
    pub(crate) fn find(self, classes: Classes, text: &str, at: usize) -> Option<Range<usize>> {
        let mut start = at;
        while start < text.len() {
            let cursor = Cursor { classes, text: &text[start..] };
            let len = match self {
                Self::Gpt2 => cursor.gpt2(),
                Self::Words { letters, digits } => cursor.words(letters, digits),
                Self::Cased { contractions, digits } => cursor.cased(contractions, digits),
                Self::DeepSeek => cursor.deepseek(),
                Self::Numbers { max } => cursor.run_of(0, max, |class, _| class & NUMBER != 0),
                Self::WordsAndSymbols => cursor.words_and_symbols(),
                Self::HanKana => cursor.run_of(0, usize::MAX, |_, c| matches!(c, '一'..='龥' | '\u{3040}'..='ヿ')),
            };
            if len > 0 {
                return Some(start..start + len);
            }
            start += cursor.at(0).1;
        }
        None
    }
}

/// Text whose start is to be matched. All its methods give a length in bytes, 0 for no match.
#[derive(Clone, Copy)]
struct Cursor<'a> {
    classes: Classes,
    text: &'a str,
}

impl Cursor<'_> {
    /// Classes and length of the character at byte `at`.
    #[inline]
    fn at(self, at: usize) -> (Class, usize) {
        self.classes.first(&self.text[at..])
    }
    fn byte(self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }
    /// Where the run of characters in `class` that starts at `at` ends.
    #[inline]
    fn run(self, at: usize, class: Class) -> usize {
        let mut end = at;
        loop {
            let (found, len) = self.at(end);
            if len == 0 || found & class == 0 {
                return end;
            }
            end += len;
        }
    }
    /// Where the run of at most `max` characters that starts at `at` ends.
    fn run_of(self, at: usize, max: usize, is_in: impl Fn(Class, char) -> bool) -> usize {
        self.text[at..]
            .char_indices()
            .enumerate()
            .find(|&(n, (_, c))| n >= max || !is_in(self.classes.of(c), c))
            .map_or(self.text.len(), |(_, (i, _))| at + i)
    }
    /// Where the run of characters in none of the classes that starts at `at` ends.
    #[inline]
    fn run_outside(self, at: usize, class: Class) -> usize {
        let mut end = at;
        loop {
            let (found, len) = self.at(end);
            if len == 0 || found & class != 0 {
                return end;
            }
            end += len;
        }
    }
    /// Where the run of these bytes that starts at `at` ends.
    fn run_bytes(self, at: usize, bytes: &[u8]) -> usize {
        at + self.text.as_bytes()[at..].iter().take_while(|b| bytes.contains(b)).count()
    }

    /// `'s|'t|'re|'ve|'m|'ll|'d` at `at`; without regard to case (where `ſ` is an `s`) if asked.
    fn contraction(self, at: usize, any_case: bool) -> usize {
        if self.byte(at) != Some(b'\'') {
            return 0;
        }
        let fold = |b: Option<u8>| b.map(|b| if any_case { b.to_ascii_lowercase() } else { b });
        match (fold(self.byte(at + 1)), fold(self.byte(at + 2))) {
            (Some(b's' | b't' | b'm' | b'd'), _) => 2,
            (Some(b'r' | b'v'), Some(b'e')) | (Some(b'l'), Some(b'l')) => 3,
            _ if any_case && self.text[at + 1..].starts_with('ſ') => 1 + 'ſ'.len_utf8(),
            _ => 0,
        }
    }

    /// `\s*[\r\n]+|\s+(?!\S)|\s+`, the first part only where `lines`.
    fn spaces(self, lines: bool) -> usize {
        let (mut end, mut last, mut line_end) = (0, 0, 0);
        loop {
            let (class, len) = self.at(end);
            if len == 0 || class & SPACE == 0 {
                break;
            }
            last = end;
            end += len;
            if matches!(self.byte(last), Some(b'\r' | b'\n')) {
                line_end = end;
            }
        }
        if lines && line_end > 0 {
            line_end
        } else if end == self.text.len() || last == 0 {
            end
        } else {
            // The last space stays with the word that follows.
            last
        }
    }

    fn words_and_symbols(self) -> usize {
        let word = self.run_of(0, usize::MAX, |_, c| is_word(c));
        if word > 0 { word } else { self.run_of(0, usize::MAX, |class, c| class & SPACE == 0 && !is_word(c)) }
    }

    fn gpt2(self) -> usize {
        let contraction = self.contraction(0, false);
        if contraction > 0 {
            return contraction;
        }
        let start = usize::from(self.byte(0) == Some(b' '));
        let (class, len) = self.at(start);
        if len == 0 || class & SPACE != 0 {
            self.spaces(false)
        } else if class & LETTER != 0 {
            self.run(start + len, LETTER)
        } else if class & NUMBER != 0 {
            self.run(start + len, NUMBER)
        } else {
            self.run_outside(start + len, SPACE | LETTER | NUMBER)
        }
    }

    fn words(self, letters: Class, digits: usize) -> usize {
        let (class, len) = self.at(0);
        if class & letters != 0 {
            return self.run(len, letters);
        }
        let contraction = self.contraction(0, true);
        if contraction > 0 {
            return contraction;
        }
        if class & NUMBER != 0 {
            return self.run_of(0, digits, |class, _| class & NUMBER != 0);
        }
        if !matches!(self.byte(0), Some(b'\r' | b'\n')) {
            let (next, next_len) = self.at(len);
            if next & letters != 0 {
                return self.run(len + next_len, letters);
            }
        }
        self.symbols(letters | NUMBER | SPACE, b"\r\n")
    }

    /// ` ?[^OUTSIDE]+[TAIL]*`, else white space.
    fn symbols(self, outside: Class, tail: &[u8]) -> usize {
        let start = usize::from(self.byte(0) == Some(b' '));
        let end = self.run_outside(start, outside);
        if end > start { self.run_bytes(end, tail) } else { self.spaces(true) }
    }

    fn cased(self, contractions: bool, digits: usize) -> usize {
        let (class, len) = self.at(0);
        let prefix = if class & (LETTER | NUMBER) == 0 && !matches!(self.byte(0), Some(b'\r' | b'\n')) { len } else { 0 };
        let word =
            [self.small_word(prefix), self.small_word(0), self.capital_word(prefix), self.capital_word(0)].into_iter().find(|&end| end > 0);
        if let Some(end) = word {
            return if contractions { end + self.contraction(end, true) } else { end };
        }
        if class & NUMBER != 0 {
            return self.run_of(0, digits, |class, _| class & NUMBER != 0);
        }
        self.symbols(LETTER | NUMBER | SPACE, b"\r\n/")
    }
    /// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+` at `start`: where it ends.
    fn small_word(self, start: usize) -> usize {
        let (mut end, mut last_uncased) = (start, 0);
        loop {
            let (class, len) = self.at(end);
            if len == 0 || class & (UPPER | CASELESS | MARK) == 0 {
                break;
            }
            end += len;
            if class & (CASELESS | MARK) != 0 {
                last_uncased = end;
            }
        }
        let small = self.run(end, LOWER | CASELESS | MARK);
        // Without a small letter after them, the capitals give back all that follows the last letter without case.
        if small > end { small } else { last_uncased }
    }
    /// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*` at `start`: where it ends.
    fn capital_word(self, start: usize) -> usize {
        let end = self.run(start, UPPER | CASELESS | MARK);
        if end > start { self.run(end, LOWER | CASELESS | MARK) } else { 0 }
    }

    fn deepseek(self) -> usize {
        let (class, len) = self.at(0);
        if self.byte(0).is_some_and(|b| b.is_ascii_punctuation()) {
            let end = 1 + self.text.as_bytes()[1..].iter().take_while(|b| b.is_ascii_alphabetic()).count();
            if end > 1 {
                return end;
            }
        }
        let letters = LETTER | MARK;
        if class & letters != 0 {
            return self.run(len, letters);
        }
        if class & (PUNCTUATION | SYMBOL) == 0 && !matches!(self.byte(0), Some(b'\r' | b'\n')) {
            let (next, next_len) = self.at(len);
            if next & letters != 0 {
                return self.run(len + next_len, letters);
            }
        }
        let start = usize::from(self.byte(0) == Some(b' '));
        let end = self.run(start, PUNCTUATION | SYMBOL);
        if end > start { self.run_bytes(end, b"\r\n") } else { self.spaces(true) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::LazyLock;

    /// Characters at which the expressions differ, among others.
    fn text() -> impl Strategy<Value = String> {
        let edge = prop::sample::select(
            "aZsStTrReEvVmMlLdD'ſK''’ \t\n\r\u{b}\u{85}\u{a0}\u{2028}\u{3000}09١²Ⅷ.,/_-+<|$€«é\u{301}\u{93f}ǅʰªßΣ漢龥龦ぁゟ゠ヿㄅ한👍\u{fe0f}\u{200d}\u{200b}\0\u{7f}\u{e000}"
                .chars()
                .collect::<Vec<_>>(),
        );
        let any = prop_oneof![8 => edge, 1 => any::<char>()];
        prop::collection::vec(any, 0..40).prop_map(String::from_iter)
    }

    static REGEXES: LazyLock<Vec<fancy_regex::Regex>> =
        LazyLock::new(|| KNOWN.iter().map(|(p, _)| fancy_regex::Regex::new(p).unwrap()).collect());

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn same_matches_as_the_expression(text in text()) {
            for ((_, scanner), regex) in KNOWN.iter().zip(REGEXES.iter()) {
                let want: Vec<_> = regex.find_iter(&text).map(|m| m.unwrap().range()).collect();
                let mut got = Vec::new();
                let mut at = 0;
                while let Some(found) = scanner.find(Classes::get(), &text, at) {
                    at = found.end;
                    got.push(found);
                }
                prop_assert_eq!(got, want, "{:?} {:?}", scanner, &text);
            }
        }
    }
}
