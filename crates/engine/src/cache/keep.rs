//! Beginnings that leave the caches for a file, and come back.

use super::{Cache, Content, Known, give, take};
use crate::saved::Saved;
use onebit_plan::{Cached, DeviceError, Executable};

/// Why a beginning cannot be saved, or taken back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeepError {
    /// There is no such slot.
    #[error("there is no slot {slot}: they are numbered from 0 to {}", .slots.saturating_sub(1))]
    NoSlot {
        /// As asked for.
        slot: usize,
        /// How many there are.
        slots: usize,
    },
    /// Not a single page is known.
    #[error("of slot {slot} nothing is known: no request has filled a page of {page} tokens there, or others have needed its memory since")]
    Nothing {
        /// As asked for.
        slot: usize,
        /// Tokens of a page.
        page: usize,
    },
    /// What was made of images is not written to files.
    #[error("slot {slot} holds images, which cannot be saved")]
    Images {
        /// As asked for.
        slot: usize,
    },
    /// Running requests need the memory.
    #[error("{needed} pages are needed and {free} are free: try again when fewer requests run")]
    Full {
        /// Pages that it takes.
        needed: usize,
        /// Pages that nobody has.
        free: usize,
    },
    /// Beginnings are not taken over by this model, or what it has cached cannot be read.
    #[error("{0}")]
    Unsupported(String),
    /// The engine has stopped.
    #[error("the engine has stopped")]
    Stopped,
}

impl From<DeviceError> for KeepError {
    fn from(error: DeviceError) -> Self {
        Self::Unsupported(error.to_string())
    }
}

impl Cache {
    /// What is known of a sequence's beginning; `None` if that is nothing.
    pub(crate) fn save(&self, tokens: &[u32], device: &mut dyn Executable) -> Result<Option<Saved>, DeviceError> {
        let found = self.find(Content::from(tokens), tokens.len());
        let tokens = tokens[..found.pages.len() * self.page].to_vec();
        if tokens.is_empty() {
            return Ok(None);
        }
        let (mut pages, mut state) = (Vec::new(), Vec::new());
        for page in found.pages {
            device.read_cached(Cached::Page(page), &mut pages)?;
        }
        if let Some(slot) = found.state {
            device.read_cached(Cached::Slot(slot), &mut state)?;
        }
        Ok(Some(Saved { tokens, pages, state }))
    }

    /// Makes a beginning known that was saved. It is whole pages, as [`Saved::read`] has checked.
    pub(crate) fn load(&mut self, saved: &Saved, device: &mut dyn Executable) -> Result<(), KeepError> {
        let content = Content::from(&saved.tokens);
        let count = saved.tokens.len() / self.page;
        let mut keys = Vec::with_capacity(count);
        for i in 0..count {
            keys.push(self.key(keys.last(), content, i * self.page..(i + 1) * self.page));
        }
        let absent: Vec<usize> = (0..count).filter(|i| !self.known.of.contains_key(&keys[*i])).collect();
        // What is known already must not be given up for the rest.
        let present: Vec<u32> = keys.iter().filter_map(|key| self.known.of.get(key)).copied().collect();
        present.iter().for_each(|page| self.pages.share(*page));
        let loaded = self.load_absent(saved, &keys, &absent, device);
        present.iter().rev().for_each(|page| give(&mut self.pages, &self.known, *page));
        loaded
    }

    fn load_absent(&mut self, saved: &Saved, keys: &[super::Key], absent: &[usize], device: &mut dyn Executable) -> Result<(), KeepError> {
        let (needed, free) = (absent.len(), self.free_pages());
        if needed > free || (self.fixed && self.slots.free.is_empty()) {
            return Err(KeepError::Full { needed, free });
        }
        let bytes = saved.pages.len() / keys.len().max(1);
        let mut put = |part, known: &mut Known, key, at: u32, bytes: &[u8]| {
            let written = device.write_cached(part, bytes);
            if written.is_ok() {
                known.learn(key, at);
            }
            written
        };
        let pages: Vec<u32> = absent.iter().filter_map(|_| take(&mut self.pages, &mut self.known)).collect();
        let mut done = Ok(());
        for (i, page) in absent.iter().zip(&pages) {
            if done.is_ok() {
                done = put(Cached::Page(*page), &mut self.known, keys[*i], *page, &saved.pages[i * bytes..(i + 1) * bytes]);
            }
        }
        pages.iter().rev().for_each(|page| give(&mut self.pages, &self.known, *page));
        if let Some(key) = keys.last().filter(|key| done.is_ok() && self.fixed && !self.states.of.contains_key(*key))
            && let Some(slot) = take(&mut self.slots, &mut self.states)
        {
            done = put(Cached::Slot(slot), &mut self.states, *key, slot, &saved.state);
            self.slots.give(slot, done.is_ok());
        }
        Ok(done?)
    }

    /// Forgets a sequence's beginning; gives how many tokens of it were known.
    pub(crate) fn erase(&mut self, tokens: &[u32]) -> usize {
        let content = Content::from(tokens);
        let mut key = None;
        let mut known = 0;
        while (known + 1) * self.page <= tokens.len() {
            let next = self.key(key.as_ref(), content, known * self.page..(known + 1) * self.page);
            let Some(page) = self.known.of.get(&next).copied() else { break };
            self.known.forget(page);
            if let Some(slot) = self.states.of.get(&next).copied() {
                self.states.forget(slot);
            }
            (key, known) = (Some(next), known + 1);
        }
        known * self.page
    }
}
