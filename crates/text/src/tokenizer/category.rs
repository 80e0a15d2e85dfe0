//! Sets of characters that are not needed for each character of each text (those are in [`super::unicode`]): as bits, made
//! from a class in regular-expression syntax.
//!
//! `tokenizers` takes some of its classes from old versions of Unicode; `\p{Age}` brings them back.

use super::unicode::ranges;
use std::sync::LazyLock;

/// A set of characters.
pub(crate) struct Category(Vec<u64>);

impl Category {
    pub(crate) fn new(class: &str) -> Self {
        let mut bits = vec![0; 0x11_0000 / 64];
        for (first, last) in ranges(class) {
            (first as usize..=last as usize).for_each(|c| bits[c / 64] |= 1 << (c % 64));
        }
        Self(bits)
    }
    pub(crate) fn has(&self, c: char) -> bool {
        self.0[c as usize / 64] >> (c as usize % 64) & 1 != 0
    }
}

/// BERT's punctuation (`unicode_categories`, Unicode 8): what is neither letter, digit nor space in ASCII, and `\p{P}`.
pub(crate) fn is_punctuation(c: char) -> bool {
    static OTHERS: LazyLock<Category> = LazyLock::new(|| Category::new(r"[\p{P}&&\p{Age=8.0}]"));
    c.is_ascii_punctuation() || (!c.is_ascii() && OTHERS.has(c))
}

/// What BERT's cleaning removes: controls, formats, private use, surrogates; not `\t`, `\n`, `\r`.
pub(crate) fn is_removed_by_bert(c: char) -> bool {
    static CONTROL: LazyLock<Category> = LazyLock::new(|| Category::new(r"[[\p{Cc}\p{Cf}\p{Co}\uFFFD&&\p{Age=8.0}]--[\t\n\r]]"));
    CONTROL.has(c)
}

/// Marks that take no space, `\p{Mn}`, as BERT removes them.
pub(crate) fn is_accent(c: char) -> bool {
    static MARKS: LazyLock<Category> = LazyLock::new(|| Category::new(r"[\p{Mn}&&\p{Age=8.0}]"));
    c >= '\u{300}' && MARKS.has(c)
}

/// `\w`.
pub(crate) fn is_word(c: char) -> bool {
    static WORD: LazyLock<Category> = LazyLock::new(|| Category::new(r"\w"));
    WORD.has(c)
}

/// `\d`.
pub(crate) fn is_decimal(c: char) -> bool {
    static DECIMAL: LazyLock<Category> = LazyLock::new(|| Category::new(r"\d"));
    DECIMAL.has(c)
}

/// Chinese characters as BERT has them (with a hole before U+2B920, as in the original).
pub(crate) fn is_chinese(c: char) -> bool {
    matches!(c,
        '\u{4e00}'..='\u{9fff}' | '\u{3400}'..='\u{4dbf}' | '\u{20000}'..='\u{2a6df}' | '\u{2a700}'..='\u{2b73f}'
        | '\u{2b740}'..='\u{2b81f}' | '\u{2b920}'..='\u{2ceaf}' | '\u{f900}'..='\u{faff}' | '\u{2f800}'..='\u{2fa1f}')
}
