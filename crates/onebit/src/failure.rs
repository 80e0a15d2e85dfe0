//! Errors to exit codes and words.

use std::{io, process::ExitCode};

/// The person pressed Ctrl-C.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub(crate) struct Interrupted;

/// What was typed cannot be done.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub String);

/// Prints the error and gives the exit code: 2 where the command line or a file of the model is at fault, 130 for an interrupt,
/// otherwise 1.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    let is = |kind: io::ErrorKind| error.chain().any(|e| e.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == kind));
    if is(io::ErrorKind::BrokenPipe) {
        // Whoever read our output has had enough: `1bit list | head`.
        return ExitCode::SUCCESS;
    }
    if error.is::<Interrupted>() {
        return ExitCode::from(130);
    }
    // Errors that show their source in their own text would say it twice with `{:#}`.
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    eprintln!("1bit: {}", crate::terminal::plain(&text));
    let about_input = error.chain().any(|e| {
        e.is::<Usage>()
            || e.is::<onebit_formats::Error>()
            || e.is::<onebit_plan::Error>()
            || e.is::<onebit_models::Error>()
            || e.is::<onebit_text::Error>()
            || e.is::<onebit_quantize::Error>()
            || e.downcast_ref::<onebit_server::ServeError>().is_some_and(|e| {
                use onebit_server::ServeError::{EmptyKey, Host, NeedsKey};
                matches!(e, EmptyKey | Host { .. } | NeedsKey { .. })
            })
            || e.downcast_ref::<onebit_registry::Error>().is_some_and(|e| {
                use onebit_registry::Error::{Io, Reference, Unknown};
                matches!(e, Unknown { .. } | Reference { .. } | Io { .. })
            })
    });
    ExitCode::from(if about_input { 2 } else { 1 })
}
