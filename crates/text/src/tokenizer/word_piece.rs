//! WordPiece (Schuster and Nakajima 2012; Wu et al. 2016, arXiv:1609.08144) as BERT uses it: a word is the longest token that
//! it starts with, then the longest continuation of the rest, and so on; a word that cannot be cut so is unknown.

use super::{
    strings::{Index, Strings},
    trie::Trie,
};

/// The model.
#[derive(Debug)]
pub(crate) struct WordPiece {
    /// What a word can start with.
    starts: Trie,
    /// What can follow, without the prefix of continuations.
    continuations: Trie,
    unknown: u32,
    /// Words of more characters are unknown.
    longest_word: usize,
}

/// Words of more characters are unknown, where the file does not say.
pub const LONGEST_WORD: usize = 100;

impl WordPiece {
    /// `index` finds the model's tokens in `texts`; those that continue a word start with `prefix`.
    pub(crate) fn new(texts: &Strings, index: &Index, prefix: &str, unknown: u32, longest_word: usize) -> Self {
        let all = || (0u32..).zip(texts.iter()).filter(|&(id, text)| index.get(texts, text) == Some(id));
        let starts = all().map(|(id, text)| (text, id));
        let continuations = all().filter_map(|(id, text)| Some((text.strip_prefix(prefix.as_bytes())?, id)));
        Self::from_pieces(starts, continuations, unknown, longest_word)
    }

    /// From the tokens that can start a word, and those that can follow.
    pub(crate) fn from_pieces<'a>(
        starts: impl Iterator<Item = (&'a [u8], u32)>,
        continuations: impl Iterator<Item = (&'a [u8], u32)>,
        unknown: u32,
        longest_word: usize,
    ) -> Self {
        Self { starts: Trie::new(starts), continuations: Trie::new(continuations), unknown, longest_word }
    }

    /// Appends the tokens of one word.
    pub(crate) fn encode(&self, word: &str, out: &mut Vec<u32>) {
        let first = out.len();
        if word.len() > self.longest_word && word.chars().count() > self.longest_word {
            return out.push(self.unknown);
        }
        let mut rest = word.as_bytes();
        while !rest.is_empty() {
            let trie = if rest.len() == word.len() { &self.starts } else { &self.continuations };
            let Some((length, id)) = trie.longest_prefix(rest) else {
                out.truncate(first);
                return out.push(self.unknown);
            };
            out.push(id);
            rest = &rest[length..];
        }
    }
}
