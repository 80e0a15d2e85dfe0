//! Memory that the threads of a step write together.

use onebit_plan::DeviceError;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::{marker::PhantomData, ops::Range, ptr::NonNull};

/// Numbers for which all bytes zero is a value, and that any thread may hold.
pub(crate) trait Plain: Copy + Send + Sync + 'static {}
impl Plain for f32 {}
impl Plain for f64 {}
impl Plain for i8 {}
impl Plain for u16 {}
impl Plain for u32 {}
impl Plain for u64 {}

/// A fixed run of zeroed numbers on pages of its own, which the system only gives when they are touched.
///
/// Threads write disjoint parts through a shared reference; who writes what is decided by the ops, and barriers lie
/// between a write and a read by another thread. That is why its accessors are unsafe.
pub(crate) struct Shared<T> {
    start: NonNull<T>,
    len: usize,
    bytes: usize,
    owns: PhantomData<T>,
}

// SAFETY: it owns its memory, as a `Box<[T]>` does, and `T` may go to any thread.
unsafe impl<T: Plain> Send for Shared<T> {}
// SAFETY: shared access is only through unsafe accessors whose callers keep writes apart.
unsafe impl<T: Plain> Sync for Shared<T> {}

impl<T: Plain> Shared<T> {
    /// `len` zeros.
    pub(crate) fn new(len: usize) -> Result<Self, DeviceError> {
        let fail = |e: &dyn std::fmt::Display| DeviceError::Failed(format!("the system gives no memory for {len} numbers: {e}"));
        let bytes = len.max(1).checked_mul(size_of::<T>()).ok_or_else(|| fail(&"too many"))?;
        // SAFETY: a new anonymous mapping aliases nothing.
        let at = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) };
        let at = at.map_err(|e| fail(&e))?;
        let Some(start) = NonNull::new(at.cast::<T>()) else { return Err(fail(&"no address")) };
        if bytes >= 4 << 20 {
            // SAFETY: the range is the mapping just made. A refusal only costs speed.
            let _ = unsafe { rustix::mm::madvise(at, bytes, Advice::LinuxHugepage) };
        }
        Ok(Self { start, len, bytes, owns: PhantomData })
    }
    /// Numbers in it.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
    /// The first number's address.
    pub(crate) fn as_ptr(&self) -> *mut T {
        self.start.as_ptr()
    }
    /// Reads a part.
    ///
    /// # Safety
    /// No other thread writes to it while the reference lives.
    pub(crate) unsafe fn part(&self, range: Range<usize>) -> &[T] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: within the mapping; the caller keeps writers away.
        unsafe { std::slice::from_raw_parts(self.as_ptr().add(range.start), range.len()) }
    }
    /// A part as bytes, all of which are values of `T`.
    ///
    /// # Safety
    /// No other reference to it, in any thread, lives while this one does.
    #[allow(clippy::mut_from_ref)] // what the type is for
    pub(crate) unsafe fn bytes_mut(&self, range: Range<usize>) -> &mut [u8] {
        // SAFETY: passed on.
        let part = unsafe { self.part_mut(range) };
        // SAFETY: the same memory; `Plain` types have no padding, and any bytes are one of their values.
        unsafe { std::slice::from_raw_parts_mut(part.as_mut_ptr().cast(), size_of_val(part)) }
    }
    /// Writes a part.
    ///
    /// # Safety
    /// No other reference to it, in any thread, lives while this one does.
    #[allow(clippy::mut_from_ref)] // what the type is for
    pub(crate) unsafe fn part_mut(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: within the mapping; the caller keeps others away.
        unsafe { std::slice::from_raw_parts_mut(self.as_ptr().add(range.start), range.len()) }
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, of the same length; nothing borrows it any more.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_zero_and_holds_what_is_written() {
        let s = Shared::<f32>::new(1000).unwrap();
        // SAFETY: one thread, one reference at a time.
        unsafe {
            assert!(s.part(0..1000).iter().all(|x| *x == 0.0));
            s.part_mut(10..12).copy_from_slice(&[1.0, 2.0]);
            assert_eq!(s.part(9..13), [0.0, 1.0, 2.0, 0.0]);
        }
        assert!(Shared::<f32>::new(usize::MAX / 2).is_err());
    }
}
