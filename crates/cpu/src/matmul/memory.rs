//! Memory for weights and activations: zeroed, aligned to cache lines, in huge pages where the system has them.

use onebit_plan::DeviceError;
use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    ptr::NonNull,
};

/// Alignment of small pieces: a cache line, and the widest register.
const LINE: usize = 64;
/// Alignment of large pieces, so that huge pages can back them.
const HUGE: usize = 2 << 20;

/// Zeroed bytes that may be written by several threads at once, each to its own part.
pub(super) struct Memory {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: plain bytes; whoever writes through `start` sees to it that nobody else uses the same part then.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// `len` zero bytes; `what` they are for is said when there are not so many.
    pub(super) fn zeroed(len: usize, what: impl FnOnce() -> String) -> Result<Self, DeviceError> {
        let align = if len >= HUGE { HUGE } else { LINE };
        let rounded = len.max(1).checked_next_multiple_of(LINE);
        let layout = rounded.and_then(|len| Layout::from_size_align(len, align).ok());
        // SAFETY: the size is not zero.
        let start = layout.and_then(|l| NonNull::new(unsafe { alloc_zeroed(l) }).map(|p| (p, l)));
        let Some((start, layout)) = start else {
            let available = available().unwrap_or(0);
            return Err(DeviceError::Memory { what: what(), needed: len, available, flag: "--context" });
        };
        if len >= HUGE {
            // A hint; nothing follows from a refusal.
            // SAFETY: the range is this allocation; the advice changes no contents.
            let _ = unsafe { rustix::mm::madvise(start.as_ptr().cast(), layout.size(), rustix::mm::Advice::LinuxHugepage) };
        }
        Ok(Self { start, layout })
    }
    /// The first byte.
    pub(super) fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.layout.size()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// Bytes that the system says can be allocated without swapping.
fn available() -> Option<usize> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()? * 1024)
}
