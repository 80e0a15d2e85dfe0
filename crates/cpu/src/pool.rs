//! Threads that stay, for work that comes thousands of times a second.
//!
//! [`Pool::run`] gives the same closure to every thread, the caller being one of them, and returns when all are done.
//! Inside, threads divide work by their index ([`Worker::chunk`]), by a shared counter ([`Counter`]), and wait for each
//! other at [`Worker::barrier`]. A waiting thread spins for some tens of microseconds, which is what a barrier or the gap
//! between two steps takes, and then sleeps until it is woken. So an idle pool costs nothing, and where other programs want
//! the processors too, a thread that waits leaves its own to the thread that it waits for.

use std::{
    any::Any,
    cell::UnsafeCell,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// How long a waiting thread spins before it sleeps.
const SPIN: Duration = Duration::from_micros(50);
/// How often it looks before it reads the clock.
const LOOKS: u32 = 64;
/// How long a thread sleeps at a barrier before it looks whether another has panicked.
const NAP: Duration = Duration::from_millis(20);

/// A number that threads wait for to change.
#[derive(Default)]
struct Gate {
    opened: AtomicU32,
    /// Threads that sleep, or are about to.
    asleep: AtomicU32,
}

impl Gate {
    /// How often it was opened.
    fn opened(&self) -> u32 {
        self.opened.load(Acquire)
    }
    /// Lets the threads pass that wait at it. What the opener wrote before, they see.
    fn open(&self) {
        // Sequentially consistent against `asleep`: either the sleeper sees the new number, or this thread sees the sleeper.
        self.opened.fetch_add(1, SeqCst);
        if self.asleep.load(SeqCst) > 0 {
            system::wake(&self.opened);
        }
    }
    /// Waits until the number is not `seen`; the new number. `check` is called from time to time, if there is one.
    fn pass(&self, seen: u32, check: Option<&dyn Fn()>) -> u32 {
        let start = Instant::now();
        loop {
            for _ in 0..LOOKS {
                let now = self.opened();
                if now != seen {
                    return now;
                }
                std::hint::spin_loop();
            }
            if let Some(check) = check {
                check();
            }
            if start.elapsed() > SPIN {
                break;
            }
        }
        loop {
            self.asleep.fetch_add(1, SeqCst);
            system::sleep(&self.opened, seen, check.map(|_| NAP));
            self.asleep.fetch_sub(1, Relaxed);
            let now = self.opened();
            if now != seen {
                return now;
            }
            if let Some(check) = check {
                check();
            }
        }
    }
}

/// Sleeping on a number in memory.
mod system {
    use std::{sync::atomic::AtomicU32, time::Duration};

    /// Sleeps while `word` is `value`, for `longest` at most; may return early.
    #[cfg(target_os = "linux")]
    pub(super) fn sleep(word: &AtomicU32, value: u32, longest: Option<Duration>) {
        use rustix::thread::futex::{self, Timespec};
        let longest = longest.map(|d| Timespec { tv_sec: d.as_secs() as _, tv_nsec: d.subsec_nanos().into() });
        // An error says that the number has changed, that time is up, or that a signal came: all are for the caller to find out.
        let _ = futex::wait(word, futex::Flags::PRIVATE, value, longest.as_ref());
    }
    /// Wakes all that sleep on `word`.
    #[cfg(target_os = "linux")]
    pub(super) fn wake(word: &AtomicU32) {
        use rustix::thread::futex;
        // It fails only for addresses that do not exist.
        let _ = futex::wake(word, futex::Flags::PRIVATE, i32::MAX as u32);
    }
    /// Elsewhere, a short sleep.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn sleep(_: &AtomicU32, _: u32, _: Option<Duration>) {
        std::thread::sleep(Duration::from_micros(50));
    }
    /// Elsewhere, sleepers wake by themselves.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn wake(_: &AtomicU32) {}
}

/// A counter alone on its cache lines (two, as processors fetch lines in pairs).
#[repr(align(128))]
#[derive(Default)]
struct Padded<T>(T);

/// A closure that lives as long as the run.
type Job = *const (dyn Fn(Worker<'_>) + Sync);

struct Shared {
    /// Opened when there is a new run.
    run: Padded<Gate>,
    /// Threads that have not finished the run.
    busy: Padded<AtomicUsize>,
    /// Opened when none is left.
    done: Padded<Gate>,
    /// Threads that have come to the barrier.
    arrived: Padded<AtomicUsize>,
    /// Opened when all have.
    barrier: Padded<Gate>,
    /// The work; written by the caller before `run` opens, read by threads after.
    job: UnsafeCell<Option<Job>>,
    /// A thread has panicked in this run: barriers no longer hold anyone.
    failed: AtomicBool,
    /// The pool is being dropped.
    over: AtomicBool,
    /// What the first panic said.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    count: usize,
}

// SAFETY: `job` is written only by the caller of `Pool::run` while no thread reads it (all have counted themselves out of
// `busy`), and published by opening `run`. The closure behind it is `Sync`, and outlives the run.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

/// A set of threads. Dropping it ends them.
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// One run at a time.
    turn: Mutex<()>,
}

impl Pool {
    /// A pool of `threads` threads, the caller of [`Pool::run`] being one of them; at least one. If the system gives fewer, the pool is smaller.
    pub fn new(threads: usize) -> Self {
        let count = threads.max(1);
        let mut shared = Self::shared(count);
        let mut handles = Self::spawn(&shared);
        if handles.len() + 1 < count {
            tracing::warn!("only {} of {count} threads could be started", handles.len() + 1);
            let fewer = handles.len() + 1;
            drop(Self { shared, threads: handles, turn: Mutex::default() });
            shared = Self::shared(fewer);
            handles = Self::spawn(&shared);
        }
        Self { shared, threads: handles, turn: Mutex::default() }
    }
    fn shared(count: usize) -> Arc<Shared> {
        Arc::new(Shared {
            run: Padded::default(),
            busy: Padded::default(),
            arrived: Padded::default(),
            barrier: Padded::default(),
            done: Padded::default(),
            job: UnsafeCell::new(None),
            failed: AtomicBool::new(false),
            over: AtomicBool::new(false),
            panic: Mutex::new(None),
            count,
        })
    }
    /// Starts the threads other than the caller, as many as the system gives.
    fn spawn(shared: &Arc<Shared>) -> Vec<JoinHandle<()>> {
        (1..shared.count)
            .map_while(|index| {
                let shared = Arc::clone(shared);
                std::thread::Builder::new().name(format!("onebit-{index}")).spawn(move || serve(&shared, index)).ok()
            })
            .collect()
    }
    /// Threads that are best without knowing more: physical cores among the processors that this process may use, within its share of time.
    pub fn default_threads() -> usize {
        // Heeds the affinity mask and, on Linux, the quota of the control group.
        let allowed = std::thread::available_parallelism().map_or(1, |n| n.get());
        cores().map_or(allowed, |cores| cores.clamp(1, allowed))
    }
    /// Number of threads, the caller included.
    pub fn threads(&self) -> usize {
        self.shared.count
    }
    /// Runs `f` once on every thread, the caller included, and returns when all are done. Nothing is allocated.
    ///
    /// Panics in `f` are passed on when all threads are done; threads at a barrier are released by panicking too.
    /// A call from within `f` would wait for itself forever; do not.
    pub fn run(&self, f: &(dyn Fn(Worker<'_>) + Sync)) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let s = &*self.shared;
        s.arrived.0.store(0, Relaxed);
        s.failed.store(false, Relaxed);
        s.busy.0.store(s.count - 1, Relaxed);
        // SAFETY: no thread reads the job now (the last run's have all counted themselves out). The lifetime is erased, but this
        // function does not return before every thread has finished with the closure.
        unsafe { *s.job.get() = Some(std::mem::transmute::<&(dyn Fn(Worker<'_>) + Sync), Job>(f)) };
        let done = s.done.0.opened();
        s.run.0.open();
        work(s, 0, f);
        if s.count > 1 {
            s.done.0.pass(done, None);
        }
        if s.failed.load(Relaxed) {
            let first = s.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
            resume_unwind(first.unwrap_or_else(|| Box::new("a thread of the pool panicked")));
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.over.store(true, Relaxed);
        self.shared.run.0.open();
        for handle in self.threads.drain(..) {
            // A thread catches every panic of its work, so that joining cannot fail.
            let _ = handle.join();
        }
    }
}

/// The life of a thread.
fn serve(s: &Shared, index: usize) {
    let mut seen = 0;
    loop {
        seen = s.run.0.pass(seen, None);
        if s.over.load(Relaxed) {
            return;
        }
        // SAFETY: `pass` acquired the run's number, and the job was written before it; the caller waits for `busy` before the
        // closure goes or the cell is written again.
        if let Some(job) = unsafe { *s.job.get() } {
            // SAFETY: as above.
            work(s, index, unsafe { &*job });
        }
        if s.busy.0.fetch_sub(1, AcqRel) == 1 {
            s.done.0.open();
        }
    }
}

/// One thread's part of a run. Keeps the first panic.
fn work(s: &Shared, index: usize, f: &(dyn Fn(Worker<'_>) + Sync)) {
    let worker = Worker { index, count: s.count, shared: s };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| f(worker))) {
        let mut first = s.panic.lock().unwrap_or_else(PoisonError::into_inner);
        if !s.failed.swap(true, SeqCst) {
            *first = Some(panic);
        }
    }
}

/// One thread's view of a run.
#[derive(Clone, Copy)]
pub struct Worker<'a> {
    /// Which thread this is, from 0.
    pub index: usize,
    /// How many there are.
    pub count: usize,
    shared: &'a Shared,
}

impl Worker<'_> {
    /// Waits until every thread of the run has come here; what they wrote before is then visible. Every thread must come
    /// to the same barriers. Panics when another thread of the run panicked.
    pub fn barrier(&self) {
        let s = self.shared;
        if s.count == 1 {
            return;
        }
        let opened = s.barrier.0.opened();
        if s.arrived.0.fetch_add(1, AcqRel) + 1 == s.count {
            s.arrived.0.store(0, Relaxed);
            s.barrier.0.open();
            return;
        }
        s.barrier.0.pass(opened, Some(&|| assert!(!s.failed.load(Relaxed), "another thread of the pool panicked")));
    }
    /// This thread's part of `0..total`, in multiples of `step` (the last part may end between).
    pub fn chunk(&self, total: usize, step: usize) -> Range<usize> {
        part(total, step, self.index, self.count)
    }
}

/// Part `index` of `count` nearly equal parts of `0..total`, cut at multiples of `step`.
pub fn part(total: usize, step: usize, index: usize, count: usize) -> Range<usize> {
    let steps = total.div_ceil(step.max(1));
    let at = |i: usize| (steps * i / count * step).min(total);
    at(index)..at(index + 1)
}

/// Hands out the steps of a range to whoever comes first; for work whose parts take different times.
/// Set it back with [`Counter::reset`] where no thread takes from it: before a run, or between two barriers.
#[derive(Default)]
pub struct Counter(Padded<AtomicUsize>);

impl Counter {
    /// A counter at zero.
    pub const fn new() -> Self {
        Self(Padded(AtomicUsize::new(0)))
    }
    /// Starts over.
    pub fn reset(&self) {
        self.0.0.store(0, Relaxed);
    }
    /// The next `step` of `0..total` that nobody has taken; the last may be shorter.
    pub fn take(&self, total: usize, step: usize) -> Option<Range<usize>> {
        let start = self.0.0.fetch_add(step, Relaxed);
        (start < total).then(|| start..(start + step).min(total))
    }
}

/// Physical cores among the processors of this thread's affinity mask; `None` where the system does not tell.
fn cores() -> Option<usize> {
    let mask = rustix::thread::sched_getaffinity(None).ok()?;
    let mut seen = std::collections::HashSet::new();
    for cpu in (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| mask.is_set(*cpu)) {
        let siblings = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        seen.insert(std::fs::read_to_string(siblings).ok()?);
    }
    Some(seen.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_runs_once_and_barriers_order_phases() {
        for threads in [1, 2, 3, 8] {
            let pool = Pool::new(threads);
            let phases = [const { AtomicUsize::new(0) }; 50];
            for _ in 0..20 {
                phases.iter().for_each(|p| p.store(0, Relaxed));
                pool.run(&|w| {
                    for (i, phase) in phases.iter().enumerate() {
                        assert!(i == 0 || phases[i - 1].load(Relaxed) == w.count);
                        phase.fetch_add(1, Relaxed);
                        w.barrier();
                    }
                });
                assert!(phases.iter().all(|p| p.load(Relaxed) == threads));
            }
        }
    }

    #[test]
    fn sleeping_threads_wake() {
        let pool = Pool::new(4);
        let ran = AtomicUsize::new(0);
        for i in 0..10 {
            std::thread::sleep(Duration::from_millis(i % 3));
            pool.run(&|_| {
                ran.fetch_add(1, Relaxed);
            });
        }
        assert_eq!(ran.into_inner(), 40);
    }

    /// Processor time that all threads of the process have used.
    fn cpu_time() -> Duration {
        let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writes to a `timespec`.
        assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut t) }, 0);
        Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
    }

    #[test]
    fn an_idle_pool_uses_no_processor_time() {
        let pool = Pool::new(8);
        pool.run(&|_| {});
        std::thread::sleep(Duration::from_millis(5));
        // Other tests of this process may run now, so that a quiet interval is looked for, not demanded of the first.
        let quiet = (0..200).any(|_| {
            let before = cpu_time();
            std::thread::sleep(Duration::from_millis(20));
            cpu_time() - before < Duration::from_millis(2)
        });
        assert!(quiet);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let pool = Pool::new(3);
        for thrower in 0..3 {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                pool.run(&|w| {
                    assert!(w.index != thrower, "thrown by {thrower}");
                    w.barrier();
                    w.barrier();
                });
            }));
            let what = caught.unwrap_err();
            assert_eq!(what.downcast_ref::<String>().unwrap(), &format!("thrown by {thrower}"));
            let ran = AtomicUsize::new(0);
            pool.run(&|w| {
                w.barrier();
                ran.fetch_add(1, Relaxed);
            });
            assert_eq!(ran.into_inner(), 3);
        }
    }

    #[test]
    fn parts_cover_everything_once() {
        for (total, step, count) in [(0, 16, 2), (1, 16, 3), (17, 16, 2), (576, 16, 5), (100, 1, 7), (49152, 16, 2)] {
            let mut next = 0;
            for i in 0..count {
                let p = part(total, step, i, count);
                assert!(p.start == next && (p.start.is_multiple_of(step) || p.is_empty()));
                next = p.end;
            }
            assert_eq!(next, total);
        }
    }

    #[test]
    fn counters_hand_out_everything_once() {
        let (pool, counter, sum) = (Pool::new(3), Counter::new(), AtomicUsize::new(0));
        pool.run(&|_| {
            while let Some(r) = counter.take(1000, 16) {
                sum.fetch_add(r.sum::<usize>(), Relaxed);
            }
        });
        assert_eq!(sum.into_inner(), 999 * 1000 / 2);
    }

    #[test]
    fn default_threads_are_within_what_is_allowed() {
        let n = Pool::default_threads();
        assert!(n >= 1 && n <= std::thread::available_parallelism().unwrap().get());
    }
}
