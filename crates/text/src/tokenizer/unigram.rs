//! The unigram language model (Kudo 2018, arXiv:1804.10959): of all ways to cut a text into tokens, the one whose
//! probabilities have the largest product, found by Viterbi's algorithm.

use super::{
    bytes::ByteTokens,
    strings::{Index, Strings},
    trie::Trie,
};
use crate::{Error, Result};

/// How much less likely than the least likely token an unknown character is (a logarithm), as in SentencePiece.
const UNKNOWN_PENALTY: f64 = 10.0;
/// The mark of a character that is no token; no token has this number.
const NONE: u32 = u32::MAX;
/// The longest token, in bytes.
const TOKEN_LIMIT: usize = 64 << 10;

/// How a file describes the model.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// What becomes of characters that are no token; they vanish where there is none.
    pub unknown: Option<u32>,
    /// They become tokens `<0xAB>` instead, where all of theirs exist.
    pub byte_fallback: bool,
    /// Sums are rounded to `f32`, as SentencePiece does; else they are `f64`, as in `tokenizers`.
    pub single: bool,
}

/// The model.
#[derive(Debug)]
pub(crate) struct Unigram {
    trie: Trie,
    /// By token.
    scores: Vec<f64>,
    /// In bytes, by token.
    lengths: Vec<u32>,
    unknown_score: f64,
    options: Options,
    byte_tokens: ByteTokens,
}

/// Working memory.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// The best sums of the last places, by the place modulo its length.
    sums: Vec<f64>,
    /// For each place, the token that the best way to it ends with.
    last: Vec<u32>,
}

impl Unigram {
    /// `tokens`: those of `texts` that can be found, with their logarithms of probability; `least` is the smallest of those
    /// that count for unknown characters.
    pub(crate) fn new(
        origin: &str,
        texts: &Strings,
        index: &Index,
        tokens: impl Iterator<Item = (u32, f64)>,
        least: f64,
        options: Options,
    ) -> Result<Self> {
        let mut scores = vec![0.0; texts.len()];
        let mut found = Vec::new();
        for (id, score) in tokens {
            if !score.is_finite() {
                return Err(Error::invalid(origin, format!("the score of token {id} is {score}")));
            }
            scores[id as usize] = score;
            found.extend(texts.get(id).filter(|text| str::from_utf8(text).is_ok()).map(|text| (text, id)));
        }
        let trie = Trie::new(found.into_iter());
        if trie.longest() > TOKEN_LIMIT {
            return Err(Error::invalid(origin, format!("a token has {} bytes; at most {TOKEN_LIMIT} are read", trie.longest())));
        }
        let unknown_score = if options.single { f64::from(least as f32 - UNKNOWN_PENALTY as f32) } else { least - UNKNOWN_PENALTY };
        let byte_tokens = if options.byte_fallback { ByteTokens::find(texts, index) } else { ByteTokens::default() };
        let lengths = texts.iter().map(|text| text.len() as u32).collect();
        Ok(Self { trie, scores, lengths, unknown_score, options, byte_tokens })
    }

    /// Appends the tokens of a text.
    pub(crate) fn encode(&self, text: &str, work: &mut Work, out: &mut Vec<u32>) {
        let bytes = text.as_bytes();
        let ring = (self.trie.longest().max(4) + 1).next_power_of_two();
        let mask = ring - 1;
        let Work { sums, last } = work;
        sums.clear();
        sums.resize(ring, f64::NEG_INFINITY);
        last.clear();
        last.resize(bytes.len() + 1, NONE);
        sums[0] = 0.0;
        let round = |sum: f64| if self.options.single { f64::from(sum as f32) } else { sum };
        let mut start = 0;
        while start < bytes.len() {
            let sum = std::mem::replace(&mut sums[start & mask], f64::NEG_INFINITY);
            let width = width(bytes[start]);
            let mut whole = false;
            let mut place = self.trie.root();
            for (at, &byte) in bytes.iter().enumerate().skip(start) {
                let Some(next) = self.trie.next(place, byte) else { break };
                place = next;
                if let Some(id) = self.trie.value(place) {
                    let end = at + 1;
                    let candidate = round(sum + self.scores[id as usize]);
                    if candidate > sums[end & mask] {
                        sums[end & mask] = candidate;
                        last[end] = id;
                    }
                    whole |= end - start == width;
                }
            }
            let end = start + width;
            if !whole {
                let candidate = round(sum + self.unknown_score);
                if candidate > sums[end & mask] {
                    sums[end & mask] = candidate;
                    last[end] = NONE;
                }
            }
            start = end;
        }
        self.trace(text, last, out);
        if last.capacity() > 1 << 20 {
            *last = Vec::new();
        }
    }

    /// Appends the tokens of the best way to the end, which is read from there.
    fn trace(&self, text: &str, last: &[u32], out: &mut Vec<u32>) {
        let first = out.len();
        let mut end = text.len();
        while end > 0 {
            let id = last[end];
            if id != NONE && Some(id) != self.options.unknown {
                out.push(id);
                end -= self.lengths[id as usize] as usize;
                continue;
            }
            // Neighbouring unknown characters are one. The text of the unknown token alone is that token, not bytes.
            let (stop, written) = (end, id != NONE);
            while end > 0 && (last[end] == NONE || Some(last[end]) == self.options.unknown) {
                end = match last[end] {
                    NONE => (0..end).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0),
                    id => end - self.lengths[id as usize] as usize,
                };
            }
            let alone = written && self.lengths[id as usize] as usize == stop - end;
            match self.byte_tokens.of(&text.as_bytes()[end..stop]).filter(|_| !alone) {
                Some(ids) => out.extend(ids.rev()),
                None => out.extend(self.options.unknown),
            }
        }
        out[first..].reverse();
    }
}

/// The length of the character that starts with this byte.
#[inline]
fn width(first: u8) -> usize {
    match first {
        0..0xc0 => 1,
        0xc0..0xe0 => 2,
        0xe0..0xf0 => 3,
        _ => 4,
    }
}
