//! `1bit chat`: lines from a person or a pipe; what they ask for is done by `conversation`.

mod conversation;
mod saved;

use crate::{
    Loudness,
    command::sampling::{AnswerArgs, DiffusionArgs, SamplingArgs},
    failure::Usage,
    open::{self, ContextArgs, DeviceArgs},
    sight::{See, SightArgs},
};
use conversation::{Conversation, println};
use reedline::{
    DefaultHinter, FileBackedHistory, Prompt, PromptEditMode, PromptHistorySearch, Reedline, Signal, ValidationResult, Validator,
};
use std::{
    borrow::Cow,
    io::{BufRead, IsTerminal},
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
};

/// Talk with a model in the terminal
///
/// A line that ends in `\`, and lines between `"""`, go on; so does Alt-Enter. Ctrl-C stops an answer, Ctrl-D leaves. `/help` lists
/// commands. Answers are shown with Markdown's styles, and reasoning dimmed, unless NO_COLOR is set or output is no terminal.
#[derive(clap::Args)]
pub(crate) struct Chat {
    /// The model
    model: String,
    /// Instructions that the conversation starts with
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Go on with a conversation that `/save` has written
    #[arg(long, value_name = "FILE", conflicts_with = "system")]
    load: Option<PathBuf>,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    diffusion: DiffusionArgs,
    #[command(flatten)]
    answer: AnswerArgs,
    #[command(flatten)]
    sight: SightArgs,
    #[command(flatten)]
    context: ContextArgs,
    #[command(flatten)]
    device: DeviceArgs,
}

/// The most lines that are remembered between runs.
const HISTORY: usize = 1000;

/// What begins and ends a message of several lines.
const QUOTES: &str = "\"\"\"";

impl Chat {
    pub(crate) fn run(self, loudness: Loudness) -> anyhow::Result<()> {
        let loaded = open::engine(&self.model, &self.device, &self.context, See::IfItCan(&self.sight), loudness)?;
        if loaded.template.is_none() && loaded.plan.answering.is_none() {
            return Err(Usage(format!("{} has no chat template; `1bit run --raw` continues text", loaded.name)).into());
        }
        let by_hand = std::io::stdin().is_terminal();
        let (stop, idle) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        if !by_hand {
            // Where nothing is being answered, Ctrl-C ends a program that reads from a pipe, as it does others.
            signal_hook::flag::register_conditional_default(signal_hook::consts::SIGINT, idle.clone())?;
        }
        signal_hook::flag::register(signal_hook::consts::SIGINT, stop.clone())?;
        let file = self.load.clone();
        let mut talk = Conversation::new(self, loaded, stop, idle, loudness);
        if let Some(file) = file {
            talk.load(&file)?;
        }
        if by_hand { hold_by_hand(&mut talk) } else { hold_by_pipe(&mut talk) }
    }
}

fn hold_by_hand(talk: &mut Conversation) -> anyhow::Result<()> {
    println(&talk.greeting())?;
    let styled = std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
    let mut editor = Reedline::create().with_validator(Box::new(Continued)).with_ansi_colors(styled).use_bracketed_paste(true);
    if styled {
        editor = editor.with_hinter(Box::<DefaultHinter>::default());
    }
    if let Some(path) = history_file()
        && let Ok(history) = FileBackedHistory::with_file(HISTORY, path)
    {
        editor = editor.with_history(Box::new(history));
    }
    loop {
        match editor.read_line(&Arrow)? {
            Signal::Success(lines) => {
                // What was typed is remembered even if the program is killed in the answer.
                let _ = editor.sync_history();
                if !talk.take(&joined(&lines))? {
                    return Ok(());
                }
            }
            Signal::CtrlD => return Ok(()),
            _ => {}
        }
    }
}

/// Without a terminal, each line is a message, or begins one: for scripts and tests.
fn hold_by_pipe(talk: &mut Conversation) -> anyhow::Result<()> {
    let mut lines = String::new();
    for line in std::io::stdin().lock().lines() {
        lines.push_str(&line?);
        if goes_on(&lines) {
            lines.push('\n');
            continue;
        }
        if !talk.take(&joined(&std::mem::take(&mut lines)))? {
            return Ok(());
        }
    }
    if !lines.is_empty() {
        talk.take(&joined(lines.trim_end()))?;
    }
    Ok(())
}

/// Whether more lines belong to a message that begins so.
fn goes_on(lines: &str) -> bool {
    match lines.trim_start().strip_prefix(QUOTES) {
        Some(rest) => !rest.trim_end().ends_with(QUOTES),
        None => lines.ends_with('\\'),
    }
}

/// The message that lines stand for.
fn joined(lines: &str) -> String {
    let text = lines.trim();
    match text.strip_prefix(QUOTES) {
        Some(rest) => rest.strip_suffix(QUOTES).unwrap_or(rest).trim_matches('\n').to_string(),
        None => text.replace("\\\n", "\n"),
    }
}

fn history_file() -> Option<PathBuf> {
    let folder = onebit_registry::Cache::from_env().ok()?.root().parent()?.to_path_buf();
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("chat-history.txt"))
}

struct Continued;

impl Validator for Continued {
    fn validate(&self, lines: &str) -> ValidationResult {
        if goes_on(lines) { ValidationResult::Incomplete } else { ValidationResult::Complete }
    }
}

struct Arrow;

impl Prompt for Arrow {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        "".into()
    }
    fn render_prompt_right(&self) -> Cow<'_, str> {
        "".into()
    }
    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        "> ".into()
    }
    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        ". ".into()
    }
    fn render_prompt_history_search_indicator(&self, _: PromptHistorySearch) -> Cow<'_, str> {
        "search: ".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_several_lines() {
        for (lines, more) in [
            ("a", false),
            ("a\\", true),
            ("a\\\nb", false),
            ("\"\"\"", true),
            ("\"\"\"a", true),
            ("\"\"\"a\nb\\\n", true),
            ("\"\"\"a\nb\"\"\"", false),
            ("\"\"\"one line\"\"\" ", false),
        ] {
            assert_eq!(goes_on(lines), more, "{lines:?}");
        }
        for (lines, message) in [
            ("  a ", "a"),
            ("a\\\nb", "a\nb"),
            ("\"\"\"\na\n  b\\\n\"\"\"", "a\n  b\\"),
            ("\"\"\"one\"\"\"", "one"),
            ("\"\"\"\nnever closed", "never closed"),
        ] {
            assert_eq!(joined(lines), message);
        }
    }
}
