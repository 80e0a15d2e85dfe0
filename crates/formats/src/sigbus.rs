//! Says which file it was when a mapped file is shortened under us.
//!
//! Reading a page of a mapping beyond the end of its file raises SIGBUS, which kills the process without a word. The
//! handler here looks the faulting address up in a table of live mappings and writes one line before it exits. It may
//! only do what is safe inside a signal handler, so the table is a fixed array of atomics and nothing is allocated.

use std::{
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::{
        Once,
        atomic::{AtomicU8, AtomicUsize, Ordering::*},
    },
};

/// Exit code after a mapped file changed: `EX_IOERR` of sysexits.h.
const EXIT: i32 = 74;
/// Mappings that can be watched at once; more are simply not named. The largest split models have a few hundred files.
const SLOTS: usize = 1024;
/// Bytes of the path that are kept (its end, which holds the file's name).
const NAME: usize = 240;

/// One watched mapping. `start` is 0 for a free slot, `BUSY` while the other fields change.
struct Slot {
    start: AtomicUsize,
    end: AtomicUsize,
    name_len: AtomicUsize,
    name: [AtomicU8; NAME],
}

const BUSY: usize = usize::MAX;

static TABLE: [Slot; SLOTS] = [const {
    Slot { start: AtomicUsize::new(0), end: AtomicUsize::new(0), name_len: AtomicUsize::new(0), name: [const { AtomicU8::new(0) }; NAME] }
}; SLOTS];

/// The disposition before ours: handler's address and flags. Written once before the handler is installed.
static OLD_HANDLER: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);
static OLD_FLAGS: AtomicUsize = AtomicUsize::new(0);

/// Frees its slot when dropped.
#[derive(Debug)]
pub(crate) struct Watched(usize);

impl Drop for Watched {
    fn drop(&mut self) {
        let slot = &TABLE[self.0];
        slot.start.store(BUSY, SeqCst);
        slot.end.store(0, SeqCst);
        slot.start.store(0, SeqCst);
    }
}

/// Watches `len` bytes at address `start`, which map `path`. `None` when the table is full.
pub(crate) fn watch(start: usize, len: usize, path: &Path) -> Option<Watched> {
    let index = TABLE.iter().position(|s| s.start.compare_exchange(0, BUSY, SeqCst, Relaxed).is_ok())?;
    let slot = &TABLE[index];
    let path = path.as_os_str().as_bytes();
    let name = &path[path.len().saturating_sub(NAME)..];
    for (to, from) in slot.name.iter().zip(name) {
        to.store(*from, Relaxed);
    }
    slot.name_len.store(name.len(), Relaxed);
    slot.end.store(start.saturating_add(len), SeqCst);
    slot.start.store(start, SeqCst);
    Some(Watched(index))
}

/// The slot whose mapping holds `address`. A thread that faults in a mapping borrows it, so that the slot cannot be freed
/// meanwhile; other slots may change under the search, hence the second look at `start`.
fn find(address: usize) -> Option<&'static Slot> {
    TABLE.iter().find(|slot| {
        let start = slot.start.load(SeqCst);
        let end = slot.end.load(SeqCst);
        start != 0 && start != BUSY && (start..end.next_multiple_of(4096)).contains(&address) && slot.start.load(SeqCst) == start
    })
}

/// Installs the handler, once.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: plain calls of sigaction(2) with zeroed, then filled, structures; `handler` has the signature that
        // SA_SIGINFO asks for and does only what is async-signal-safe. SA_ONSTACK: Rust gives its threads a signal stack.
        unsafe {
            let mut old: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(libc::SIGBUS, std::ptr::null(), &mut old) != 0 {
                return;
            }
            OLD_HANDLER.store(old.sa_sigaction, SeqCst);
            OLD_FLAGS.store(old.sa_flags as usize, SeqCst);
            let mut new: libc::sigaction = std::mem::zeroed();
            new.sa_sigaction = handler as *const () as usize;
            new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&mut new.sa_mask);
            libc::sigaction(libc::SIGBUS, &new, std::ptr::null_mut());
        }
    });
}

extern "C" fn handler(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes a valid siginfo_t; for SIGBUS it holds an address.
    let address = unsafe { (*info).si_addr() } as usize;
    if let Some(slot) = find(address) {
        report(slot);
    }
    chain(signal, info, context);
}

/// Writes the message and ends the process.
fn report(slot: &Slot) -> ! {
    const BEFORE: &[u8] = b"1bit: ";
    const AFTER: &[u8] =
        b": the file changed or was shortened while in use, or its disk failed; stopped. Restart once the file is whole again.\n";
    let mut line = [0u8; BEFORE.len() + NAME + AFTER.len()];
    let mut n = BEFORE.len();
    line[..n].copy_from_slice(BEFORE);
    for c in slot.name.iter().take(slot.name_len.load(Relaxed)) {
        line[n] = c.load(Relaxed);
        n += 1;
    }
    line[n..n + AFTER.len()].copy_from_slice(AFTER);
    n += AFTER.len();
    // SAFETY: write(2) and _exit(2) are async-signal-safe; `line` holds `n` initialised bytes.
    unsafe {
        libc::write(2, line.as_ptr().cast(), n);
        libc::_exit(EXIT)
    }
}

/// Hands the signal to the disposition that was there before ours.
fn chain(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let old = OLD_HANDLER.load(SeqCst);
    let flags = OLD_FLAGS.load(SeqCst) as libc::c_int;
    if old == libc::SIG_DFL || old == libc::SIG_IGN {
        // The default is to end with a core dump: put it back, and the access that failed fails again on return.
        // SAFETY: signal(2) is async-signal-safe.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    } else if flags & libc::SA_SIGINFO != 0 {
        // SAFETY: sigaction(2) told us that this is a handler of three arguments.
        let old: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = unsafe { std::mem::transmute(old) };
        old(signal, info, context);
    } else {
        // SAFETY: sigaction(2) told us that this is a handler of one argument.
        let old: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(old) };
        old(signal);
    }
}
