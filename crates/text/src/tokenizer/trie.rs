//! A set of byte strings with a number each, walked byte by byte: a double array (Aoe 1989, "An efficient digital search
//! algorithm by using a double-array structure") whose children are found by exclusive or, as in darts-clone.

/// No node, no value.
const NONE: u32 = u32::MAX;
/// Children of one node lie within a block of this many.
const BLOCK: usize = 256;
/// How many free places are tried for a node's children before a new block is made for them.
const TRIES: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Node {
    /// The child by byte `b` is node `base ^ b`, where that node's parent is this one.
    base: u32,
    parent: u32,
    value: u32,
}

/// Byte strings and their numbers.
#[derive(Debug)]
pub(crate) struct Trie {
    nodes: Vec<Node>,
    longest: usize,
}

/// A place in a [`Trie`]: what has been read is the start of some string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u32);

impl Trie {
    /// The strings that are not empty; of equal ones, the first counts.
    pub(crate) fn new<'a>(strings: impl Iterator<Item = (&'a [u8], u32)>) -> Self {
        let mut keys: Vec<_> = strings.filter(|(key, _)| !key.is_empty()).collect();
        keys.sort_by_key(|(key, _)| *key);
        keys.dedup_by_key(|(key, _)| *key);
        let longest = keys.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
        Self { nodes: Builder::default().build(&keys), longest }
    }
    /// Where nothing has been read.
    pub(crate) fn root(&self) -> Place {
        Place(0)
    }
    /// One byte further.
    #[inline]
    pub(crate) fn next(&self, place: Place, byte: u8) -> Option<Place> {
        let child = self.nodes[place.0 as usize].base ^ u32::from(byte);
        (self.nodes.get(child as usize)?.parent == place.0).then_some(Place(child))
    }
    /// The number of the string that has been read.
    #[inline]
    pub(crate) fn value(&self, place: Place) -> Option<u32> {
        let value = self.nodes[place.0 as usize].value;
        (value != NONE).then_some(value)
    }
    /// The longest string that `text` starts with: its length and number.
    #[inline]
    pub(crate) fn longest_prefix(&self, text: &[u8]) -> Option<(usize, u32)> {
        let (mut place, mut found) = (self.root(), None);
        for (at, &byte) in text.iter().enumerate() {
            let Some(next) = self.next(place, byte) else { break };
            place = next;
            found = self.value(place).map(|value| (at + 1, value)).or(found);
        }
        found
    }
    /// The length of the longest string.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }
}

/// The places that are free, as a ring through `next` and `previous`, and the nodes.
#[derive(Default)]
struct Builder {
    nodes: Vec<Node>,
    next: Vec<u32>,
    previous: Vec<u32>,
    first: Option<u32>,
}

impl Builder {
    fn build(mut self, keys: &[(&[u8], u32)]) -> Vec<Node> {
        self.grow();
        self.take(0);
        self.nodes[0].parent = NONE - 1;
        // Nodes whose children are not placed: the node, its keys, and how many of their bytes were read.
        let mut open = vec![(0u32, keys, 0usize)];
        let mut children: Vec<(u8, &[(&[u8], u32)])> = Vec::new();
        while let Some((node, keys, depth)) = open.pop() {
            let (own, keys) = keys.split_at(usize::from(keys.first().is_some_and(|(key, _)| key.len() == depth)));
            if let Some((_, value)) = own.first() {
                self.nodes[node as usize].value = *value;
            }
            children.clear();
            children.extend(keys.chunk_by(|(a, _), (b, _)| a[depth] == b[depth]).map(|same| (same[0].0[depth], same)));
            if children.is_empty() {
                continue;
            }
            let base = self.base(&children);
            self.nodes[node as usize].base = base;
            for &(byte, keys) in &children {
                let child = base ^ u32::from(byte);
                self.take(child);
                self.nodes[child as usize].parent = node;
                open.push((child, keys, depth + 1));
            }
        }
        self.nodes
    }

    /// A base at which the places of all children are free.
    fn base(&mut self, children: &[(u8, &[(&[u8], u32)])]) -> u32 {
        let lead = u32::from(children[0].0);
        let mut place = self.first;
        for _ in 0..TRIES {
            // Holes are filled by nodes with one child; others look in the newest blocks first.
            let Some(at) = place else { break };
            let base = at ^ lead;
            if children.iter().all(|&(byte, _)| self.nodes[(base ^ u32::from(byte)) as usize].parent == NONE) {
                return base;
            }
            let following = self.previous[at as usize];
            place = (Some(following) != self.first).then_some(following);
        }
        self.grow() ^ lead
    }

    /// Adds a block of free places; the first of them.
    fn grow(&mut self) -> u32 {
        let start = self.nodes.len();
        self.nodes.resize(start + BLOCK, Node { base: 0, parent: NONE, value: NONE });
        let (first, last) = (start as u32, (start + BLOCK - 1) as u32);
        self.next.extend(first + 1..=last + 1);
        self.previous.extend((first..=last).map(|i| i.wrapping_sub(1)));
        let (head, tail) = match self.first {
            Some(head) => (head, self.previous[head as usize]),
            None => (first, last),
        };
        self.next[last as usize] = head;
        self.previous[head as usize] = last;
        if self.first.is_some() {
            self.next[tail as usize] = first;
            self.previous[first as usize] = tail;
        }
        self.first = Some(head);
        first
    }

    /// The place is free no more.
    fn take(&mut self, place: u32) {
        let (next, previous) = (self.next[place as usize], self.previous[place as usize]);
        self.next[previous as usize] = next;
        self.previous[next as usize] = previous;
        if self.first == Some(place) {
            self.first = (next != place).then_some(next);
        }
        self.nodes[place as usize].parent = NONE - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// As a map that is asked for each prefix.
        #[test]
        fn prefixes(keys in prop::collection::vec(prop::collection::vec(0u8..5, 0..6), 0..60), wide in prop::collection::vec(any::<[u8; 2]>(), 0..200), text in prop::collection::vec(0u8..5, 0..12)) {
            let keys: Vec<Vec<u8>> = keys.into_iter().chain(wide.into_iter().map(Vec::from)).collect();
            let mut map = BTreeMap::new();
            for (i, key) in keys.iter().enumerate().filter(|(_, key)| !key.is_empty()) {
                map.entry(key.clone()).or_insert(i as u32);
            }
            let trie = Trie::new(keys.iter().enumerate().map(|(i, key)| (key.as_slice(), i as u32)));
            for text in keys.iter().chain([&text]) {
                let mut place = Some(trie.root());
                for (at, &byte) in text.iter().enumerate() {
                    place = place.and_then(|place| trie.next(place, byte));
                    let read = &text[..=at];
                    prop_assert_eq!(place.is_some(), map.keys().any(|key| key.starts_with(read)));
                    prop_assert_eq!(place.and_then(|place| trie.value(place)), map.get(read).copied());
                }
                let longest = (1..=text.len()).rev().find_map(|n| map.get(&text[..n]).map(|&value| (n, value)));
                prop_assert_eq!(trie.longest_prefix(text), longest);
            }
            prop_assert_eq!(trie.longest(), map.keys().map(Vec::len).max().unwrap_or(0));
        }
    }
}
