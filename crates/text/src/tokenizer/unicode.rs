//! Unicode classes of characters, as the regular expressions of pre-tokenizers use them.
//!
//! Flags for each character, in a two-stage table that is made once from `regex-syntax`'s tables, so that the
//! hand-written scanners and the general regular expressions agree on every character.

use std::sync::LazyLock;

/// A set of classes.
pub(crate) type Class = u16;

/// `\p{Lu}`, `\p{Lt}`: capitals.
pub(crate) const UPPER: Class = 1;
/// `\p{Ll}`: small letters.
pub(crate) const LOWER: Class = 2;
/// `\p{Lm}`, `\p{Lo}`: letters without case.
pub(crate) const CASELESS: Class = 4;
/// `\p{M}`: marks.
pub(crate) const MARK: Class = 8;
/// `\p{N}`: numbers of all kinds.
pub(crate) const NUMBER: Class = 16;
/// `\s`: white space.
pub(crate) const SPACE: Class = 32;
/// `\p{P}`: punctuation.
pub(crate) const PUNCTUATION: Class = 64;
/// `\p{S}`: symbols.
pub(crate) const SYMBOL: Class = 128;
/// `\p{Han}`: Chinese characters, in any of the other classes.
pub(crate) const HAN: Class = 256;
/// `\p{L}`.
pub(crate) const LETTER: Class = UPPER | LOWER | CASELESS;

const CLASSES: [(Class, &str); 9] = [
    (UPPER, r"[\p{Lu}\p{Lt}]"),
    (LOWER, r"\p{Ll}"),
    (CASELESS, r"[\p{Lm}\p{Lo}]"),
    (MARK, r"\p{M}"),
    (NUMBER, r"\p{N}"),
    (SPACE, r"\s"),
    (PUNCTUATION, r"\p{P}"),
    (SYMBOL, r"\p{S}"),
    (HAN, r"\p{Han}"),
];

const BLOCK: usize = 256;

struct Table {
    /// For each block of 256 characters, where its flags start in `flags`.
    blocks: Vec<u16>,
    flags: Vec<[Class; BLOCK]>,
    ascii: [Class; 128],
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut all = vec![0 as Class; 0x11_0000];
    for (class, pattern) in CLASSES {
        for (first, last) in ranges(pattern) {
            all[first as usize..=last as usize].iter_mut().for_each(|flags| *flags |= class);
        }
    }
    let (blocks, _) = all.as_chunks::<BLOCK>();
    let mut flags: Vec<[Class; BLOCK]> = Vec::new();
    let mut seen = std::collections::HashMap::new();
    let blocks = blocks
        .iter()
        .map(|block| {
            *seen.entry(*block).or_insert_with(|| {
                flags.push(*block);
                (flags.len() - 1) as u16
            })
        })
        .collect();
    let mut ascii = [0; 128];
    ascii.copy_from_slice(&all[..128]);
    Table { blocks, flags, ascii }
});

/// The ranges of characters that a class in regular-expression syntax stands for.
pub(crate) fn ranges(pattern: &str) -> Vec<(char, char)> {
    use regex_syntax::hir::{Class, HirKind};
    match regex_syntax::parse(pattern).map(|hir| hir.into_kind()) {
        Ok(HirKind::Class(Class::Unicode(class))) => class.ranges().iter().map(|r| (r.start(), r.end())).collect(),
        _ => Vec::new(),
    }
}

/// Looks classes up; made once for a scan, so that the table's laziness costs nothing for each character.
#[derive(Clone, Copy)]
pub(crate) struct Classes(&'static Table);

impl Classes {
    pub(crate) fn get() -> Self {
        Self(&TABLE)
    }
    /// The classes of `c`; 0 for what is in none of them (control characters, unassigned).
    #[inline]
    pub(crate) fn of(self, c: char) -> Class {
        let c = c as usize;
        self.0.flags[self.0.blocks[c / BLOCK] as usize][c % BLOCK]
    }
    /// The classes of the character at the start of `text`, and its length in bytes; (0, 0) at the end.
    #[inline]
    pub(crate) fn first(self, text: &str) -> (Class, usize) {
        match text.as_bytes().first() {
            None => (0, 0),
            Some(&b) if b < 128 => (self.0.ascii[b as usize], 1),
            Some(_) => text.chars().next().map_or((0, 0), |c| (self.of(c), c.len_utf8())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values from the Unicode Character Database.
    #[test]
    fn known_characters() {
        let classes = Classes::get();
        for (c, want) in [
            ('A', UPPER),
            ('ǅ', UPPER),
            ('z', LOWER),
            ('ß', LOWER),
            ('ʰ', CASELESS),
            ('漢', CASELESS | HAN),
            ('〇', NUMBER | HAN),
            ('\u{301}', MARK),
            ('ः', MARK),
            ('7', NUMBER),
            ('²', NUMBER),
            ('Ⅷ', NUMBER),
            ('१', NUMBER),
            (' ', SPACE),
            ('\u{85}', SPACE),
            ('\u{3000}', SPACE),
            ('\u{b}', SPACE),
            ('_', PUNCTUATION),
            ('«', PUNCTUATION),
            ('+', SYMBOL),
            ('€', SYMBOL),
            ('🤖', SYMBOL),
            ('\u{200b}', 0),
            ('\0', 0),
            ('\u{e000}', 0),
        ] {
            assert_eq!(classes.of(c), want, "{c:?}");
            assert_eq!(classes.first(&c.to_string()), (want, c.len_utf8()));
        }
        assert_eq!(classes.first(""), (0, 0));
    }

    #[test]
    fn spaces_are_rusts() {
        let classes = Classes::get();
        for c in '\0'..=char::MAX {
            assert_eq!(classes.of(c) & SPACE != 0, c.is_whitespace(), "{c:?}");
        }
    }
}
