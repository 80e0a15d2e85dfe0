//! `1bit` under the name of llama-server: for programs that start llama.cpp's server, such as Lemonade.
//!
//! The command line is translated, and `1bit serve` takes the process over. What llama-server prints for `--version` and
//! `--list-devices` is printed likewise.

mod flags;
mod translate;

use crate::{failure::Usage, open};
use anyhow::Context;
use std::{ffi::OsString, io::Write, os::unix::process::CommandExt, process::Command};
use translate::{Translation, Wish, translate};

/// The arguments, where the program was started as llama-server: by its name, or as `1bit llama-server`.
pub(crate) fn arguments(mut all: impl Iterator<Item = OsString>) -> Option<Vec<OsString>> {
    let name = std::path::PathBuf::from(all.next()?);
    if name.file_stem().is_some_and(|stem| stem == "llama-server") {
        return Some(all.collect());
    }
    (all.next()? == "llama-server").then(|| all.collect())
}

/// Does what llama-server would.
pub(crate) fn run(arguments: Vec<OsString>) -> anyhow::Result<()> {
    let text = |a: OsString| a.into_string().map_err(|a| Usage(format!("{}: is not UTF-8", a.display())));
    let arguments = arguments.into_iter().map(text).collect::<Result<Vec<_>, _>>()?;
    let mut out = std::io::stdout().lock();
    match translate(&arguments, |name| std::env::var(name).ok()).map_err(Usage)? {
        Wish::Serve(translation) => {
            drop(out);
            become_serve(translation)
        }
        Wish::Version => {
            // The first line as llama.cpp has it, as programs look for the number.
            let part = |text: &str| text.parse::<u32>().unwrap_or(0);
            let number = part(env!("CARGO_PKG_VERSION_MAJOR")) * 10_000
                + part(env!("CARGO_PKG_VERSION_MINOR")) * 100
                + part(env!("CARGO_PKG_VERSION_PATCH"));
            writeln!(out, "version: {number} (1bit {})", env!("CARGO_PKG_VERSION"))?;
            Ok(writeln!(out, "built for {}-{}", std::env::consts::ARCH, std::env::consts::OS)?)
        }
        Wish::Devices => {
            writeln!(out, "Available devices:")?;
            for device in open::devices() {
                let free = device.available_memory.unwrap_or(0) >> 20;
                writeln!(out, "  {}: {} ({free} MiB, {free} MiB free)", device.name, device.description)?;
            }
            Ok(())
        }
        Wish::Help => help(&mut out),
    }
}

/// Starts `1bit serve` in the place of this process.
fn become_serve(t: Translation) -> anyhow::Result<()> {
    if !t.ignored.is_empty() && !t.arguments.iter().any(|a| a == "-q") {
        eprintln!("passed over, as it changes no answer: {}", t.ignored.join(", "));
    }
    let program = std::env::current_exe().context("finding this program's file")?;
    let mut command = Command::new(program);
    command.args(["serve", "--any-model"]).args(&t.arguments).envs(t.variables);
    // Lemonade that is killed leaves what it has started; a shell that ends may mean to. It kills five seconds after it has asked to
    // stop (`LinuxProcessPlatform::terminate` in its process_linux.cpp).
    let starter = std::os::unix::process::parent_id();
    if name(starter).is_some_and(|name| name.starts_with("lemon")) {
        command.arg(format!("--stop-with={starter}")).arg("--drain=4");
    }
    // Under its own name, or it would translate again.
    Err(command.arg0("1bit").exec()).context("starting `1bit serve`")
}

/// A process's name, where the system tells.
fn name(process: u32) -> Option<String> {
    Some(std::fs::read_to_string(format!("/proc/{process}/comm")).ok()?.trim().to_string())
}

/// Which flags there are, and what they do here.
fn help(out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(
        out,
        "usage: llama-server -m FILE | -hf USER/MODEL[:QUANT] [flag ...]\n\n1bit in the place of llama-server: see `1bit serve --help`.\n"
    )?;
    for (title, wanted) in [("Heeded:", 0), ("Passed over, as they change no answer:", 1), ("Refused:", 2)] {
        writeln!(out, "{title}")?;
        for flag in flags::FLAGS {
            let (kind, note) = match flag.does {
                flags::Does::Is(_) => (0, String::new()),
                flags::Does::Nothing => (1, String::new()),
                flags::Does::Only(values) => (2, format!(": all values but {}", values.join(", "))),
                flags::Does::Refused(why) => (2, format!(": {why}")),
            };
            if kind == wanted {
                writeln!(out, "  {}{note}", flag.names.replace(' ', ", "))?;
            }
        }
        writeln!(out)?;
    }
    Ok(())
}
