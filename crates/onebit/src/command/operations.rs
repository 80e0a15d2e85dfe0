//! What those who run a server, rather than use it, ask of `1bit serve`.

use crate::{failure::Usage, log};
use anyhow::Context;
use listenfd::ListenFd;
use onebit_server::{Keys, Notify, ServeOptions};
use signal_hook::{consts::SIGHUP, iterator::Signals};
use std::{net::TcpListener, path::PathBuf};

#[derive(clap::Args)]
#[command(next_help_heading = "Operations")]
pub(crate) struct Operations {
    /// Read settings from this file: the names of these flags, in TOML
    #[arg(long, env = "ONEBIT_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Say whether flags and settings are right, and start nothing
    #[arg(long)]
    pub(crate) check_config: bool,
    /// Tell what the server is doing at `/metrics`, for Prometheus
    #[arg(long)]
    metrics: bool,
    /// Tell what each place for a request is doing at `/slots`; no texts
    #[arg(long)]
    slots: bool,
    /// Tell what the server does where a request does not say at `/props`
    #[arg(long)]
    props: bool,
    /// Let clients save what slots have computed in files of this folder, and restore it (`POST /slots/N?action=save`)
    #[arg(long, value_name = "FOLDER")]
    slot_save_path: Option<PathBuf>,
    /// How messages on stderr are written
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) log_format: log::Format,
    /// Which messages are written [default: by -v and -q]
    #[arg(long, value_enum, value_name = "LEVEL")]
    pub(crate) log_level: Option<log::Level>,
}

impl Operations {
    /// Whether files are written that must not be read with another model.
    pub(crate) fn saves_slots(&self) -> bool {
        self.slot_save_path.is_some()
    }

    /// Sets what of it concerns the server.
    pub(crate) fn apply(&self, options: &mut ServeOptions) -> anyhow::Result<()> {
        (options.metrics, options.slots, options.props) = (self.metrics, self.slots, self.props);
        options.slot_save_path = self.slot_save_path.clone();
        options.notify = Notify::from_env().context("NOTIFY_SOCKET: the service manager cannot be reached")?;
        match &self.slot_save_path {
            Some(folder) if !folder.is_dir() => {
                Err(Usage(format!("--slot-save-path {}: there is no such folder", folder.display())).into())
            }
            _ => Ok(()),
        }
    }
}

/// The socket that a service manager listens on for us (`sd_listen_fds(3)`), where one does.
pub(crate) fn passed_socket() -> anyhow::Result<Option<TcpListener>> {
    let mut passed = ListenFd::from_env();
    match passed.len() {
        0 => Ok(None),
        1 => passed.take_tcp_listener(0).context("the socket that LISTEN_FDS passes has to be one for TCP that listens"),
        n => Err(Usage(format!("LISTEN_FDS passes {n} sockets; one is served")).into()),
    }
}

/// On SIGHUP, reads settings again and takes over those that can change while answers are made: keys, and what is logged. What is wrong
/// is logged, and changes nothing. `again` gives what the files say now.
pub(crate) fn reload_on_hangup(
    keys: Keys,
    notify: Option<Notify>,
    again: impl Fn() -> anyhow::Result<(Vec<String>, log::Level)> + Send + 'static,
) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGHUP]).context("waiting for SIGHUP")?;
    let reload = move || {
        let (new, level) = again()?;
        keys.replace(&new)?;
        log::change(level).map_err(anyhow::Error::msg)
    };
    let wait = move || {
        for _ in signals.forever() {
            notify.iter().for_each(Notify::reloading);
            match reload() {
                Ok(()) => tracing::warn!("keys and the log's level are as the files say now; other settings need a new start"),
                Err(error) => tracing::error!("nothing was changed: {error:#}"),
            }
            notify.iter().for_each(Notify::ready);
        }
    };
    std::thread::Builder::new().name("reload".into()).spawn(wait).context("waiting for SIGHUP")?;
    Ok(())
}
