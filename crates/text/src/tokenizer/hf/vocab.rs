//! The tables of `tokenizer.json`, whose strings are borrowed from the file.

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use std::{borrow::Cow, fmt};

/// A string that is borrowed from the file where it has no escapes.
struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(V)
    }
}

/// Tokens and ids in the file's order.
#[derive(Default)]
pub(super) struct Vocab<'a> {
    pub(super) tokens: Vec<(Cow<'a, str>, u64)>,
    /// By id, where the file has an array of tokens with scores.
    pub(super) scores: Vec<f64>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Vocab<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Vocab<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from tokens to ids, or an array of tokens with scores")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut vocab = Vocab::default();
                while let Some((text, id)) = map.next_entry::<Text<'de>, u64>()? {
                    vocab.tokens.push((text.0, id));
                }
                Ok(vocab)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut vocab = Vocab::default();
                while let Some((text, score)) = seq.next_element::<(Text<'de>, f64)>()? {
                    vocab.tokens.push((text.0, vocab.scores.len() as u64));
                    vocab.scores.push(score);
                }
                Ok(vocab)
            }
        }
        deserializer.deserialize_any(V)
    }
}

/// A merge, in either of the two ways in which files have it.
pub(super) enum MergeSpec<'a> {
    Line(Cow<'a, str>),
    Pair(Cow<'a, str>, Cow<'a, str>),
}

impl<'de: 'a, 'a> Deserialize<'de> for MergeSpec<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = MergeSpec<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a merge: two tokens with a space between them, or an array of two")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(MergeSpec::Line(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(MergeSpec::Line(Cow::Owned(text.to_owned())))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let wrong = |n| serde::de::Error::invalid_length(n, &self);
                let left: Text<'de> = seq.next_element()?.ok_or_else(|| wrong(0))?;
                let right: Text<'de> = seq.next_element()?.ok_or_else(|| wrong(1))?;
                match seq.next_element::<Text<'de>>()? {
                    None => Ok(MergeSpec::Pair(left.0, right.0)),
                    Some(_) => Err(wrong(3)),
                }
            }
        }
        deserializer.deserialize_any(V)
    }
}
