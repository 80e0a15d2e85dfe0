//! `1bit`: runs large language models on your own machine.
//!
//! Each command is one file in `command/`; `open` turns what was typed into a running engine; `failure` decides the exit code.

mod check;
mod command;
mod companion;
mod configuration;
mod explained;
mod failure;
mod identity;
mod interrupt;
mod llama_server;
mod log;
mod markdown;
mod offered;
mod open;
mod progress;
mod prompt;
mod several;
mod sight;
mod speed;
mod terminal;

use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::{ffi::OsString, process::ExitCode};

/// Runs large language models on your own machine.
#[derive(Parser)]
#[command(
    name = "1bit",
    version,
    max_term_width = 100,
    after_help = "A MODEL is a file or folder, `hf:owner/name[:file or quantization]`, or a name from `1bit list`.\n\n\
                  Exit codes: 0 done, 1 it failed, 2 the command line or a model file is wrong, 130 interrupted."
)]
struct Cli {
    /// Say more on stderr; twice for debugging
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
    /// Say nothing on stderr but errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(command::run::Run),
    Chat(command::chat::Chat),
    Serve(command::serve::Serve),
    Pull(command::pull::Pull),
    List(command::list::List),
    Rm(command::rm::Rm),
    Show(command::show::Show),
    Embed(command::embed::Embed),
    Logits(command::logits::Logits),
    Tokenize(command::tokenize::Tokenize),
    Convert(command::convert::Convert),
    Quantize(command::quantize::Quantize),
    Imatrix(command::imatrix::Imatrix),
    Bench(command::bench::Bench),
    Perplexity(command::perplexity::Perplexity),
    Devices(command::devices::Devices),
    Completions(command::completions::Completions),
    Version(command::version::Version),
}

/// How much to say on stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(crate) enum Loudness {
    /// Errors only.
    Quiet,
    /// Progress and notes.
    Normal,
    /// Also what was decided, and statistics.
    Verbose,
}

impl Cli {
    /// Reads a command line, and the file of settings that it may name.
    fn read(typed: Vec<OsString>) -> anyhow::Result<Self> {
        // A negative number is a value that an option may refuse by its range, or a prompt: not an option of its own.
        let command = Self::command().mut_subcommands(|c| c.allow_negative_numbers(true));
        let (words, file) = configuration::arguments(&command, typed)?;
        let read = command.try_get_matches_from(words).and_then(|matches| Self::from_arg_matches(&matches));
        // What was typed alone would have been understood, so it is the file's.
        read.map_err(|error| match file {
            Some(file) => {
                failure::Usage(format!("with {}: {}", file.display(), error.to_string().trim_start_matches("error: ").trim_end())).into()
            }
            None => anyhow::Error::from(error),
        })
    }

    fn log_format(&self) -> log::Format {
        if let Command::Serve(serve) = &self.command { serve.operations.log_format } else { log::Format::Text }
    }

    fn log_level(&self) -> log::Level {
        let said = if let Command::Serve(serve) = &self.command { serve.operations.log_level } else { None };
        said.unwrap_or(match (self.quiet, self.verbose) {
            (true, _) => log::Level::Error,
            (_, 0) => log::Level::Warn,
            (_, 1) => log::Level::Info,
            _ => log::Level::Debug,
        })
    }
}

fn main() -> ExitCode {
    if let Some(arguments) = llama_server::arguments(std::env::args_os()) {
        return llama_server::run(arguments).map_or_else(|error| failure::report(&error), |()| ExitCode::SUCCESS);
    }
    // Rust ignores SIGPIPE, so `1bit list | head` would end in a panic; writers here see the error and `failure` makes it silent.
    let cli = match Cli::read(std::env::args_os().collect()).map_err(|error| error.downcast::<clap::Error>()) {
        Ok(cli) => cli,
        Err(Ok(error)) => error.exit(),
        Err(Err(error)) => return failure::report(&error),
    };
    let loudness = match (cli.quiet, cli.verbose) {
        (true, _) => Loudness::Quiet,
        (_, 0) => Loudness::Normal,
        _ => Loudness::Verbose,
    };
    log::begin(cli.log_format(), cli.log_level());
    onebit_formats::Mapping::install_sigbus_message();
    let done = match cli.command {
        Command::Run(c) => c.run(loudness),
        Command::Chat(c) => c.run(loudness),
        Command::Serve(c) => c.run(loudness),
        Command::Pull(c) => c.run(loudness),
        Command::List(c) => c.run(),
        Command::Rm(c) => c.run(loudness),
        Command::Show(c) => c.run(loudness),
        Command::Embed(c) => c.run(loudness),
        Command::Logits(c) => c.run(loudness),
        Command::Tokenize(c) => c.run(),
        Command::Convert(c) => c.run(loudness),
        Command::Quantize(c) => c.run(loudness),
        Command::Imatrix(c) => c.run(loudness),
        Command::Bench(c) => c.run(loudness),
        Command::Perplexity(c) => c.run(loudness),
        Command::Devices(c) => c.run(),
        Command::Completions(c) => c.run(),
        Command::Version(c) => c.run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report(&error),
    }
}
