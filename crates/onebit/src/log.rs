//! What is written to stderr while the program runs: as text for people, or as JSON for those who gather logs.

use crate::progress;
use serde_json::{Map, Value};
use std::{
    fmt,
    sync::OnceLock,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    EnvFilter, Registry,
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    layer::SubscriberExt,
    registry::LookupSpan,
    reload,
    util::SubscriberInitExt,
};

/// How messages are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Lines for people
    #[default]
    Text,
    /// An object for each message: time, level, target, message, and what else it tells
    Json,
}

/// Which messages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Level {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// Changes the level of a log that is written already.
static LEVEL: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

/// Begins to write. `ONEBIT_LOG` goes before `level`.
pub(crate) fn begin(format: Format, level: Level) {
    let filter = EnvFilter::try_from_env("ONEBIT_LOG").unwrap_or_else(|_| level.name().into());
    let (filter, handle) = reload::Layer::new(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry().with(filter);
    // A log that another part has begun stays as it is; nothing in this program does that.
    let begun = match format {
        Format::Text => registry.with(lines.with_ansi(progress::colours()).with_target(false).without_time()).try_init(),
        Format::Json => registry.with(lines.with_ansi(false).event_format(Json)).try_init(),
    };
    if begun.is_ok() {
        let _ = LEVEL.set(handle);
    }
}

/// Writes another level from now on, unless `ONEBIT_LOG` says which.
pub(crate) fn change(level: Level) -> Result<(), String> {
    if std::env::var_os("ONEBIT_LOG").is_some() {
        return Ok(());
    }
    let handle = LEVEL.get().ok_or("the log has not begun")?;
    handle.reload(EnvFilter::new(level.name())).map_err(|e| e.to_string())
}

/// A line of JSON for each event.
struct Json;

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let meta = event.metadata();
        let mut line = Map::new();
        line.insert("time".into(), timestamp(SystemTime::now()).into());
        line.insert("level".into(), meta.level().as_str().to_lowercase().into());
        line.insert("target".into(), meta.target().into());
        event.record(&mut Fields(&mut line));
        writeln!(writer, "{}", Value::Object(line))
    }
}

/// Puts an event's fields into an object. Those that are named as what every line has get an underscore.
struct Fields<'a>(&'a mut Map<String, Value>);

impl Fields<'_> {
    fn put(&mut self, field: &Field, value: Value) {
        let taken = ["time", "level", "target"].contains(&field.name());
        self.0.insert(if taken { format!("{}_", field.name()) } else { field.name().into() }, value);
    }
}

impl Visit for Fields<'_> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }
}

/// A time in UTC as RFC 3339 has it, to milliseconds. One before 1970 is written as 1970.
///
/// Days become dates as in Howard Hinnant's `civil_from_days` (howardhinnant.github.io/date_algorithms.html): years begin in March, so that
/// the day that comes in some years only is their last.
fn timestamp(time: SystemTime) -> String {
    let since: Duration = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // 719,468 days from the first of March of the year 0 to 1970; 146,097 days in 400 years.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second, ms) = (seconds / 3600, seconds / 60 % 60, seconds % 60, since.subsec_millis());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        // By `date -u -d @N +%FT%T`.
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00"),
            (951_782_399, "2000-02-28T23:59:59"),
            (951_782_400, "2000-02-29T00:00:00"),
            (951_868_800, "2000-03-01T00:00:00"),
            (1_709_164_800, "2024-02-29T00:00:00"),
            (4_107_542_400, "2100-03-01T00:00:00"),
            (1_796_300_203, "2026-12-03T12:16:43"),
            (253_402_300_799, "9999-12-31T23:59:59"),
        ] {
            assert_eq!(timestamp(UNIX_EPOCH + Duration::from_secs(seconds)), format!("{text}.000Z"));
        }
        assert_eq!(timestamp(UNIX_EPOCH - Duration::from_secs(5)), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(UNIX_EPOCH + Duration::from_millis(1)), "1970-01-01T00:00:00.001Z");
    }
}
