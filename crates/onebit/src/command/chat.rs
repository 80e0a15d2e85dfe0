use crate::{
    Loudness,
    command::sampling::{AnswerArgs, DiffusionArgs, SamplingArgs},
    failure::Usage,
    open::{self, ContextArgs, DeviceArgs, Loaded},
    prompt,
    sight::{See, SightArgs},
    speed,
};
use onebit_engine::{Event, Request};
use onebit_text::Encode;
use onebit_vision::Seen;
use reedline::{FileBackedHistory, Prompt, PromptEditMode, PromptHistorySearch, Reedline, Signal, ValidationResult, Validator};
use serde_json::{Value, json};
use std::{
    borrow::Cow,
    io::{BufRead, IsTerminal, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Talk with a model in the terminal
///
/// A line that ends in `\` goes on. Ctrl-C stops an answer, Ctrl-D leaves. `/help` lists commands.
#[derive(clap::Args)]
pub(crate) struct Chat {
    /// The model
    model: String,
    /// Instructions that the conversation starts with
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
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

const HELP: &str = "/image FILE   show this image with the next message\n/system TEXT  new instructions, new conversation\n/new          new conversation\n/retry        another answer to the last message\n/stats        tokens and speed of the last answer\n/quit         leave (Ctrl-D)\nA line that ends in \\ goes on. Ctrl-C stops an answer.";

/// The most lines that are remembered between runs.
const HISTORY: usize = 1000;

impl Chat {
    pub(crate) fn run(&self, loudness: Loudness) -> anyhow::Result<()> {
        let loaded = open::engine(&self.model, &self.device, &self.context, See::IfItCan(&self.sight), loudness)?;
        if loaded.template.is_none() && loaded.plan.answering.is_none() {
            return Err(Usage(format!("{} has no chat template; `1bit run --raw` continues text", loaded.name)).into());
        }
        let stop = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal_hook::consts::SIGINT, stop.clone())?;
        let mut talk = Conversation {
            loaded,
            stop,
            system: self.system.clone(),
            messages: vec![],
            images: vec![],
            shown: 0,
            sampling: self.sampling.clone(),
            diffusion: self.diffusion.clone(),
            answer: self.answer.clone(),
            last: None,
        };
        talk.restart();
        if std::io::stdin().is_terminal() { self.by_hand(&mut talk) } else { by_pipe(&mut talk) }
    }

    fn by_hand(&self, talk: &mut Conversation) -> anyhow::Result<()> {
        println(&format!("{} · {} tokens of context · /help", talk.loaded.name, talk.loaded.engine.context()))?;
        let mut editor = Reedline::create().with_validator(Box::new(Continued));
        if let Some(path) = history_file()
            && let Ok(history) = FileBackedHistory::with_file(HISTORY, path)
        {
            editor = editor.with_history(Box::new(history));
        }
        loop {
            match editor.read_line(&Arrow)? {
                Signal::Success(line) if !talk.take(&line)? => return Ok(()),
                Signal::CtrlD => return Ok(()),
                _ => {}
            }
        }
    }
}

/// Without a terminal, each line is a message: for scripts and tests.
fn by_pipe(talk: &mut Conversation) -> anyhow::Result<()> {
    for line in std::io::stdin().lock().lines() {
        if !talk.take(&line?)? {
            break;
        }
    }
    Ok(())
}

fn println(text: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout().lock(), "{text}")
}

fn history_file() -> Option<std::path::PathBuf> {
    let folder = onebit_registry::Cache::from_env().ok()?.root().parent()?.to_path_buf();
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("chat-history.txt"))
}

struct Conversation {
    loaded: Loaded,
    stop: Arc<AtomicBool>,
    system: Option<String>,
    messages: Vec<Value>,
    /// Those of all messages, and behind them those for the next.
    images: Vec<Arc<Seen>>,
    /// How many of them messages have.
    shown: usize,
    sampling: SamplingArgs,
    diffusion: DiffusionArgs,
    answer: AnswerArgs,
    last: Option<String>,
}

impl Conversation {
    fn restart(&mut self) {
        self.messages = self.system.iter().map(|s| json!({"role": "system", "content": s})).collect();
        self.images.clear();
        self.shown = 0;
    }

    /// Does what a line asks for; false ends the conversation.
    fn take(&mut self, line: &str) -> anyhow::Result<bool> {
        let text = line.replace("\\\n", "\n");
        let text = text.trim();
        let (command, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        match command {
            "" => {}
            "/quit" | "/exit" | "/bye" => return Ok(false),
            "/help" | "/?" => println(HELP)?,
            "/new" | "/clear" => self.restart(),
            "/system" => {
                self.system = Some(rest.trim().to_string()).filter(|s| !s.is_empty());
                self.restart();
            }
            "/image" => self.look(rest.trim())?,
            "/stats" => println(self.last.as_deref().unwrap_or("there was no answer yet"))?,
            "/retry" => {
                if self.messages.last().is_some_and(|m| m["role"] == "assistant") {
                    self.messages.pop();
                }
                if self.messages.last().is_some_and(|m| m["role"] == "user") {
                    self.answer()?;
                }
            }
            _ if command.starts_with('/') => println(&format!("there is no {command}; /help lists what there is"))?,
            _ => {
                self.messages.push(prompt::message(text, self.images.len() - self.shown));
                let before = std::mem::replace(&mut self.shown, self.images.len());
                if let Err(error) = self.answer() {
                    // A message that the template or the context refuses must not spoil the ones after it.
                    self.messages.pop();
                    self.images.truncate(before);
                    self.shown = before;
                    if error.is::<std::io::Error>() {
                        return Err(error);
                    }
                    eprintln!("1bit: {error}");
                }
            }
        }
        Ok(true)
    }

    /// Looks at an image, which is shown with the next message.
    fn look(&mut self, file: &str) -> anyhow::Result<()> {
        let Some(tower) = &self.loaded.tower else { return Ok(println("the model has no vision, so images cannot be given")?) };
        match prompt::look(tower, file.as_ref()) {
            Ok(seen) => {
                println(&format!("{} tokens, shown with the next message", seen.count))?;
                self.images.push(seen);
            }
            Err(error) => println(&format!("{error:#}"))?,
        }
        Ok(())
    }

    fn answer(&mut self) -> anyhow::Result<()> {
        let asked = match &self.loaded.template {
            Some(_) => prompt::of_messages(&self.loaded, Value::Array(self.messages.clone()), &self.images[..self.shown])?,
            None => {
                let texts: Vec<&str> = self.messages.iter().filter_map(|message| message["content"].as_str()).collect();
                prompt::of_text(&self.loaded, &texts.join("\n"), &[], Encode { add_special: true, parse_special: false })?
            }
        };
        let mut stream = self.loaded.engine.submit(Request {
            answer_start: self.answer.tokens(self.loaded.engine.tokenizer()),
            sampling: self.sampling.to_sampling(),
            diffusion: self.diffusion.to_diffusion(),
            ..asked
        })?;
        self.stop.store(false, Ordering::Relaxed);
        let mut answer = String::new();
        let mut out = std::io::stdout().lock();
        while let Some(event) = stream.blocking_next() {
            let text = match event {
                Event::Token(t) => t.text,
                Event::Finished(f) => {
                    self.last = Some(speed::line(&f.usage, &f.timings));
                    f.text
                }
                Event::Failed(e) => return Err(e.into()),
                Event::Prompt(_) | Event::Embedding(_) => continue,
            };
            out.write_all(text.as_bytes())?;
            out.flush()?;
            answer.push_str(&text);
            if self.stop.swap(false, Ordering::Relaxed) {
                break;
            }
        }
        writeln!(out)?;
        self.messages.push(json!({"role": "assistant", "content": answer}));
        Ok(())
    }
}

/// A line that ends in a backslash is not finished.
struct Continued;

impl Validator for Continued {
    fn validate(&self, line: &str) -> ValidationResult {
        if line.ends_with('\\') { ValidationResult::Incomplete } else { ValidationResult::Complete }
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
