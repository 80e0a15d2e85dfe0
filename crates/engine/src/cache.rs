//! Who owns which page and slot: the only place that gives them out and takes them back.
//!
//! A sequence's tokens live in a [`Place`]: pages of keys and values in order, and a slot for the fixed states of recurrent
//! layers. Pages are counted: [`Cache::fork`] lets two places share all pages of a common beginning, and the first to write
//! into a shared page gets its own copy ([`Cache::reserve`]). A page that is full is never written again, so sharing it is free.
//!
//! Keys and values are only appended, so that going back in them means to forget the last ones. Fixed states are overwritten
//! by every token: going back needs a copy from before ([`Cache::snapshot`], [`Cache::rollback`]), which takes a slot.
//!
//! Neither a place nor a snapshot gives anything back when it is dropped; that is [`Cache::release`] and [`Cache::discard`],
//! because they are plain data that only the cache can interpret.

use onebit_plan::{Executable, Limits};

/// The pages and slots of one executable.
#[derive(Debug)]
pub struct Cache {
    /// Tokens in a page.
    page: usize,
    pages: Pool,
    slots: Pool,
}

/// Where the tokens of one sequence are.
#[derive(Debug)]
pub struct Place {
    pages: Vec<u32>,
    slot: u32,
    len: usize,
}

/// The fixed states as they were after `len` tokens of one place.
#[derive(Debug)]
pub struct Snapshot {
    slot: u32,
    len: usize,
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

    /// Says that a step has written `n` more tokens, which were reserved.
    pub fn advance(&mut self, n: usize) {
        self.len += n;
    }
}

impl Cache {
    /// All of an executable's pages and slots, free.
    pub fn new(limits: &Limits) -> Self {
        Self { page: limits.page.max(1), pages: Pool::new(limits.pages), slots: Pool::new(limits.slots) }
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

    /// An empty place with pages for `tokens`.
    pub fn open(&mut self, tokens: usize) -> Result<Place, Full> {
        let n = self.pages_for(tokens);
        if n > self.free_pages() {
            return Err(Full);
        }
        let slot = self.slots.take().ok_or(Full)?;
        Ok(Place { pages: (0..n).filter_map(|_| self.pages.take()).collect(), slot, len: 0 })
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
        if shared && let Some(own) = self.pages.take() {
            let old = std::mem::replace(&mut place.pages[first], own);
            if !place.len.is_multiple_of(self.page) {
                device.copy_pages(&[(old, own)]);
            }
            self.pages.give(old);
        }
        place.pages.extend((0..more).filter_map(|_| self.pages.take()));
        Ok(())
    }

    /// A second place with the same tokens. Pages are shared, the fixed states are copied.
    pub fn fork(&mut self, place: &Place, device: &mut dyn Executable) -> Result<Place, Full> {
        let slot = self.slots.take().ok_or(Full)?;
        device.copy_slots(&[(place.slot, slot)]);
        let pages = place.pages[..self.pages_for(place.len)].to_vec();
        pages.iter().for_each(|p| self.pages.share(*p));
        Ok(Place { pages, slot, len: place.len })
    }

    /// Remembers the fixed states of this moment.
    pub fn snapshot(&mut self, place: &Place, device: &mut dyn Executable) -> Result<Snapshot, Full> {
        let slot = self.slots.take().ok_or(Full)?;
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
        let keep = self.pages_for(place.len);
        place.pages.drain(keep..).for_each(|p| self.pages.give(p));
    }

    /// Gives a snapshot back.
    pub fn discard(&mut self, snapshot: Snapshot) {
        self.slots.give(snapshot.slot);
    }

    /// Gives a place back.
    pub fn release(&mut self, place: Place) {
        place.pages.into_iter().for_each(|p| self.pages.give(p));
        self.slots.give(place.slot);
    }
}

/// Numbers from 0, and how often each is in use.
#[derive(Debug)]
struct Pool {
    free: Vec<u32>,
    uses: Vec<u32>,
}

impl Pool {
    fn new(n: usize) -> Self {
        let n = u32::try_from(n).unwrap_or(u32::MAX);
        // The lowest is given out first.
        Self { free: (0..n).rev().collect(), uses: vec![0; n as usize] }
    }

    fn used(&self) -> usize {
        self.uses.len() - self.free.len()
    }

    fn is_shared(&self, i: u32) -> bool {
        self.uses[i as usize] > 1
    }

    fn take(&mut self) -> Option<u32> {
        let i = self.free.pop()?;
        self.uses[i as usize] = 1;
        Some(i)
    }

    fn share(&mut self, i: u32) {
        self.uses[i as usize] += 1;
    }

    fn give(&mut self, i: u32) {
        let uses = &mut self.uses[i as usize];
        assert!(*uses > 0, "page or slot {i} was given back twice");
        *uses -= 1;
        if *uses == 0 {
            self.free.push(i);
        }
    }
}
