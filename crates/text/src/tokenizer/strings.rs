//! Many short byte strings, held in one piece, and found by their contents.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

/// Byte strings by number. A number may be unused.
#[derive(Debug, Default)]
pub(crate) struct Strings {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Strings {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len() as u32);
    }
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }
    #[inline]
    pub(crate) fn get(&self, i: u32) -> Option<&[u8]> {
        let i = i as usize;
        let end = *self.ends.get(i)? as usize;
        let start = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        Some(&self.bytes[start..end])
    }
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> + Clone {
        (0..self.len() as u32).map(|i| self.get(i).unwrap_or_default())
    }
}

/// Finds the number of a string in a [`Strings`], which the caller keeps and passes in.
#[derive(Debug, Default)]
pub(crate) struct Index {
    hasher: DefaultHashBuilder,
    table: HashTable<u32>,
}

impl Index {
    pub(crate) fn with_capacity(n: usize) -> Self {
        Self { hasher: DefaultHashBuilder::default(), table: HashTable::with_capacity(n) }
    }
    /// Adds string number `id`; the number that has the same contents already, if there is one (which then stays).
    pub(crate) fn insert(&mut self, strings: &Strings, id: u32) -> Option<u32> {
        let bytes = strings.get(id)?;
        if let Some(other) = self.get(strings, bytes) {
            return Some(other);
        }
        let hasher = &self.hasher;
        self.table.insert_unique(hasher.hash_one(bytes), id, |&id| hasher.hash_one(strings.get(id).unwrap_or_default()));
        None
    }
    #[inline]
    pub(crate) fn get(&self, strings: &Strings, bytes: &[u8]) -> Option<u32> {
        self.table.find(self.hasher.hash_one(bytes), |&id| strings.get(id) == Some(bytes)).copied()
    }
}
