//! Words whose tokens are remembered.

use hashbrown::DefaultHashBuilder;
use std::hash::BuildHasher;

/// Number of remembered words.
const SLOTS: usize = 1 << 14;
/// Longer words are not remembered.
const KEY: usize = 24;
/// Words of more tokens are not remembered.
const IDS: usize = 9;

/// The last words. Each has one place, where it replaces another.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    slots: Vec<Slot>,
    hasher: DefaultHashBuilder,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    /// The word's bytes, then zeros; the last byte is its length (0: no word).
    key: [u8; KEY],
    len: u32,
    ids: [u32; IDS],
}

impl Cache {
    /// Appends a word's tokens: those that are remembered, or else what `encode` appends.
    #[inline]
    pub(crate) fn encode(&mut self, word: &str, out: &mut Vec<u32>, encode: impl FnOnce(&mut Vec<u32>)) {
        let n = word.len();
        if n == 0 || n >= KEY {
            return encode(out);
        }
        let mut key = [0; KEY];
        key[..n].copy_from_slice(word.as_bytes());
        key[KEY - 1] = n as u8;
        if self.slots.is_empty() {
            self.slots = vec![Slot::default(); SLOTS];
        }
        let slot = &mut self.slots[self.hasher.hash_one(key) as usize % SLOTS];
        if slot.key == key {
            return out.extend_from_slice(&slot.ids[..slot.len as usize]);
        }
        let start = out.len();
        encode(out);
        let ids = &out[start..];
        if ids.len() <= IDS {
            slot.key = key;
            slot.len = ids.len() as u32;
            slot.ids[..ids.len()].copy_from_slice(ids);
        }
    }
}
