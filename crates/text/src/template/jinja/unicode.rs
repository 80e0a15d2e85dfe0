//! What Python says about characters.

use regex_syntax::hir::{Class, ClassUnicode, HirKind};
use std::sync::LazyLock;

/// White space, as `str.isspace` has it: also the separators U+001C to U+001F.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// What `str.splitlines` splits at.
pub(super) fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Whether `repr` writes it as it is.
pub(super) fn is_printable(c: char) -> bool {
    static OTHERS: LazyLock<Set> = LazyLock::new(|| Set::new(r"[\p{Other}\p{Separator}]"));
    matches!(c, ' '..='~') || !OTHERS.has(c)
}

/// Letters, as `str.isalpha` has them.
pub(super) fn is_letter(c: char) -> bool {
    static LETTERS: LazyLock<Set> = LazyLock::new(|| Set::new(r"\p{Letter}"));
    c.is_ascii_alphabetic() || LETTERS.has(c)
}

/// Decimal digits, as `str.isdecimal` has them.
pub(super) fn is_decimal(c: char) -> bool {
    static DIGITS: LazyLock<Set> = LazyLock::new(|| Set::new(r"\p{Nd}"));
    c.is_ascii_digit() || DIGITS.has(c)
}

/// Numbers of any kind, as `str.isnumeric` has them.
pub(super) fn is_numeric(c: char) -> bool {
    c.is_numeric()
}

/// Characters, as ranges in order.
struct Set(Vec<(char, char)>);

impl Set {
    /// From a class of a regular expression.
    fn new(class: &str) -> Self {
        let parsed = regex_syntax::parse(class).map(|hir| hir.into_kind());
        let class = match parsed {
            Ok(HirKind::Class(Class::Unicode(class))) => class,
            _ => ClassUnicode::empty(),
        };
        Self(class.ranges().iter().map(|range| (range.start(), range.end())).collect())
    }

    fn has(&self, c: char) -> bool {
        let i = self.0.partition_point(|(_, end)| *end < c);
        self.0.get(i).is_some_and(|(start, _)| *start <= c)
    }
}
