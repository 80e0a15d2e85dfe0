//! Ending with another process: a server that was started for one must not outlive it.

use anyhow::Context;
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::{Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open},
};

/// Sends SIGTERM to this process when the process `pid` has ended, however it ended.
///
/// `PR_SET_PDEATHSIG` would be simpler, but tells when the *thread* ends that started this process.
pub(crate) fn end_with(pid: u32) -> anyhow::Result<()> {
    let other =
        i32::try_from(pid).ok().and_then(Pid::from_raw).with_context(|| format!("--stop-with {pid}: no process has this number"))?;
    let stop = move || {
        tracing::info!("process {pid} has ended, and so does this one");
        // It fails only where there is no such process.
        let _ = kill_process(getpid(), Signal::TERM);
    };
    let descriptor = match pidfd_open(other, PidfdFlags::empty()) {
        Ok(descriptor) => descriptor,
        // Gone already.
        Err(Errno::SRCH) => {
            stop();
            return Ok(());
        }
        Err(e) => return Err(e).with_context(|| format!("--stop-with {pid}: the process cannot be watched")),
    };
    let watch = move || {
        let mut ended = [PollFd::new(&descriptor, PollFlags::IN)];
        while poll(&mut ended, None) == Err(Errno::INTR) {}
        stop();
    };
    std::thread::Builder::new().name("companion".into()).spawn(watch).context("watching the other process")?;
    Ok(())
}
