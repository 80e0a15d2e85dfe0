//! Global memory: allocations at device addresses, shared by all threads.
//!
//! Words are atomics, read and written relaxed, so that kernels with races are still sound Rust; on common hosts these are plain
//! loads and stores.

use std::sync::{
    Mutex,
    atomic::{AtomicU32, Ordering::Relaxed},
};
use thiserror::Error;

/// First address that is given.
const FIRST: u64 = 0x7f00_0000_0000;
/// Distance between allocations: what runs past the end of one is outside of all.
const GUARD: u64 = 1 << 16;

/// An allocation.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) base: u64,
    pub(crate) bytes: u64,
    pub(crate) name: String,
    words: Vec<AtomicU32>,
}

/// The allocations of a device.
#[derive(Debug, Default)]
pub struct Memory {
    regions: Vec<Region>,
    next: u64,
    /// Held during 64-bit atomics.
    wide: Mutex<()>,
}

/// An access outside of what was allocated.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MemoryError {
    /// Outside of all allocations.
    #[error("{bytes} bytes at {address:#x} are outside of all allocations{nearest}")]
    Outside {
        /// First address.
        address: u64,
        /// Bytes wanted.
        bytes: u64,
        /// Which allocation is nearest, and by how much it was missed.
        nearest: String,
    },
    /// More than can be allocated.
    #[error("cannot allocate {0} bytes: at most 64 GiB")]
    TooLarge(u64),
}

impl Memory {
    /// Memory without allocations.
    #[must_use]
    pub fn new() -> Self {
        Self { next: FIRST, ..Self::default() }
    }

    /// Gives `bytes` of zeroed memory; the address is a multiple of 4096. `name` is for messages.
    ///
    /// # Errors
    /// If that is more than 64 GiB.
    pub fn allocate(&mut self, bytes: u64, name: &str) -> Result<u64, MemoryError> {
        if bytes > 64 << 30 {
            return Err(MemoryError::TooLarge(bytes));
        }
        let base = self.next;
        self.next = (base + bytes.max(1) + GUARD).next_multiple_of(1 << 12);
        let words = std::iter::repeat_with(|| AtomicU32::new(0)).take((bytes as usize).div_ceil(4)).collect();
        self.regions.push(Region { base, bytes, name: name.to_string(), words });
        Ok(base)
    }

    /// Gives the memory at `address` back.
    pub fn free(&mut self, address: u64) {
        self.regions.retain(|r| r.base != address);
    }

    /// Copies `bytes` to `address`.
    ///
    /// # Errors
    /// If they do not lie within one allocation.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        let (region, at) = self.locate(address, bytes.len() as u64)?;
        let (lead, rest) = bytes.split_at(bytes.len().min(((4 - at % 4) % 4) as usize));
        for (i, &byte) in lead.iter().enumerate() {
            region.store_bytes(at + i as u64, byte.into(), 1);
        }
        let first = (at as usize + lead.len()) / 4;
        let words = rest.chunks_exact(4);
        let tail = words.remainder();
        let end = at + (bytes.len() - tail.len()) as u64;
        for (word, bytes) in region.words[first..].iter().zip(words) {
            word.store(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]), Relaxed);
        }
        for (i, &byte) in tail.iter().enumerate() {
            region.store_bytes(end + i as u64, byte.into(), 1);
        }
        Ok(())
    }

    /// Copies from `address` to `bytes`.
    ///
    /// # Errors
    /// If they do not lie within one allocation.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), MemoryError> {
        let (region, at) = self.locate(address, bytes.len() as u64)?;
        for (i, byte) in bytes.iter_mut().enumerate() {
            let at = at as usize + i;
            *byte = (region.words[at / 4].load(Relaxed) >> (8 * (at % 4))) as u8;
        }
        Ok(())
    }

    /// The region that holds `bytes` at `address`, and the offset within it.
    pub(crate) fn locate(&self, address: u64, bytes: u64) -> Result<(&Region, u64), MemoryError> {
        let index = self.regions.partition_point(|r| r.base <= address);
        if let Some(region) = index.checked_sub(1).map(|i| &self.regions[i]) {
            let at = address - region.base;
            if at.checked_add(bytes).is_some_and(|end| end <= region.bytes) {
                return Ok((region, at));
            }
        }
        Err(MemoryError::Outside { address, bytes, nearest: self.nearest(address, index) })
    }

    /// As [`Self::locate`], looking first where the last access was.
    #[inline(always)]
    pub(crate) fn locate_near(&self, near: &mut usize, address: u64, bytes: u64) -> Option<(&Region, u64)> {
        let holds = |region: &&Region| address.wrapping_sub(region.base).checked_add(bytes).is_some_and(|end| end <= region.bytes);
        if let Some(region) = self.regions.get(*near).filter(holds) {
            return Some((region, address - region.base));
        }
        let index = self.regions.partition_point(|r| r.base <= address).checked_sub(1)?;
        *near = index;
        self.regions.get(index).filter(holds).map(|region| (region, address - region.base))
    }

    /// Words on the allocation that an address just misses.
    fn nearest(&self, address: u64, after: usize) -> String {
        let before = after.checked_sub(1).map(|i| &self.regions[i]);
        let next = self.regions.get(after);
        let past = before.map(|r| (address.saturating_sub(r.base + r.bytes), r));
        let short = next.map(|r| (r.base - address, r));
        match (past, short) {
            (Some((distance, r)), s) if s.is_none_or(|(other, _)| distance <= other) => {
                format!("; {distance} bytes past the end of {:?} ({} bytes at {:#x})", r.name, r.bytes, r.base)
            }
            (_, Some((distance, r))) => format!("; {distance} bytes before {:?} ({} bytes at {:#x})", r.name, r.bytes, r.base),
            _ => String::new(),
        }
    }

    /// Replaces the value at an aligned address by `update` of it, at once; gives the old one.
    pub(crate) fn update(&self, region: &Region, at: u64, bytes: u8, update: impl Fn(u64) -> u64) -> u64 {
        let index = at as usize / 4;
        if bytes == 4 {
            let new = |old: u32| Some(update(old.into()) as u32);
            let (Ok(old) | Err(old)) = region.words[index].fetch_update(Relaxed, Relaxed, new);
            return old.into();
        }
        let guard = self.wide.lock();
        let old = region.load64(at);
        let new = update(old);
        region.words[index].store(new as u32, Relaxed);
        region.words[index + 1].store((new >> 32) as u32, Relaxed);
        drop(guard);
        old
    }
}

impl Region {
    /// The words themselves: element `i` holds bytes `4 i ..`.
    #[inline(always)]
    pub(crate) fn words(&self) -> &[AtomicU32] {
        &self.words
    }

    /// Four bytes at any offset; the caller has checked that they are there.
    #[inline(always)]
    pub(crate) fn load32(&self, at: u64) -> u32 {
        let (index, shift) = (at as usize / 4, 8 * (at as u32 % 4));
        let low = self.words[index].load(Relaxed);
        if shift == 0 { low } else { low >> shift | self.words[index + 1].load(Relaxed) << (32 - shift) }
    }

    fn load64(&self, at: u64) -> u64 {
        u64::from(self.load32(at)) | u64::from(self.load32(at + 4)) << 32
    }

    /// One or two bytes at any offset.
    #[inline(always)]
    pub(crate) fn load_bytes(&self, at: u64, count: u32) -> u32 {
        (0..u64::from(count)).fold(0, |value, i| {
            let at = at + i;
            value | (self.words[at as usize / 4].load(Relaxed) >> (8 * (at % 4)) & 255) << (8 * i)
        })
    }

    /// Four bytes at any offset.
    #[inline(always)]
    pub(crate) fn store32(&self, at: u64, value: u32) {
        if at.is_multiple_of(4) {
            self.words[at as usize / 4].store(value, Relaxed);
        } else {
            self.store_bytes(at, value, 4);
        }
    }

    /// Up to four bytes, each changed alone: neighbours may be written by others at the same time.
    pub(crate) fn store_bytes(&self, at: u64, value: u32, count: u64) {
        for i in 0..count {
            let at = at + i;
            let shift = 8 * (at % 4) as u32;
            let byte = value >> (8 * i) & 255;
            let put = |word: u32| Some(word & !(255 << shift) | byte << shift);
            let _ = self.words[at as usize / 4].fetch_update(Relaxed, Relaxed, put);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_at_any_offset() {
        let mut memory = Memory::new();
        let base = memory.allocate(23, "buffer").unwrap();
        let bytes: Vec<u8> = (1..=13).collect();
        memory.write(base + 3, &bytes).unwrap();
        let mut back = [0; 23];
        memory.read(base, &mut back).unwrap();
        assert_eq!(back[..3], [0; 3]);
        assert_eq!(back[3..16], bytes[..]);
        assert_eq!(back[16..], [0; 7]);
        let (region, at) = memory.locate(base + 5, 4).unwrap();
        assert_eq!(region.load32(at), 0x0605_0403);
        region.store32(at, 0xaabb_ccdd);
        memory.read(base, &mut back).unwrap();
        assert_eq!(back[4..10], [2, 0xdd, 0xcc, 0xbb, 0xaa, 7]);
    }

    #[test]
    fn what_is_outside_is_named() {
        let mut memory = Memory::new();
        let a = memory.allocate(100, "first").unwrap();
        let b = memory.allocate(100, "second").unwrap();
        assert!(b >= a + 100 + GUARD);
        let error = memory.locate(a + 98, 4).unwrap_err().to_string();
        assert!(error.contains("outside of all allocations"), "{error}");
        let error = memory.locate(a + 104, 4).unwrap_err().to_string();
        assert!(error.contains("4 bytes past the end of \"first\" (100 bytes"), "{error}");
        let error = memory.locate(b - 8, 4).unwrap_err().to_string();
        assert!(error.contains("8 bytes before \"second\""), "{error}");
        memory.free(a);
        assert!(memory.locate(a, 4).is_err());
        assert!(matches!(memory.allocate(u64::MAX, "all"), Err(MemoryError::TooLarge(_))));
    }
}
