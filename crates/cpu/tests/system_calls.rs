//! A step makes no system call: it does not wait for the system, nor does it lock anything that others hold.
#![cfg(target_os = "linux")]

use onebit_cpu::Cpu;
use onebit_formats::Checkpoint;
use onebit_plan::{ActivationKind, Batch, Device, KvType, Limits, Span};
use onebit_reference::check::{self, Expected};
use std::error::Error;

/// How a child ended that runs `work` with no system calls but reading, writing and ending (seccomp(2), `SECCOMP_SET_MODE_STRICT`).
fn alone(work: impl FnOnce() -> bool) -> Result<i32, Box<dyn Error>> {
    // SAFETY: the child is the calling thread alone, which leaves by `exit` without running what others have registered. glibc makes
    // its allocator usable in it.
    let child = unsafe { libc::fork() };
    match child {
        -1 => Err(std::io::Error::last_os_error().into()),
        0 => {
            // SAFETY: both calls have these arguments and touch no memory.
            unsafe {
                let strict = libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT) == 0;
                libc::syscall(libc::SYS_exit, if strict && work() { 0 } else { 1 });
                unreachable!("a process that has ended goes on");
            }
        }
        child => {
            let mut status = 0;
            // SAFETY: `status` is there to be written to.
            if unsafe { libc::waitpid(child, &raw mut status, 0) } != child {
                return Err(std::io::Error::last_os_error().into());
            }
            Ok(status)
        }
    }
}

#[test]
fn steps_make_no_system_calls() -> Result<(), Box<dyn Error>> {
    for name in ["llama", "qwen3_moe", "qwen3_5_text"] {
        let Some(folder) = check::folder(name) else { return Ok(()) };
        let model = onebit_models::load(&Checkpoint::open(&folder)?)?;
        let tokens = Expected::open(&folder)?.long;
        let limits = Limits { kv: KvType::F16, activations: ActivationKind::Int8, ..check::limits() };
        let mut exe = Cpu::new(Some(1)).load(model, &limits, &mut |_| {})?;
        let pages: Vec<u32> = (0..limits.pages as u32).collect();
        let mut all = || {
            let mut step = |from: usize, to: usize| {
                let span = Span { len: to - from, start: from, pages: &pages, slot: 0, outputs: 1 };
                exe.step(&Batch::text(&tokens[from..to], &[span])).is_ok()
            };
            step(0, 8) && (8..20).all(|t| step(t, t + 1))
        };
        assert!(all(), "{name}");
        assert_eq!(alone(all)?, 0, "{name}: exit status of a process that may not ask the system for anything");
    }
    // What does ask is killed.
    // SAFETY: the call has no arguments.
    let status = alone(|| unsafe { libc::syscall(libc::SYS_getpid) } > 0)?;
    assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL);
    Ok(())
}
