//! Who owns which page and slot: the only place that gives them out and takes them back.
//!
//! A sequence's tokens live in a [`Place`]: pages of keys and values in order, and a slot for the fixed states of recurrent
//! layers. Pages are counted: [`Cache::fork`] lets two places share all pages of a common beginning, and the first to write
//! into a shared page gets its own copy ([`Cache::reserve`]). A page that is full is never written again, so sharing it is free.
//!
//! Keys and values are only appended, so that going back in them means to forget the last ones. Fixed states are overwritten
//! by every token: going back needs a copy from before ([`Cache::snapshot`], [`Cache::rollback`]), which takes a slot.
//!
//! **Beginnings that come again.** A full page is known by a hash of all tokens, and of the images that stand in for some, up to its
//! end ([`Cache::publish`]). It stays known when nobody has it any more, until it is needed for something else, those that were given
//! back longest ago first. A new place takes over the known pages of its tokens ([`Cache::open`]), and what they hold is not computed
//! again.
//!
//! A model with fixed states can only take over what ends where its states are known, too. They are copied where it is likely that
//! somebody goes on ([`Cache::remember`]), as copies are large: at the last page's end of a prompt, at the last of an answer so far, and
//! where a prompt was found to leave the way of an earlier one ([`Place::branch`]); the next that comes there has them. This choice
//! of moments is that of Marconi (Pan et al. 2024, arXiv:2411.19379, section 4.1). Copies lie in slots that nobody has, as
//! long as nobody needs those.
//!
//! Neither a place nor a snapshot gives anything back when it is dropped; that is [`Cache::release`] and [`Cache::discard`],
//! because they are plain data that only the cache can interpret.

pub(crate) mod keep;

use crate::given::Beside;
use onebit_plan::{Executable, Limits};
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

/// The pages and slots of one executable.
#[derive(Debug)]
pub struct Cache {
    /// Tokens in a page.
    page: usize,
    pages: Pool,
    slots: Pool,
    hashers: [RandomState; 2],
    /// Which page holds what.
    known: Known,
    /// Which slot holds the fixed states after what.
    states: Known,
    /// Whether there are fixed states, so that pages alone are of no use.
    fixed: bool,
}

/// Where the tokens of one sequence are.
#[derive(Debug)]
pub struct Place {
    pages: Vec<u32>,
    /// Of its first pages, those that were published.
    keys: Vec<Key>,
    slot: u32,
    len: usize,
    /// Tokens of the source in the caches, which lie beside the sequence's own, from the first page on.
    source: usize,
    /// Where it leaves the way of an earlier sequence whose fixed states are not known there; 0 if nowhere.
    branch: usize,
    /// The slot with the fixed states that it begins with, until they are copied from there.
    begins_with: Option<u32>,
    /// The states that it has remembered last, and not to stay.
    passing: Option<Key>,
}

/// The fixed states as they were after `len` tokens of one place.
#[derive(Debug)]
pub struct Snapshot {
    slot: u32,
    len: usize,
}

/// What a sequence is made of: its tokens, and what stands in for some of them.
#[derive(Clone, Copy, Debug)]
pub struct Content<'a> {
    pub(crate) tokens: &'a [u32],
    pub(crate) beside: Option<&'a Beside>,
    /// Tokens of the source that it answers to.
    pub(crate) source: usize,
}

impl<'a, T: AsRef<[u32]> + ?Sized> From<&'a T> for Content<'a> {
    fn from(tokens: &'a T) -> Self {
        Self { tokens: tokens.as_ref(), beside: None, source: 0 }
    }
}

impl Content<'_> {
    /// The same, answering to a source of so many tokens.
    pub fn answering_to(self, source: usize) -> Self {
        Self { source, ..self }
    }
}

/// There are not enough free pages or slots. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl Place {
    /// Tokens in the caches.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The pages, in order.
    pub fn pages(&self) -> &[u32] {
        &self.pages
    }

    /// The slot.
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// After how many tokens it leaves the way of an earlier sequence, where fixed states are worth to be remembered; 0 if that is nowhere.
    pub fn branch(&self) -> usize {
        self.branch
    }

    /// Tokens of the source in the caches.
    pub fn source(&self) -> usize {
        self.source
    }

    /// Says that the source of `n` tokens has been read.
    pub fn has_read(&mut self, n: usize) {
        self.source = n;
    }

    /// Tokens for which it needs pages.
    fn extent(&self) -> usize {
        self.len.max(self.source)
    }

    /// Says that a step has written `n` more tokens, which were reserved.
    pub fn advance(&mut self, n: usize) {
        self.len += n;
    }
}

impl Cache {
    /// All of an executable's pages and slots, free.
    pub fn new(limits: &Limits) -> Self {
        Self {
            page: limits.page.max(1),
            pages: Pool::new(limits.pages),
            slots: Pool::new(limits.slots),
            hashers: Default::default(),
            known: Known::new(limits.pages),
            states: Known::new(limits.slots),
            fixed: false,
        }
    }

    /// The same for a model with fixed states, where `fixed` says so.
    pub fn with_fixed(limits: &Limits, fixed: bool) -> Self {
        Self { fixed, ..Self::new(limits) }
    }

    /// Whether fixed states are remembered.
    pub fn remembers(&self) -> bool {
        self.fixed
    }

    /// Pages that hold `tokens`.
    pub fn pages_for(&self, tokens: usize) -> usize {
        tokens.div_ceil(self.page)
    }

    /// Pages that nobody has.
    pub fn free_pages(&self) -> usize {
        self.pages.free.len()
    }

    /// Pages that somebody has; a shared one counts once.
    pub fn used_pages(&self) -> usize {
        self.pages.used()
    }

    /// Slots that somebody has.
    pub fn used_slots(&self) -> usize {
        self.slots.used()
    }

    /// A place with pages for all `tokens`, and for those of a source. Of the first `reuse` of them, those in known pages are there already, which
    /// [`Place::len`] tells; the others are to be computed. Before the first step, [`Cache::recall`] has to be called.
    pub fn open<'a>(&mut self, content: impl Into<Content<'a>>, reuse: usize) -> Result<Place, Full> {
        let content = content.into();
        let tokens = content.tokens;
        let Found { mut pages, keys, state, branch } = self.find(content, reuse.min(tokens.len()));
        let more = self.pages_for(tokens.len().max(content.source)) - pages.len();
        let asleep = pages.iter().filter(|p| self.pages.uses[**p as usize] == 0).count();
        if more + asleep > self.free_pages() || self.slots.free.is_empty() {
            return Err(Full);
        }
        // The states may lie in the only slot that is left, which then becomes the place's own.
        let only = self.slots.free.len() == 1;
        let begins_with = state.filter(|state| !only || self.slots.uses[*state as usize] > 0);
        begins_with.iter().for_each(|state| self.slots.share(*state));
        let slot = take(&mut self.slots, &mut self.states).ok_or(Full)?;
        pages.iter().for_each(|p| self.pages.share(*p));
        let len = pages.len() * self.page;
        pages.extend((0..more).filter_map(|_| take(&mut self.pages, &mut self.known)));
        Ok(Place { pages, keys, slot, len, source: 0, branch, begins_with, passing: None })
    }

    /// What is known of the beginning of some content, up to `reuse` tokens.
    fn find(&self, content: Content<'_>, reuse: usize) -> Found {
        let mut found = Found::default();
        for i in 0..reuse / self.page {
            let key = self.key(found.keys.last(), content, i * self.page..(i + 1) * self.page);
            let Some(page) = self.known.of.get(&key) else { break };
            found.keys.push(key);
            found.pages.push(*page);
        }
        if self.fixed {
            let known = found.pages.len();
            let usable = (1..=known).rev().find(|n| self.states.of.contains_key(&found.keys[n - 1])).unwrap_or(0);
            found.state = usable.checked_sub(1).map(|last| self.states.of[&found.keys[last]]);
            found.branch = if known > usable { known * self.page } else { 0 };
            found.keys.truncate(usable);
            found.pages.truncate(usable);
        }
        found
    }

    /// The key of the page with these of the tokens after the page with the key `before`.
    fn key(&self, before: Option<&Key>, content: Content<'_>, page: Range<usize>) -> Key {
        let beside = content.beside.map(|beside| beside.content(&page)).unwrap_or_default();
        self.hashers.each_ref().map(|h| h.hash_one((before, &content.tokens[page.clone()], &beside)))
    }

    /// Brings the fixed states of a new place to where its tokens end.
    pub fn recall(&mut self, place: &mut Place, device: &mut dyn Executable) {
        if let Some(state) = place.begins_with.take() {
            device.copy_slots(&[(state, place.slot)]);
            self.slots.give(state, true);
        }
    }

    /// Keeps a copy of the fixed states of a place, where its last page ends and is [published](Self::publish), for those who begin with the
    /// same tokens. One that does not `stay` takes the place of the one before. Without a free slot, nothing happens.
    pub fn remember(&mut self, place: &mut Place, stay: bool, device: &mut dyn Executable) {
        let full = place.len.is_multiple_of(self.page) && place.keys.len() == place.len / self.page;
        let Some(key) = place.keys.last().copied().filter(|key| self.fixed && full && !self.states.of.contains_key(key)) else { return };
        let before = place.passing.take().and_then(|key| self.states.of.get(&key).copied());
        let slot = match before.filter(|slot| self.slots.uses[*slot as usize] == 0) {
            Some(slot) => {
                self.slots.share(slot);
                self.states.forget(slot);
                slot
            }
            None => match take(&mut self.slots, &mut self.states) {
                Some(slot) => slot,
                None => return,
            },
        };
        device.copy_slots(&[(place.slot, slot)]);
        self.states.learn(key, slot);
        self.slots.give(slot, true);
        place.passing = (!stay).then_some(key);
    }

    /// Makes sure that `n` more tokens can be written: there are pages for them, and the page that the first goes to belongs to
    /// no other place.
    pub fn reserve(&mut self, place: &mut Place, n: usize, device: &mut dyn Executable) -> Result<(), Full> {
        let first = place.len / self.page;
        let shared = n > 0 && place.pages.get(first).is_some_and(|p| self.pages.is_shared(*p));
        let more = self.pages_for(place.len + n).saturating_sub(place.pages.len());
        if more + usize::from(shared) > self.free_pages() {
            return Err(Full);
        }
        if shared && let Some(own) = take(&mut self.pages, &mut self.known) {
            let old = std::mem::replace(&mut place.pages[first], own);
            if !place.len.is_multiple_of(self.page) || first * self.page < place.source {
                device.copy_pages(&[(old, own)]);
            }
            give(&mut self.pages, &self.known, old);
        } else if n > 0
            && let Some(page) = place.pages.get(first)
        {
            // After a rollback into a full page, which is about to get other tokens.
            self.known.forget(*page);
        }
        place.pages.extend((0..more).filter_map(|_| take(&mut self.pages, &mut self.known)));
        Ok(())
    }

    /// Makes the full pages of a place known, whose tokens these are.
    pub fn publish<'a>(&mut self, place: &mut Place, content: impl Into<Content<'a>>) {
        let content = content.into();
        let full = place.len / self.page;
        for i in place.keys.len()..full {
            let key = self.key(place.keys.last(), content, i * self.page..(i + 1) * self.page);
            place.keys.push(key);
            self.known.learn(key, place.pages[i]);
        }
    }

    /// Forgets which tokens pages and slots hold, because what they hold is in doubt.
    pub fn forget(&mut self) {
        self.known.clear();
        self.states.clear();
    }

    /// A second place with the same tokens. Pages are shared, the fixed states are copied.
    pub fn fork(&mut self, place: &Place, device: &mut dyn Executable) -> Result<Place, Full> {
        let slot = take(&mut self.slots, &mut self.states).ok_or(Full)?;
        device.copy_slots(&[(place.slot, slot)]);
        let pages = place.pages[..self.pages_for(place.extent())].to_vec();
        pages.iter().for_each(|p| self.pages.share(*p));
        let (keys, len, source) = (place.keys.clone(), place.len, place.source);
        Ok(Place { pages, keys, slot, len, source, branch: 0, begins_with: None, passing: None })
    }

    /// Remembers the fixed states of this moment.
    pub fn snapshot(&mut self, place: &Place, device: &mut dyn Executable) -> Result<Snapshot, Full> {
        let slot = take(&mut self.slots, &mut self.states).ok_or(Full)?;
        device.copy_slots(&[(place.slot, slot)]);
        Ok(Snapshot { slot, len: place.len })
    }

    /// Takes a place back to a snapshot of it, which can be used again. Pages that are no longer needed are given back.
    ///
    /// # Panics
    /// If the snapshot is of a later moment than the place has reached.
    pub fn rollback(&mut self, place: &mut Place, snapshot: &Snapshot, device: &mut dyn Executable) {
        assert!(snapshot.len <= place.len, "a snapshot of {} tokens of a place that has {}", snapshot.len, place.len);
        device.copy_slots(&[(snapshot.slot, place.slot)]);
        place.len = snapshot.len;
        let keep = self.pages_for(place.extent());
        place.keys.truncate(place.len / self.page);
        place.pages.drain(keep..).rev().for_each(|p| give(&mut self.pages, &self.known, p));
    }

    /// Gives a snapshot back.
    pub fn discard(&mut self, snapshot: Snapshot) {
        self.slots.give(snapshot.slot, false);
    }

    /// Gives a place back. What was published of it stays known for a while.
    pub fn release(&mut self, place: Place) {
        // The last first: they are the first to be used for something else, since a page is of no use without those before it.
        place.pages.into_iter().rev().for_each(|p| give(&mut self.pages, &self.known, p));
        self.slots.give(place.slot, false);
        if let Some(state) = place.begins_with {
            self.slots.give(state, true);
        }
    }
}

/// What is known of a beginning.
#[derive(Default)]
struct Found {
    pages: Vec<u32>,
    keys: Vec<Key>,
    /// The slot with the fixed states after them.
    state: Option<u32>,
    /// As [`Place::branch`].
    branch: usize,
}

/// A free page or slot, whose tokens are known no more.
fn take(pages: &mut Pool, known: &mut Known) -> Option<u32> {
    let page = pages.take()?;
    known.forget(page);
    Some(page)
}

/// Gives back a page, to be used for something else late if its tokens are known.
fn give(pages: &mut Pool, known: &Known, page: u32) {
    pages.give(page, known.keys[page as usize].is_some());
}

/// Numbers from 0, and how often each is in use.
#[derive(Debug)]
struct Pool {
    /// With the time since which they are, or 0 if it does not matter. The first is taken first.
    free: BTreeSet<(u64, u32)>,
    since: Vec<u64>,
    uses: Vec<u32>,
    clock: u64,
}

impl Pool {
    fn new(n: usize) -> Self {
        let n = u32::try_from(n).unwrap_or(u32::MAX);
        Self { free: (0..n).map(|i| (0, i)).collect(), since: vec![0; n as usize], uses: vec![0; n as usize], clock: 0 }
    }

    fn used(&self) -> usize {
        self.uses.len() - self.free.len()
    }

    fn is_shared(&self, i: u32) -> bool {
        self.uses[i as usize] > 1
    }

    fn take(&mut self) -> Option<u32> {
        let (_, i) = self.free.pop_first()?;
        self.uses[i as usize] = 1;
        Some(i)
    }

    /// One more user of what may be in use or free.
    fn share(&mut self, i: u32) {
        self.free.remove(&(self.since[i as usize], i));
        self.uses[i as usize] += 1;
    }

    fn give(&mut self, i: u32, late: bool) {
        let uses = &mut self.uses[i as usize];
        assert!(*uses > 0, "page or slot {i} was given back twice");
        *uses -= 1;
        if *uses == 0 {
            self.clock += 1;
            let since = if late { self.clock } else { 0 };
            self.since[i as usize] = since;
            self.free.insert((since, i));
        }
    }
}

/// Stands for all tokens from the first of a sequence to the last of a page. It has 128 bits and is made with secrets of this process,
/// so that nobody can make two that are the same.
type Key = [u64; 2];

/// Which of a kind holds what.
#[derive(Debug)]
struct Known {
    of: HashMap<Key, u32>,
    /// By page, or slot.
    keys: Vec<Option<Key>>,
}

impl Known {
    fn new(n: usize) -> Self {
        Self { of: HashMap::new(), keys: vec![None; n] }
    }

    fn clear(&mut self) {
        self.of.clear();
        self.keys.fill(None);
    }

    /// Of several with the same tokens, the first is known.
    fn learn(&mut self, key: Key, page: u32) {
        if let std::collections::hash_map::Entry::Vacant(entry) = self.of.entry(key) {
            entry.insert(page);
            self.keys[page as usize] = Some(key);
        }
    }

    fn forget(&mut self, page: u32) {
        if let Some(key) = self.keys[page as usize].take() {
            self.of.remove(&key);
        }
    }
}
