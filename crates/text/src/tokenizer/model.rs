//! The kinds of models: what gives the tokens of a word.

use super::{
    bpe::{self, Bpe},
    cache::Cache,
    greedy::Greedy,
    lattice::Lattice,
    strings::{Index, Strings},
    unigram::{self, Unigram},
    word_piece::WordPiece,
};

/// A model of any kind.
#[derive(Debug)]
pub(crate) enum Model {
    Bpe(Box<Bpe>),
    Unigram(Unigram),
    WordPiece(WordPiece),
    Words(Words),
    Greedy(Greedy),
    Lattice(Lattice),
    /// No text has tokens.
    None,
}

/// A word is a token, or unknown.
#[derive(Debug)]
pub(crate) struct Words {
    index: Index,
    unknown: u32,
}

impl Words {
    /// `index` finds the model's tokens.
    pub(crate) fn new(index: Index, unknown: u32) -> Self {
        Self { index, unknown }
    }
}

/// Memory that is reused from word to word.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    cache: Cache,
    bpe: bpe::Work,
    unigram: unigram::Work,
}

impl Model {
    /// Appends the tokens of one word; `texts` are the vocabulary's.
    pub(crate) fn encode(&self, texts: &Strings, word: &str, scratch: &mut Scratch, out: &mut Vec<u32>) {
        let Scratch { cache, bpe, unigram } = scratch;
        match self {
            Self::Bpe(model) => model.encode(word, cache, bpe, out),
            Self::Unigram(model) => cache.encode(word, out, |out| model.encode(word, unigram, out)),
            Self::WordPiece(model) => cache.encode(word, out, |out| model.encode(word, out)),
            Self::Words(model) => out.push(model.index.get(texts, word.as_bytes()).unwrap_or(model.unknown)),
            Self::Greedy(model) => model.encode(word.as_bytes(), out),
            Self::Lattice(model) => model.encode(word, out),
            Self::None => {}
        }
    }
}
