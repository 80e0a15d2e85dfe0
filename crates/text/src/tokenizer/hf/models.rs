//! The models of `tokenizer.json`.

use super::vocab::{MergeSpec, Vocab};
use crate::{
    Error, Result,
    tokenizer::{
        bpe::{self, Bpe, Merges},
        model::{Model, Words},
        unigram::{self, Unigram},
        vocabulary::Vocabulary,
        word_piece::{LONGEST_WORD, WordPiece},
    },
};
use serde::Deserialize;
use std::mem;

/// A model as the file has it.
#[derive(Deserialize)]
pub(super) struct ModelSpec<'a> {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(borrow)]
    pub(super) vocab: Vocab<'a>,
    #[serde(borrow, default)]
    merges: Option<Vec<MergeSpec<'a>>>,
    dropout: Option<f64>,
    unk_token: Option<String>,
    unk_id: Option<u64>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    max_input_chars_per_word: Option<usize>,
    #[serde(default)]
    fuse_unk: bool,
    #[serde(default)]
    byte_fallback: bool,
    #[serde(default)]
    ignore_merges: bool,
}

impl ModelSpec<'_> {
    /// The model's kind; files of old versions do not name it.
    fn kind(&self) -> Option<&str> {
        match self.kind.as_deref() {
            None if self.merges.is_some() => Some("BPE"),
            None if self.max_input_chars_per_word.is_some() => Some("WordPiece"),
            None if !self.vocab.scores.is_empty() => Some("Unigram"),
            kind => kind,
        }
    }

    /// Whether a last pre-tokenizer `ByteLevel` can be left to the model.
    pub(super) fn takes_bytes(&self) -> bool {
        let plain = |affix: &Option<String>| affix.as_ref().is_none_or(String::is_empty);
        self.kind() == Some("BPE") && plain(&self.continuing_subword_prefix) && plain(&self.end_of_word_suffix)
    }

    /// `byte_level`: words are given as they are, but tokens are written in the alphabet of bytes.
    pub(super) fn read(&self, origin: &str, vocabulary: &mut Vocabulary, byte_level: bool) -> Result<Model> {
        let (kind, merges) = (self.kind(), &self.merges);
        if kind.is_some() && (kind == Some("Unigram")) == self.vocab.scores.is_empty() && !self.vocab.tokens.is_empty() {
            return Err(Error::invalid(
                origin,
                "`vocab` should be a map from tokens to ids, or for the model `Unigram` an array of tokens with scores",
            ));
        }
        match (kind, merges) {
            (Some("BPE"), Some(merges)) => self.bpe(origin, vocabulary, byte_level, merges).map(|model| Model::Bpe(Box::new(model))),
            (Some("BPE"), None) => Err(Error::invalid(origin, "the BPE model has no `merges`")),
            (Some("Unigram"), _) => self.unigram(origin, vocabulary).map(Model::Unigram),
            (Some("WordPiece"), _) => {
                let unknown = vocabulary.of_model(origin, "unk_token", self.unk_token.as_deref().unwrap_or("[UNK]"))?;
                let prefix = self.continuing_subword_prefix.as_deref().unwrap_or("##");
                let longest = self.max_input_chars_per_word.unwrap_or(LONGEST_WORD);
                Ok(Model::WordPiece(WordPiece::new(&vocabulary.texts, &vocabulary.model, prefix, unknown, longest)))
            }
            (Some("WordLevel"), _) => {
                let unknown = vocabulary.of_model(origin, "unk_token", self.unk_token.as_deref().unwrap_or("<unk>"))?;
                Ok(Model::Words(Words::new(mem::take(&mut vocabulary.model), unknown)))
            }
            (Some(kind), _) => Err(Error::unsupported(origin, format!("the model `{kind}`"))),
            (None, _) => Err(Error::invalid(origin, "the model has no `type`")),
        }
    }

    fn unigram(&self, origin: &str, vocabulary: &Vocabulary) -> Result<Unigram> {
        let n = self.vocab.scores.len();
        let unknown = match self.unk_id {
            None => None,
            Some(id) => Some(
                u32::try_from(id)
                    .ok()
                    .filter(|&id| (id as usize) < n)
                    .ok_or_else(|| Error::invalid(origin, format!("`unk_id` is {id}, but the model has {n} tokens")))?,
            ),
        };
        let options = unigram::Options { unknown, byte_fallback: self.byte_fallback, single: false };
        let least = self.vocab.scores.iter().copied().fold(f64::INFINITY, f64::min);
        let scores = (0u32..).zip(self.vocab.scores.iter().copied());
        Unigram::new(origin, &vocabulary.texts, &vocabulary.model, scores, least, options)
    }

    fn bpe(&self, origin: &str, vocabulary: &Vocabulary, byte_level: bool, merges: &[MergeSpec<'_>]) -> Result<Bpe> {
        if let Some(dropout) = self.dropout.filter(|&d| d != 0.0) {
            return Err(Error::unsupported(origin, format!("BPE with `dropout` {dropout}")));
        }
        let unknown = match &self.unk_token {
            None => None,
            Some(text) => Some(vocabulary.of_model(origin, "unk_token", text)?),
        };
        let options = bpe::Options {
            byte_level,
            ignore_merges: self.ignore_merges,
            whole: Vec::new(),
            byte_fallback: self.byte_fallback,
            unknown,
            fuse_unknown: self.fuse_unk,
            prefix: self.continuing_subword_prefix.clone().unwrap_or_default(),
            suffix: self.end_of_word_suffix.clone().unwrap_or_default(),
        };
        let mut map = Merges::new(&vocabulary.texts, &vocabulary.model, &options.prefix, merges.len());
        for (rank, merge) in merges.iter().enumerate() {
            let added = match merge {
                MergeSpec::Line(line) => map.add_line(rank, line.as_bytes()),
                MergeSpec::Pair(left, right) => map.add(rank, left.as_bytes(), right.as_bytes()),
            };
            added.map_err(|what| Error::invalid(origin, what))?;
        }
        let map = map.finish();
        Ok(Bpe::new(&vocabulary.texts, &vocabulary.model, map, options))
    }
}
