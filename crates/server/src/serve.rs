//! From the first socket to the last answer: listening, loading, serving, stopping.

use crate::connection;
use crate::endpoints::{panic_message, router};
use crate::keys::Keys;
use crate::notify::Notify;
use crate::options::ServeOptions;
use crate::shelf::{LoadFault, Offer, Shelf, ShelfLimits};
use crate::state::{App, LoadProgress, Loaded, Model};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long connections may take to send the error event that ends answers which are cut.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// What a loader may fail with.
pub type LoadError = Box<dyn std::error::Error + Send + Sync>;

/// Why a server could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The host is no address and no name that resolves to one.
    #[error("--host {host}: {source}")]
    Host {
        /// As given.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// Other machines could use the server, and no key is asked for.
    #[error(
        "{address} can be reached by other machines, so a key must be asked for: \
         give one with --api-key or --api-key-file, or say --no-auth if everyone who reaches it may use it"
    )]
    NeedsKey {
        /// Where it would have listened.
        address: SocketAddr,
    },
    /// A key without a character, which everyone knows: most often a variable that was to hold one and is not set.
    #[error("an API key is empty: give one with --api-key or ONEBIT_API_KEY, or unset both to ask for none")]
    EmptyKey,
    /// Another program listens there.
    #[error("{address} is taken by another program: choose another --port, or 0 for any that is free")]
    Taken {
        /// Where it would have listened.
        address: SocketAddr,
    },
    /// The system does not let us listen there.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where it would have listened.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// What was passed to listen on does not work.
    #[error("the socket that was passed to listen on: {0}")]
    Passed(io::Error),
    /// Signals cannot be received.
    #[error("cannot wait for signals: {0}")]
    Signals(io::Error),
    /// The model could not be loaded.
    #[error(transparent)]
    Load(LoadError),
}

/// A server that listens, and does not answer yet.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    app: Arc<App>,
}

/// Serves until SIGTERM or SIGINT, and then until the answers that are being made have ended, or [`ServeOptions::drain`] is over.
/// A second signal cuts that short.
///
/// It listens at once, or goes on where `listener` does, and then calls `listening`; until `load`, which runs on a thread of its own, has given
/// the model, requests are answered with a 503 that tells how far it is. If `load` fails, so does this.
pub async fn serve<L>(
    options: ServeOptions,
    listener: Option<std::net::TcpListener>,
    load: L,
    listening: impl FnOnce(&Server),
) -> Result<(), ServeError>
where
    L: FnOnce(LoadProgress) -> Result<Loaded, LoadError> + Send + 'static,
{
    // Before anything that takes time, so that no signal is missed.
    let signals = count_signals().map_err(ServeError::Signals)?;
    let server = match listener {
        Some(listener) => Server::adopt(options, listener)?,
        None => Server::bind(options).await?,
    };
    listening(&server);
    server.run(load, reaches(signals.clone(), 1), reaches(signals, 2)).await
}

/// The same with several models: each is loaded when somebody asks for it, and leaves where there is no room for another one. It answers at
/// once, and that a model cannot be loaded is told to those who ask for it.
pub async fn serve_several(
    options: ServeOptions,
    listener: Option<std::net::TcpListener>,
    offers: Vec<Offer>,
    limits: ShelfLimits,
    listening: impl FnOnce(&Server),
) -> Result<(), ServeError> {
    let signals = count_signals().map_err(ServeError::Signals)?;
    let server = match listener {
        Some(listener) => Server::adopt(options, listener)?,
        None => Server::bind(options).await?,
    };
    listening(&server);
    server.run_several(offers, limits, reaches(signals.clone(), 1), reaches(signals, 2)).await
}

impl Server {
    /// Checks the options and listens.
    pub async fn bind(options: ServeOptions) -> Result<Self, ServeError> {
        let address = Self::check(&options).await?;
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => ServeError::Taken { address },
            _ => ServeError::Listen { address, source },
        };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address, app: Arc::new(App::new(options)) })
    }

    /// Goes on where somebody else has begun to listen: a service manager, which holds the port while the server is started again.
    pub fn adopt(options: ServeOptions, listener: std::net::TcpListener) -> Result<Self, ServeError> {
        let address = listener.local_addr().map_err(ServeError::Passed)?;
        may_listen(&options, address)?;
        listener.set_nonblocking(true).map_err(ServeError::Passed)?;
        let listener = TcpListener::from_std(listener).map_err(ServeError::Passed)?;
        Ok(Self { listener, address, app: Arc::new(App::new(options)) })
    }

    /// Checks the options, and gives where it would listen.
    pub async fn check(options: &ServeOptions) -> Result<SocketAddr, ServeError> {
        let address = resolve(options).await?;
        may_listen(options, address)?;
        Ok(address)
    }

    /// The keys of which clients have to present one, which can be changed.
    pub fn keys(&self) -> Keys {
        self.app.keys.clone()
    }

    /// Where it listens, with the port that it got if 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Loads and serves until `stop` is ready, and drains until `hurry` is. See [`serve`].
    pub async fn run<L>(self, load: L, stop: impl Future<Output = ()>, hurry: impl Future<Output = ()>) -> Result<(), ServeError>
    where
        L: FnOnce(LoadProgress) -> Result<Loaded, LoadError> + Send + 'static,
    {
        let (name, progress) = (self.app.options.model.clone(), self.app.progress.clone());
        let loading = Box::pin(on_a_thread(move || load(progress).map(|loaded| Model::new(loaded, name)).map_err(LoadFault::Other)));
        self.serve(Some(loading), stop, hurry).await
    }

    /// The same with several models, of which none is loaded before it is asked for. See [`serve_several`].
    pub async fn run_several(
        self,
        offers: Vec<Offer>,
        limits: ShelfLimits,
        stop: impl Future<Output = ()>,
        hurry: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        self.app.offers(Shelf::new(offers, limits, self.app.options.limits.load_time));
        self.serve(None, stop, hurry).await
    }

    async fn serve(
        self,
        mut loading: Option<Loading>,
        stop: impl Future<Output = ()>,
        hurry: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        let Self { listener, app, .. } = self;
        let router = router(app.clone());
        let places = Arc::new(Semaphore::new(app.options.limits.connections.min(Semaphore::MAX_PERMITS)));
        let (tell_stopping, stopping) = watch::channel(false);
        let mut connections = JoinSet::new();
        let mut stop = pin!(stop);
        let notify = app.options.notify.clone();
        let alive = |app: Arc<App>| {
            notify.iter().for_each(Notify::ready);
            let models = move || app.ready_models().unwrap_or_default();
            tell(notify.clone(), |notify| async move { notify.alive(models).await })
        };
        let mut telling = match &loading {
            None => alive(app.clone()),
            Some(_) => {
                let progress = app.progress.clone();
                tell(notify.clone(), |notify| async move { notify.loading(progress).await })
            }
        };
        loop {
            tokio::select! {
                loaded = wait_for(&mut loading) => {
                    loading = None;
                    app.ready(loaded?);
                    tracing::info!("the model is loaded");
                    telling = alive(app.clone());
                }
                () = &mut telling => {}
                (stream, place) = accept(&listener, &places) => {
                    let served = connection::serve(stream, router.clone(), app.options.limits.clone(), stopping.clone());
                    connections.spawn(async move {
                        served.await;
                        drop(place);
                    });
                }
                Some(_) = connections.join_next() => {}
                () = &mut stop => break,
            }
        }
        drop(listener);
        notify.iter().for_each(Notify::stopping);
        tell_stopping.send_replace(true);
        let drain = app.options.drain;
        tracing::info!(connections = connections.len(), ?drain, "stopping");
        let engines = app.stop();
        let shut_down = |drain| {
            let threads: Vec<_> =
                engines.iter().cloned().map(|engine| tokio::task::spawn_blocking(move || engine.shutdown(drain))).collect();
            async move {
                for thread in threads {
                    // A panic in there was reported by the engine.
                    let _ = thread.await;
                }
            }
        };
        let drained = shut_down(drain);
        let mut all_ended = pin!(async {
            while connections.join_next().await.is_some() {}
            drained.await;
        });
        let in_time = tokio::select! {
            ended = timeout(drain.saturating_add(LAST_WORDS), &mut all_ended) => ended.is_ok(),
            () = hurry => {
                shut_down(Duration::ZERO).await;
                timeout(LAST_WORDS, &mut all_ended).await.is_ok()
            }
        };
        if !in_time {
            tracing::warn!("closing connections that did not end in time");
        }
        Ok(())
    }
}

/// Refuses keys that everyone knows, and an address that everyone reaches without one.
fn may_listen(options: &ServeOptions, address: SocketAddr) -> Result<(), ServeError> {
    if options.api_keys.iter().any(|key| key.trim().is_empty()) {
        return Err(ServeError::EmptyKey);
    }
    if !options.may_listen_on(address.ip()) {
        return Err(ServeError::NeedsKey { address });
    }
    Ok(())
}

/// The address to listen on. Where a name has several, IPv4 goes first, as most clients try it.
async fn resolve(options: &ServeOptions) -> Result<SocketAddr, ServeError> {
    let host = options.host.trim_start_matches('[').trim_end_matches(']');
    let failed = |source| ServeError::Host { host: options.host.clone(), source };
    let found = tokio::net::lookup_host((host, options.port)).await.map_err(failed)?;
    let address = found.min_by_key(SocketAddr::is_ipv6);
    address.ok_or_else(|| failed(io::Error::new(io::ErrorKind::NotFound, "the name has no address")))
}

/// A connection, once there is a place for it. Failing to accept one is the client's or the system's matter, and passes.
async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> (tokio::net::TcpStream, tokio::sync::OwnedSemaphorePermit) {
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return std::future::pending().await };
        match listener.accept().await {
            Ok((stream, _)) => return (stream, place),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                // When file descriptors have run out, trying at once would only spin.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// What goes on beside the serving, and never ends by itself.
type Telling = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What the service manager is told, where there is one.
fn tell<F: Future<Output = ()> + Send + 'static>(notify: Option<Notify>, what: impl FnOnce(Notify) -> F) -> Telling {
    match notify {
        Some(notify) => Box::pin(what(notify)),
        None => Box::pin(std::future::pending()),
    }
}

type Loading = Pin<Box<dyn Future<Output = Result<Model, LoadFault>> + Send>>;

/// What `load` gives. It runs on a thread of its own rather than one of the runtime's: the runtime waits for those when it ends, and a load
/// that nobody wants any more must not keep the process.
pub(crate) async fn on_a_thread<T: Send + 'static>(load: impl FnOnce() -> Result<T, LoadFault> + Send + 'static) -> Result<T, LoadFault> {
    let (sender, receiver) = oneshot::channel();
    let work = move || {
        let loaded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(load));
        let panicked = |panic| Err(LoadFault::Other(format!("loading the model panicked: {}", panic_message(&panic)).into()));
        // Nobody waits any more when the server has stopped.
        let _ = sender.send(loaded.unwrap_or_else(panicked));
    };
    if let Err(error) = std::thread::Builder::new().name("1bit-load".into()).spawn(work) {
        tracing::error!(%error, "the thread that loads the model cannot be started");
    }
    receiver.await.unwrap_or_else(|_| Err(LoadFault::Other("the thread that loads the model could not be started".into())))
}

/// What the loader gives, or nothing for ever once it has given it.
async fn wait_for(loading: &mut Option<Loading>) -> Result<Model, ServeError> {
    let Some(loading) = loading else { return std::future::pending().await };
    loading.await.map_err(|fault| match fault {
        LoadFault::Memory(error) | LoadFault::Other(error) => ServeError::Load(error),
    })
}

/// Ready when the count reaches `n`.
async fn reaches(mut count: watch::Receiver<u32>, n: u32) {
    if count.wait_for(|count| *count >= n).await.is_err() {
        std::future::pending().await
    }
}

/// Counts signals to stop: SIGTERM and SIGINT.
#[cfg(unix)]
fn count_signals() -> io::Result<watch::Receiver<u32>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (count, counted) = watch::channel(0);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                Some(()) = terminate.recv() => {}
                Some(()) = interrupt.recv() => {}
                else => return,
            }
            count.send_modify(|n| *n += 1);
        }
    });
    Ok(counted)
}

/// Counts Ctrl-C.
#[cfg(not(unix))]
fn count_signals() -> io::Result<watch::Receiver<u32>> {
    let (count, counted) = watch::channel(0);
    tokio::spawn(async move {
        while tokio::signal::ctrl_c().await.is_ok() {
            count.send_modify(|n| *n += 1);
        }
    });
    Ok(counted)
}
