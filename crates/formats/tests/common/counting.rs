//! An allocator that counts, to hold what opening a file allocates against a limit.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

pub struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static START: AtomicUsize = AtomicUsize::new(0);

/// Counts from now on.
pub fn start() {
    START.store(LIVE.load(Relaxed), Relaxed);
    PEAK.store(LIVE.load(Relaxed), Relaxed);
}

/// The most bytes that were allocated at once since [`start`], beyond those of then.
pub fn peak() -> usize {
    PEAK.load(Relaxed).saturating_sub(START.load(Relaxed))
}

// SAFETY: hands every call to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        PEAK.fetch_max(LIVE.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        // SAFETY: as our caller promised.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as our caller promised.
        unsafe { System.dealloc(ptr, layout) }
    }
}
