//! RWKV's model ("World" vocabularies): always the longest token that the rest of the text starts with. Tokens are bytes.

use super::trie::Trie;

/// The model.
#[derive(Debug)]
pub(crate) struct Greedy {
    trie: Trie,
    /// What becomes of a byte that no token starts with; it vanishes where there is none.
    unknown: Option<u32>,
}

impl Greedy {
    pub(crate) fn new<'a>(tokens: impl Iterator<Item = (&'a [u8], u32)>, unknown: Option<u32>) -> Self {
        Self { trie: Trie::new(tokens), unknown }
    }

    /// Appends the tokens of a text.
    pub(crate) fn encode(&self, text: &[u8], out: &mut Vec<u32>) {
        let mut rest = text;
        while !rest.is_empty() {
            let (length, id) = self.trie.longest_prefix(rest).map_or((1, self.unknown), |(length, id)| (length, Some(id)));
            out.extend(id);
            rest = &rest[length..];
        }
    }
}
