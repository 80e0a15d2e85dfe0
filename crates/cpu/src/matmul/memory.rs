//! Memory for weights and activations: zeroed, aligned to cache lines, in huge pages where the system has them.
//!
//! A model has hundreds of matrices that are smaller than a huge page. They are so taken one after the other from large
//! regions, each of which goes when the last of its pieces does.

use onebit_plan::DeviceError;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::{
    ptr::NonNull,
    sync::{Arc, Mutex, PoisonError, Weak},
};

/// Alignment of pieces: a cache line, and the widest register.
const LINE: usize = 64;
/// Alignment of regions, so that huge pages can back them.
const HUGE: usize = 2 << 20;
/// Bytes of a region. Its pages are only there once they are written to.
const REGION: usize = 32 << 20;

/// A piece of memory from the system.
struct Region {
    /// The mapping, somewhat longer than the region, which begins at the first multiple of [`HUGE`] in it.
    mapping: NonNull<u8>,
    mapped: usize,
}

// SAFETY: plain bytes; whoever writes to a piece sees to it that nobody else uses the same part then.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// At least `len` zeros, whose pages come when they are first touched; `None` where the system has no more.
    fn new(len: usize) -> Option<Self> {
        let mapped = len.checked_add(HUGE)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, wherever the system wants it, shared with nobody.
        let mapping = unsafe { mmap_anonymous(std::ptr::null_mut(), mapped, access, MapFlags::PRIVATE) }.ok()?;
        // A hint; nothing follows from a refusal.
        // SAFETY: the range is this mapping; the advice changes no contents.
        let _ = unsafe { madvise(mapping, mapped, Advice::LinuxHugepage) };
        Some(Self { mapping: NonNull::new(mapping.cast())?, mapped })
    }
    fn start(&self) -> *mut u8 {
        let skip = self.mapping.as_ptr().align_offset(HUGE);
        // SAFETY: less than `HUGE`, which the mapping is longer than what was asked for.
        unsafe { self.mapping.as_ptr().add(skip) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and no piece of it is left. That it fails for a mapping which exists is not to be expected,
        // and would only mean that it stays.
        let _ = unsafe { munmap(self.mapping.as_ptr().cast(), self.mapped) };
    }
}

/// The region that small pieces are taken from, and how much of it has been.
static OPEN: Mutex<(Weak<Region>, usize)> = Mutex::new((Weak::new(), 0));

/// Zeroed bytes that may be written by several threads at once, each to its own part.
pub(super) struct Memory {
    region: Arc<Region>,
    offset: usize,
    len: usize,
}

impl Memory {
    /// `len` zero bytes; `what` they are for is said when there are not so many.
    pub(super) fn zeroed(len: usize, what: impl FnOnce() -> String) -> Result<Self, DeviceError> {
        let fail = || DeviceError::Memory { what: what(), needed: len, available: available().unwrap_or(0), flag: "--ctx-size" };
        Self::take(len).ok_or_else(fail)
    }
    fn take(len: usize) -> Option<Self> {
        let len = len.max(1).checked_next_multiple_of(LINE)?;
        if len >= REGION / 4 {
            return Some(Self { region: Arc::new(Region::new(len)?), offset: 0, len });
        }
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let (region, offset) = match open.0.upgrade() {
            Some(region) if open.1 + len <= REGION => (region, open.1),
            _ => (Arc::new(Region::new(REGION)?), 0),
        };
        *open = (Arc::downgrade(&region), offset + len);
        Some(Self { region, offset, len })
    }
    /// The first byte.
    pub(super) fn as_ptr(&self) -> *mut u8 {
        // SAFETY: within the region, whose part from `offset` on is this piece's alone.
        unsafe { self.region.start().add(self.offset) }
    }
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

/// Bytes that the system says can be allocated without swapping.
fn available() -> Option<usize> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_zero_apart_and_aligned() {
        let take = |len: usize| Memory::zeroed(len, || "a test".into()).unwrap();
        let mut pieces: Vec<Memory> = (0..200).map(|i| take(i * 5000)).collect();
        pieces.push(take(REGION));
        pieces.push(take(1));
        for (i, m) in pieces.iter().enumerate() {
            assert!(m.as_ptr().addr().is_multiple_of(LINE));
            // SAFETY: the piece's own bytes.
            let bytes = unsafe { std::slice::from_raw_parts_mut(m.as_ptr(), m.len()) };
            assert!(bytes.iter().all(|b| *b == 0), "piece {i}");
            bytes.fill(i as u8 | 1);
        }
        let mut ranges: Vec<_> = pieces.iter().map(|m| m.as_ptr().addr()..m.as_ptr().addr() + m.len()).collect();
        ranges.sort_by_key(|r| r.start);
        assert!(ranges.windows(2).all(|w| w[0].end <= w[1].start));
    }

    #[test]
    fn too_much_is_refused() {
        for len in [usize::MAX, usize::MAX / 2, isize::MAX as usize - 10] {
            assert!(matches!(Memory::zeroed(len, || "a test".into()), Err(DeviceError::Memory { needed, .. }) if needed == len));
        }
    }
}
