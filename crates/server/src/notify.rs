//! Tells systemd how the server is (`sd_notify(3)`): when it is ready, when it stops, and that it is alive.

use crate::state::{LoadProgress, Model};
use onebit_engine::Stats;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How often the progress of loading is told.
const LOADING: Duration = Duration::from_secs(1);
/// For how long systemd is to have patience after progress was told.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where it is told.
#[derive(Clone, Debug)]
pub struct Notify {
    socket: Arc<UnixDatagram>,
    watchdog: Option<Duration>,
}

impl Notify {
    /// A socket by its name, as in `NOTIFY_SOCKET`: a path, or `@` and a name without a file. `watchdog` is after how long without a word the
    /// server is taken for dead.
    pub fn to(name: &OsStr, watchdog: Option<Duration>) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        match name.as_bytes() {
            [b'@', rest @ ..] => socket.connect_addr(&SocketAddr::from_abstract_name(rest)?)?,
            _ => socket.connect(Path::new(name))?,
        }
        // A manager that does not read must not hold up the server.
        socket.set_nonblocking(true)?;
        Ok(Self { socket: Arc::new(socket), watchdog })
    }

    /// What the environment says: nothing where no manager waits for a word.
    pub fn from_env() -> io::Result<Option<Self>> {
        let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else { return Ok(None) };
        let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|n| *n > 0 && is_ours).map(Duration::from_micros);
        Self::to(&name, watchdog).map(Some)
    }

    /// It answers.
    pub fn ready(&self) {
        self.send("READY=1\nSTATUS=Ready");
    }

    /// It reads its settings again, after which [`ready`](Self::ready) is to follow.
    pub fn reloading(&self) {
        self.send("RELOADING=1");
    }

    /// It has begun to stop.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=Stopping");
    }

    fn send(&self, text: &str) {
        if let Err(error) = self.socket.send(text.as_bytes()) {
            tracing::warn!(%error, "the service manager could not be told: {}", text.lines().next().unwrap_or_default());
        }
    }

    /// Tells how far loading is, until it is dropped. Without a word systemd would give up a load that takes longer than it was told.
    pub(crate) async fn loading(&self, progress: LoadProgress) {
        loop {
            let percent = (progress.fraction() * 100.0).round();
            self.send(&format!("STATUS=Loading: {percent}%\nEXTEND_TIMEOUT_USEC={}", PATIENCE.as_micros()));
            tokio::time::sleep(LOADING).await;
        }
    }

    /// Says that the server is alive, as long as all models that are there work, until it is dropped.
    pub(crate) async fn alive(&self, models: impl Fn() -> Vec<Arc<Model>>) {
        let Some(watchdog) = self.watchdog else { return std::future::pending().await };
        let mut before: HashMap<String, Stats> = HashMap::new();
        loop {
            let mut now = HashMap::new();
            let mut moves = true;
            for model in models() {
                let stats = model.engine.stats();
                moves &= model.engine.closed().is_none() && is_moving(before.get(&model.name), &stats);
                now.insert(model.name.clone(), stats);
            }
            if moves {
                self.send("WATCHDOG=1");
            }
            before = now;
            tokio::time::sleep(watchdog / 2).await;
        }
    }
}

/// Whether the model has nothing to do, or has done something since.
fn is_moving(before: Option<&Stats>, now: &Stats) -> bool {
    let is_idle = now.running == 0 && now.waiting == 0;
    is_idle || before.is_none_or(|before| before.steps != now.steps || before.running == 0 && before.waiting == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_stands_still_is_not_alive() {
        let stats = |running, steps| Stats { running, steps, ..Stats::default() };
        for (before, now, moves) in [
            (None, stats(1, 0), true),
            (Some(stats(0, 5)), stats(0, 5), true),
            (Some(stats(0, 5)), stats(1, 5), true),
            (Some(stats(1, 5)), stats(1, 6), true),
            (Some(stats(1, 5)), stats(1, 5), false),
            (Some(stats(1, 5)), stats(0, 5), true),
        ] {
            assert_eq!(is_moving(before.as_ref(), &now), moves, "{before:?} {now:?}");
        }
        assert!(!is_moving(Some(&Stats { waiting: 1, ..Stats::default() }), &Stats { waiting: 1, ..Stats::default() }));
    }
}
