//! What SentencePiece does to text before it is cut into tokens (its `normalizer.cc`).

use super::{charsmap::Charsmap, trie::Trie};

/// The mark of a space.
const SPACE: &str = "▁";

/// How a model treats white space, and what it replaces.
#[derive(Debug)]
pub(crate) struct Whitespace {
    /// What is replaced first.
    pub charsmap: Option<Charsmap>,
    /// Texts that nothing is done to: those of user-defined tokens.
    pub kept: Option<Trie>,
    /// Texts begin with a space (or end with one, where `suffix`).
    pub dummy: bool,
    /// Only one of neighbouring spaces is left, and none at the ends.
    pub merge: bool,
    /// Spaces are written as `▁`.
    pub escape: bool,
    pub suffix: bool,
}

impl Whitespace {
    /// By how much text can grow, at most.
    pub(crate) fn growth(&self) -> usize {
        let charsmap = self.charsmap.as_ref().map_or(1, Charsmap::growth);
        if self.escape { charsmap.max(SPACE.len()) } else { charsmap }
    }

    /// What `text` starts with after replacement, and the bytes of `text` that it stands for.
    fn prefix<'a>(&'a self, text: &'a str) -> (&'a str, usize) {
        let bytes = text.as_bytes();
        if let Some((length, _)) = self.kept.as_ref().and_then(|kept| kept.longest_prefix(bytes)) {
            return (&text[..length], length);
        }
        if let Some((length, replacement)) = self.charsmap.as_ref().and_then(|map| map.longest(bytes))
            && text.is_char_boundary(length)
        {
            return (replacement, length);
        }
        let length = text.chars().next().map_or(0, char::len_utf8);
        (&text[..length], length)
    }

    pub(crate) fn normalize(&self, text: &str) -> String {
        let mut rest = text;
        let space = if self.escape { SPACE } else { " " };
        while self.merge && !rest.is_empty() {
            let (prefix, length) = self.prefix(rest);
            if prefix != " " {
                break;
            }
            rest = &rest[length..];
        }
        let mut out = String::with_capacity(rest.len() + rest.len() / 2);
        if rest.is_empty() {
            return out;
        }
        if self.dummy && !self.suffix {
            out.push_str(space);
        }
        let mut after_space = self.merge;
        while !rest.is_empty() {
            let (mut prefix, length) = self.prefix(rest);
            if after_space {
                prefix = prefix.trim_start_matches(' ');
            }
            if !prefix.is_empty() {
                after_space = self.merge && prefix.ends_with(' ');
                if self.escape && prefix.contains(' ') { out.push_str(&prefix.replace(' ', SPACE)) } else { out.push_str(prefix) }
            }
            rest = &rest[length..];
        }
        if self.merge {
            out.truncate(out.trim_end_matches(space).len());
        }
        if self.dummy && self.suffix {
            out.push_str(space);
        }
        out
    }
}
