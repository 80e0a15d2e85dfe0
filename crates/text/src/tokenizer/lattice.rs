//! PLaMo 2's model: of all ways to cut a text into tokens, the one with the largest sum of scores, in whole ten-thousandths,
//! found from the end of the text; what is no token becomes bytes (the model's `tokenization_plamo.py`; llama.cpp's
//! `llm_tokenizer_plamo2`).

use super::{
    bytes::ByteTokens,
    strings::{Index, Strings},
    trie::Trie,
};
use crate::{Error, Result};

/// The score of a character that is no token.
const UNKNOWN: i64 = -10_000_000;
/// Tokens of at most this score are not used.
const INVALID: i64 = -20_000_000;
/// A character that is no token.
const NONE: u32 = u32::MAX;

/// The model.
#[derive(Debug)]
pub(crate) struct Lattice {
    trie: Trie,
    /// By token.
    scores: Vec<i64>,
    byte_tokens: ByteTokens,
}

impl Lattice {
    /// `is_text`: the tokens that stand for text, rather than for a byte.
    pub(crate) fn new(origin: &str, texts: &Strings, index: &Index, scores: &[f32], is_text: impl Fn(u32) -> bool) -> Result<Self> {
        let byte_tokens = ByteTokens::find(texts, index);
        if let Some(byte) = byte_tokens.missing() {
            return Err(Error::invalid(origin, format!("there is no token for the byte {byte}, `<0x{byte:02X}>`")));
        }
        let scores: Vec<i64> =
            scores.iter().map(|score| if score.is_finite() { i64::from((score * 1e4).round() as i32) } else { INVALID }).collect();
        let usable = |id: u32, text: &[u8]| is_text(id) && scores[id as usize] > INVALID && str::from_utf8(text).is_ok();
        let trie = Trie::new((0u32..).zip(texts.iter()).filter(|(id, text)| usable(*id, text)).map(|(id, text)| (text, id)));
        Ok(Self { trie, scores, byte_tokens })
    }

    /// Appends the tokens of a text.
    pub(crate) fn encode(&self, text: &str, out: &mut Vec<u32>) {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let bytes = text.as_bytes();
        // For each place, the largest sum from there to the end, and the length and token that it starts with.
        let mut best = vec![(0i64, 0u32, NONE); bytes.len() + 1];
        for (start, c) in text.char_indices().rev() {
            let mut found: Option<(i64, u32, u32)> = None;
            let mut place = self.trie.root();
            for (at, &byte) in bytes.iter().enumerate().skip(start) {
                let Some(next) = self.trie.next(place, byte) else { break };
                place = next;
                let Some(id) = self.trie.value(place) else { continue };
                let sum = best[at + 1].0 + self.scores[id as usize];
                // Of equal sums, the longest token.
                if found.is_none_or(|(other, ..)| sum >= other) {
                    found = Some((sum, (at + 1 - start) as u32, id));
                }
            }
            let unknown = best[start + c.len_utf8()].0 + UNKNOWN;
            best[start] = found.filter(|&(sum, ..)| sum >= unknown).unwrap_or((unknown, c.len_utf8() as u32, NONE));
        }
        let mut at = 0;
        while at < bytes.len() {
            let (_, length, id) = best[at];
            let end = at + length as usize;
            match id {
                NONE => out.extend(self.byte_tokens.of(&bytes[at..end]).into_iter().flatten()),
                id => out.push(id),
            }
            at = end;
        }
    }
}
