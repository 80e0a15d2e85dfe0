//! The tokens of a vocabulary, by id and by text.

use super::{
    SPECIAL, USED,
    added::AddedToken,
    strings::{Index, Strings},
};
use crate::{Error, Result};
use std::borrow::Cow;

/// Ids may be at most this many times the number of tokens (vocabularies have some holes), and a few.
const HOLES: usize = 4;

/// All tokens, and an index of those that the model knows.
pub(super) struct Vocabulary {
    pub(super) texts: Strings,
    pub(super) model: Index,
    pub(super) index: Index,
    pub(super) flags: Vec<u8>,
}

impl Vocabulary {
    pub(super) fn new(origin: &str, vocab: &[(Cow<'_, str>, u64)], added: &[AddedToken]) -> Result<Self> {
        let n = vocab.len() + added.len();
        let limit = (n * HOLES + 1024) as u64;
        let mut slots: Vec<Option<&str>> = Vec::with_capacity(n);
        let all = vocab.iter().map(|(text, id)| (text.as_ref(), *id));
        for (text, id) in all.chain(added.iter().map(|t| (t.content.as_str(), u64::from(t.id)))) {
            if id >= limit {
                return Err(Error::invalid(origin, format!("token `{text}` has id {id}, but there are {n} tokens")));
            }
            let id = id as usize;
            if id >= slots.len() {
                slots.resize(id + 1, None);
            }
            match slots[id] {
                Some(other) if other != text => {
                    return Err(Error::invalid(origin, format!("tokens `{other}` and `{text}` both have id {id}")));
                }
                _ => slots[id] = Some(text),
            }
        }
        let mut texts = Strings::default();
        let mut flags = Vec::with_capacity(slots.len());
        for slot in &slots {
            texts.push(slot.unwrap_or_default().as_bytes());
            flags.push(if slot.is_some() { USED } else { 0 });
        }
        let insert = |index: &mut Index, text: &str, id: u64| match index.insert(&texts, id as u32) {
            Some(other) if u64::from(other) != id => Err(Error::invalid(origin, format!("token `{text}` has two ids, {other} and {id}"))),
            _ => Ok(()),
        };
        let mut model = Index::with_capacity(vocab.len());
        let mut index = Index::with_capacity(n);
        for (text, id) in vocab {
            insert(&mut model, text, *id)?;
            insert(&mut index, text, *id)?;
        }
        for token in added {
            insert(&mut index, &token.content, token.id.into())?;
            if token.special {
                flags[token.id as usize] |= SPECIAL;
            }
        }
        Ok(Self { texts, model, index, flags })
    }

    /// The id of a token of the model that a setting names.
    pub(super) fn of_model(&self, origin: &str, setting: &str, text: &str) -> Result<u32> {
        let id = self.model.get(&self.texts, text.as_bytes());
        id.ok_or_else(|| Error::invalid(origin, format!("`{setting}` is `{text}`, which is no token of the model")))
    }
    /// The token is structure.
    pub(super) fn make_special(&mut self, id: u32) {
        if let Some(flags) = self.flags.get_mut(id as usize) {
            *flags |= SPECIAL;
        }
    }
    /// Whether there is such a token.
    pub(super) fn is_used(&self, id: u32) -> bool {
        self.flags.get(id as usize).is_some_and(|flags| flags & USED != 0)
    }
}
