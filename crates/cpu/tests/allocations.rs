//! A step allocates nothing.

use onebit_cpu::Cpu;
use onebit_formats::Checkpoint;
use onebit_plan::{ActivationKind, Batch, Device, KvType, Limits, Span};
use onebit_reference::check::{self, Expected};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    error::Error,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
};

/// Counts allocations, in any thread, while it is told to.
struct Counting;

static ON: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if ON.load(SeqCst) {
            COUNT.fetch_add(1, SeqCst);
        }
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { System.dealloc(p, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The only test of this program, as it counts the allocations of all threads.
#[test]
fn steps_allocate_nothing() -> Result<(), Box<dyn Error>> {
    for name in ["llama", "qwen3_moe", "qwen3_5_text"] {
        let Some(folder) = check::folder(name) else { return Ok(()) };
        let model = onebit_models::load(&Checkpoint::open(&folder)?)?;
        let tokens = Expected::open(&folder)?.long;
        let limits = Limits { kv: KvType::F16, activations: ActivationKind::Int16, ..check::limits() };
        let mut exe = Cpu::new(Some(2)).load(model, &limits, &mut |_| {})?;
        let (even, odd): (Vec<u32>, Vec<u32>) = (0..limits.pages as u32).partition(|p| p % 2 == 0);
        let mut all = || -> Result<(), Box<dyn Error>> {
            let span = |start, len, pages, slot| Span { len, start, pages, slot, outputs: 1 };
            exe.step(&Batch::text(&tokens[..8], &[span(0, 8, &even, 0)]))?;
            exe.step(&Batch::text(&tokens[..4], &[span(8, 1, &even, 0), span(0, 3, &odd, 1)]))?;
            exe.copy_slots(&[(0, 2)]);
            exe.copy_pages(&[(0, 1)]);
            for t in 9..20 {
                exe.step(&Batch::text(&tokens[t..t + 1], &[span(t, 1, &even, 0)]))?;
            }
            Ok(())
        };
        // The first steps may still set up what the standard library keeps for each thread.
        all()?;
        ON.store(true, SeqCst);
        let before = COUNT.load(SeqCst);
        let outcome = all();
        ON.store(false, SeqCst);
        outcome?;
        assert_eq!(COUNT.load(SeqCst) - before, 0, "{name}");
        // The counter does count.
        ON.store(true, SeqCst);
        drop(std::hint::black_box(vec![1u8; 10]));
        ON.store(false, SeqCst);
        assert_eq!(COUNT.load(SeqCst) - before, 1);
    }
    Ok(())
}
