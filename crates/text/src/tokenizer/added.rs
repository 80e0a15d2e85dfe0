//! Added tokens: texts that are found whole before anything else is done, such as `<|im_start|>`.
//!
//! They are looked for as `tokenizers` does (`added_vocabulary.rs`): first, in the text as given, the tokens that are not
//! subject to normalization; then, in what is left, after normalization, the others. At each place the longest wins.

use super::{
    category::is_word,
    normalize::{Normalizer, normalize},
};
use crate::{Error, Result};
use aho_corasick::{AhoCorasick, MatchKind};

/// A token found by its text.
#[derive(Clone, Debug, Default, serde::Deserialize)]
pub(crate) struct AddedToken {
    #[serde(default)]
    pub id: u32,
    pub content: String,
    /// Not inside a word.
    #[serde(default)]
    pub single_word: bool,
    /// Takes the white space before it.
    #[serde(default)]
    pub lstrip: bool,
    /// Takes the white space after it.
    #[serde(default)]
    pub rstrip: bool,
    /// Looked for in normalized text.
    #[serde(default)]
    pub normalized: bool,
    /// Structure rather than text: found only where asked, left out of decoded text where asked.
    #[serde(default)]
    pub special: bool,
}

/// A part of a text.
pub(crate) enum Part<'a> {
    /// Text without added tokens, and whether it is the start of the whole.
    Text(&'a str, bool),
    /// An added token.
    Token(u32),
}

/// The tokens of one pass.
#[derive(Debug, Default)]
struct Pass {
    tokens: Vec<AddedToken>,
    automaton: Option<AhoCorasick>,
}

/// All added tokens.
#[derive(Debug, Default)]
pub(crate) struct Added {
    given: Pass,
    normalized: Pass,
}

impl Added {
    pub(crate) fn new(origin: &str, tokens: Vec<AddedToken>, normalizers: &[Normalizer]) -> Result<Self> {
        let (normalized, given): (Vec<_>, Vec<_>) = tokens.into_iter().filter(|t| !t.content.is_empty()).partition(|t| t.normalized);
        let texts = normalized.iter().map(|t| normalize(normalizers, &t.content).into_owned()).collect::<Vec<_>>();
        let given_texts = given.iter().map(|t| t.content.clone()).collect::<Vec<_>>();
        Ok(Self { given: Pass::new(origin, given, &given_texts)?, normalized: Pass::new(origin, normalized, &texts)? })
    }

    /// Cuts text at the added tokens; `special` tokens too where asked. `normalizers` are applied to the text between.
    pub(crate) fn split(&self, text: &str, special: bool, normalizers: &[Normalizer], mut part: impl FnMut(Part<'_>)) {
        self.given.split(text, special, true, |given| match given {
            Part::Token(id) => part(Part::Token(id)),
            Part::Text(text, first) => self.normalized.split(&normalize(normalizers, text), special, first, &mut part),
        });
    }
}

impl Pass {
    fn new(origin: &str, tokens: Vec<AddedToken>, texts: &[String]) -> Result<Self> {
        if tokens.is_empty() {
            return Ok(Self::default());
        }
        let automaton = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(texts);
        let automaton = automaton.map_err(|e| Error::invalid(origin, format!("the added tokens are too many or too long: {e}")))?;
        Ok(Self { tokens, automaton: Some(automaton) })
    }

    fn split(&self, text: &str, special: bool, first: bool, mut part: impl FnMut(Part<'_>)) {
        let mut done = 0;
        for found in self.automaton.iter().flat_map(|a| a.find_iter(text)) {
            let token = &self.tokens[found.pattern().as_usize()];
            let (mut start, mut end) = (found.start(), found.end());
            if token.special && !special {
                continue;
            }
            let (before, after) = (&text[..start], &text[end..]);
            if token.single_word && (before.chars().next_back().is_some_and(is_word) || after.chars().next().is_some_and(is_word)) {
                continue;
            }
            if token.lstrip {
                start = before.trim_end().len().max(done);
            }
            if token.rstrip {
                end += after.len() - after.trim_start().len();
            }
            if done < start {
                part(Part::Text(&text[done..start], first && done == 0));
            }
            part(Part::Token(token.id));
            done = end;
        }
        if done < text.len() {
            part(Part::Text(&text[done..], first && done == 0));
        }
    }
}
