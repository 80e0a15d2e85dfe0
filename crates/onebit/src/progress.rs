//! Progress on stderr: bars where a person looks, single lines elsewhere.

use crate::Loudness;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    cell::RefCell,
    io::{IsTerminal, stderr},
    time::Duration,
};

/// Whether stderr takes colours: it is a terminal, and `NO_COLOR` is not set (no-color.org).
pub(crate) fn colours() -> bool {
    stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// A bar over bytes; hidden where nobody looks or quiet was asked for.
pub(crate) fn bar(loudness: Loudness, what: &str, bytes: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(bytes), target(loudness));
    let style = ProgressStyle::with_template("{msg}  {bar:30} {bytes:>10} of {total_bytes}  {bytes_per_sec}  {eta}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message(what.to_string());
    bar
}

/// A bar over things that are counted.
pub(crate) fn count(loudness: Loudness, what: &str, of: usize) -> ProgressBar {
    let bar = bar(loudness, what, of as u64);
    bar.set_style(ProgressStyle::with_template("{msg}  {bar:30} {pos} of {len}  {eta}").unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// Something that turns while work of unknown length goes on.
pub(crate) fn spinner(loudness: Loudness, what: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, target(loudness)).with_message(what.to_string());
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

fn target(loudness: Loudness) -> ProgressDrawTarget {
    if loudness == Loudness::Quiet || !stderr().is_terminal() { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() }
}

/// Shows downloads.
pub(crate) struct Downloads {
    loudness: Loudness,
    bar: RefCell<Option<ProgressBar>>,
}

impl Downloads {
    pub(crate) fn new(loudness: Loudness) -> Self {
        Self { loudness, bar: RefCell::new(None) }
    }
}

impl onebit_registry::Observer for Downloads {
    fn begin(&self, name: &str, size: u64, have: u64) {
        let bar = bar(self.loudness, name, size);
        bar.set_position(have);
        if bar.is_hidden() {
            self.note(&format!("fetching {name} ({:.1} MB)", size as f64 / 1e6));
        }
        *self.bar.borrow_mut() = Some(bar);
    }
    fn advance(&self, bytes: i64) {
        if let Some(bar) = &*self.bar.borrow() {
            bar.set_position(bar.position().saturating_add_signed(bytes));
        }
    }
    fn end(&self) {
        if let Some(bar) = self.bar.borrow_mut().take() {
            bar.finish_and_clear();
        }
    }
    fn note(&self, text: &str) {
        if self.loudness == Loudness::Quiet {
            return;
        }
        match &*self.bar.borrow() {
            Some(bar) if !bar.is_hidden() => bar.println(text),
            _ => eprintln!("{text}"),
        }
    }
}
