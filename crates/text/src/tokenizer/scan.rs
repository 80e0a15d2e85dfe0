//! Hand-written scanners for the regular expressions with which published byte-level vocabularies cut text into words.
//!
//! Each gives exactly the matches of its expression (the tests compare them with `fancy-regex` on random text) in one pass,
//! without backtracking: where an expression would give characters back, the scanner remembers the last place that it could
//! have stopped at.

use super::category::is_word;
use super::unicode::{CASELESS, Class, Classes, HAN, LETTER, LOWER, MARK, NUMBER, PUNCTUATION, SPACE, SYMBOL, UPPER};
use std::ops::Range;

/// One of the known expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scanner {
    /// GPT-2's.
    Gpt2,
    /// cl100k's and its relatives: `letters` make words, at most `digits` numbers make one word, symbols take the bytes in
    /// `tail` that follow.
    Words { letters: Class, contractions: bool, digits: usize, tail: &'static [u8] },
    /// cl100k's own: as Llama 3's, but white space at the end is one.
    Cl100k,
    /// o200k's and its relatives: words end where a small letter is followed by a capital. Chinese characters are words of
    /// their own where `han`.
    Cased { han: bool, contractions: bool, digits: usize, tail: &'static [u8] },
    /// The last of DeepSeek-V3's three; each line end by itself where not `lines`.
    DeepSeek { lines: bool },
    /// EXAONE MoE's: words with single spaces between them are one.
    Phrases,
    /// A run of at most `max` numbers.
    Numbers { max: usize },
    /// A run of Chinese characters or kana, as DeepSeek-V3 has them.
    HanKana,
    /// Three digits of ASCII, as Falcon has them.
    ThreeDigits,
    /// A run of word characters, or of others that are no white space.
    WordsAndSymbols,
}

/// GPT-2's expression (Radford et al. 2019, `encoder.py`), also what a `ByteLevel` pre-tokenizer uses.
pub(crate) const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// Llama 3's and cl100k's.
pub(crate) const LLAMA3: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// cl100k's, as tiktoken has it.
pub(crate) const CL100K: &str =
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s";
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
/// Three digits of ASCII.
pub(crate) const THREE_DIGITS: &str = "[0-9][0-9][0-9]";
/// Each number.
pub(crate) const DIGIT: &str = r"\p{N}";

/// Kimi K2's (`tokenization_kimi.py`).
pub(crate) const KIMI: &str = concat!(
    r"[\p{Han}]+|",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
/// o200k's, with each number by itself.
pub(crate) const O200K_DIGIT: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
/// Llama 3's, with all neighbouring numbers as one.
pub(crate) const LLAMA3_NUMBERS: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Qwen 2's, without English contractions.
pub(crate) const QWEN2_NO_CONTRACTIONS: &str = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Bailing's (Ling's), which finds what Qwen 2's does.
pub(crate) const BAILING: &str =
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+";
/// Seed-Coder's.
pub(crate) const SEED: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+";
/// EXAONE MoE's.
pub(crate) const EXAONE_MOE: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}|",
    r" ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+",
);
/// The third of Spark 2.5's.
pub(crate) const SPARK: &str = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+|[\r\n]|\\s+(?!\\S)|\\s+";

const LINES: &[u8] = b"\r\n";
const LINES_AND_SLASHES: &[u8] = b"\r\n/";
const LLAMA: Scanner = Scanner::Words { letters: LETTER, contractions: true, digits: 3, tail: LINES };
const QWEN: Scanner = Scanner::Words { letters: LETTER, contractions: true, digits: 1, tail: LINES };

/// The expressions that have a scanner.
const KNOWN: &[(&str, Scanner)] = &[
    (GPT2, Scanner::Gpt2),
    (LLAMA3, LLAMA),
    (LLAMA3_NUMBERS, Scanner::Words { letters: LETTER, contractions: true, digits: usize::MAX, tail: LINES }),
    (CL100K, Scanner::Cl100k),
    (QWEN2, QWEN),
    (BAILING, QWEN),
    (QWEN2_NO_CONTRACTIONS, Scanner::Words { letters: LETTER, contractions: false, digits: 1, tail: LINES }),
    (QWEN35, Scanner::Words { letters: LETTER | MARK, contractions: true, digits: 1, tail: LINES }),
    (SEED, Scanner::Words { letters: LETTER, contractions: true, digits: 1, tail: b"" }),
    (O200K, Scanner::Cased { han: false, contractions: true, digits: 3, tail: LINES_AND_SLASHES }),
    (O200K_DIGIT, Scanner::Cased { han: false, contractions: true, digits: 1, tail: LINES_AND_SLASHES }),
    (TEKKEN, Scanner::Cased { han: false, contractions: false, digits: 1, tail: LINES_AND_SLASHES }),
    (KIMI, Scanner::Cased { han: true, contractions: true, digits: 3, tail: LINES }),
    (EXAONE_MOE, Scanner::Phrases),
    (DEEPSEEK[1], Scanner::HanKana),
    (DEEPSEEK[2], Scanner::DeepSeek { lines: true }),
    (SPARK, Scanner::DeepSeek { lines: false }),
    (DIGITS_3, Scanner::Numbers { max: 3 }),
    (DIGIT, Scanner::Numbers { max: 1 }),
    (THREE_DIGITS, Scanner::ThreeDigits),
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
        if self == Self::ThreeDigits {
            let found = text.as_bytes()[at..].windows(3).position(|three| three.iter().all(u8::is_ascii_digit))?;
            return Some(at + found..at + found + 3);
        }
        let mut start = at;
        while start < text.len() {
            let cursor = Cursor { classes, text: &text[start..] };
            let len = match self {
                Self::Gpt2 => cursor.gpt2(),
                Self::Words { letters, contractions, digits, tail } => cursor.words(letters, contractions, digits, tail),
                Self::Cased { han, contractions, digits, tail } => cursor.cased(han, contractions, digits, tail),
                Self::DeepSeek { lines } => cursor.deepseek(lines),
                Self::Cl100k => match cursor.run(0, SPACE) {
                    end if end == cursor.text.len() => end,
                    _ => cursor.words(LETTER, true, 3, LINES),
                },
                Self::Phrases => cursor.phrases(),
                Self::Numbers { max } => cursor.run_of(0, max, |class, _| class & NUMBER != 0),
                Self::ThreeDigits => 0,
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
        self.run_of_class(at, class, 0)
    }
    /// Where the run of characters in `class`, but in none of the classes `not`, that starts at `at` ends.
    #[inline]
    fn run_of_class(self, at: usize, class: Class, not: Class) -> usize {
        let mut end = at;
        loop {
            let (found, len) = self.at(end);
            if found & class == 0 || found & not != 0 {
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

    fn words(self, letters: Class, contractions: bool, digits: usize, tail: &[u8]) -> usize {
        let (class, len) = self.at(0);
        if class & letters != 0 {
            return self.run(len, letters);
        }
        let contraction = self.contraction(0, true);
        if contractions && contraction > 0 {
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
        self.symbols(letters | NUMBER | SPACE, tail)
    }

    fn phrases(self) -> usize {
        let contraction = self.contraction(0, true);
        if contraction > 0 {
            return contraction;
        }
        let (class, len) = self.at(0);
        let prefix = if class & (LETTER | NUMBER) == 0 && !matches!(self.byte(0), Some(b'\r' | b'\n')) { len } else { 0 };
        let (class, len) = self.at(prefix);
        if class & LETTER != 0 {
            let mut end = prefix + len;
            loop {
                end = self.run(end, LETTER | MARK);
                let (next, len) = if self.byte(end) == Some(b' ') { self.at(end + 1) } else { (0, 0) };
                if next & LETTER == 0 {
                    return end;
                }
                end += 1 + len;
            }
        }
        let (class, len) = self.at(0);
        if class & NUMBER != 0 {
            return len;
        }
        let start = usize::from(self.byte(0) == Some(b' '));
        let end = self.run_outside(start, LETTER | NUMBER | SPACE);
        if end > start { end + usize::from(matches!(self.byte(end), Some(b'\r' | b'\n' | b'/'))) } else { self.spaces(true) }
    }

    /// ` ?[^OUTSIDE]+[TAIL]*`, else white space.
    fn symbols(self, outside: Class, tail: &[u8]) -> usize {
        let start = usize::from(self.byte(0) == Some(b' '));
        let end = self.run_outside(start, outside);
        if end > start { self.run_bytes(end, tail) } else { self.spaces(true) }
    }

    fn cased(self, han: bool, contractions: bool, digits: usize, tail: &[u8]) -> usize {
        let (class, len) = self.at(0);
        let not = if han { HAN } else { 0 };
        if class & not != 0 {
            return self.run(len, HAN);
        }
        let prefix = if class & (LETTER | NUMBER) == 0 && !matches!(self.byte(0), Some(b'\r' | b'\n')) { len } else { 0 };
        let small = [prefix, 0].map(|start| self.small_word(start, not)).into_iter();
        let capital = [prefix, 0].map(|start| self.capital_word(start, not));
        let word = small.chain(capital).find(|&end| end > 0);
        if let Some(end) = word {
            return if contractions { end + self.contraction(end, true) } else { end };
        }
        if class & NUMBER != 0 {
            return self.run_of(0, digits, |class, _| class & NUMBER != 0);
        }
        self.symbols(LETTER | NUMBER | SPACE, tail)
    }
    /// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+` at `start`, of
    /// characters that are in none of the classes `not`: where it ends.
    fn small_word(self, start: usize, not: Class) -> usize {
        let (mut end, mut last_uncased) = (start, 0);
        loop {
            let (class, len) = self.at(end);
            if class & (UPPER | CASELESS | MARK) == 0 || class & not != 0 {
                break;
            }
            end += len;
            if class & (CASELESS | MARK) != 0 {
                last_uncased = end;
            }
        }
        let small = self.run_of_class(end, LOWER | CASELESS | MARK, not);
        // Without a small letter after them, the capitals give back all that follows the last letter without case.
        if small > end { small } else { last_uncased }
    }
    /// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*` at `start`, as above.
    fn capital_word(self, start: usize, not: Class) -> usize {
        let end = self.run_of_class(start, UPPER | CASELESS | MARK, not);
        if end > start { self.run_of_class(end, LOWER | CASELESS | MARK, not) } else { 0 }
    }

    fn deepseek(self, lines: bool) -> usize {
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
        match (end > start, lines) {
            (true, true) => self.run_bytes(end, LINES),
            (true, false) => end,
            (false, false) if matches!(self.byte(0), Some(b'\r' | b'\n')) => 1,
            (false, lines) => self.spaces(lines),
        }
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
