//! A conversation with a model, and what can be asked of it besides messages.

use super::{Chat, saved};
use crate::{
    Loudness,
    failure::Usage,
    markdown::Markdown,
    open::{self, Loaded},
    prompt,
    sight::See,
    speed,
    terminal::plain,
};
use anyhow::anyhow;
use onebit_engine::{Event, Finish, Request, Stream};
use onebit_plan::DeviceError;
use onebit_registry::Cache;
use onebit_text::{
    Encode,
    parse::{self, Output, Parser},
};
use onebit_vision::{Seen, Tower};
use serde_json::{Value, json};
use std::{
    io::{IsTerminal, StdoutLock, Write},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

const HELP: &str = "/model NAME   go on with another model; without a name, tells which there are
/system TEXT  new instructions, new conversation
/new          new conversation
/image FILE   show this image with the next message
/retry        another answer to the last message
/save FILE    write the conversation to a file
/load FILE    go on with a conversation that was saved
/stats        tokens and speed of the last answer, and what the context holds
/quit         leave (Ctrl-D)
A line that ends in \\ goes on, and so do lines between \"\"\" and \"\"\"; Alt-Enter begins a new line.
Ctrl-C stops an answer.";

/// How soon Ctrl-C is noticed while the model computes.
const GLANCE: Duration = Duration::from_millis(50);

const DIM: &str = "\x1b[2m";
const RESET: &str = "\x1b[0m";

pub(super) fn println(text: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout().lock(), "{}", plain(text))
}

pub(super) struct Conversation {
    /// How it was begun: everything that other models are loaded and asked by, too.
    asked: Chat,
    /// Away only while another one is loaded in its place.
    loaded: Option<Loaded>,
    loudness: Loudness,
    /// Ctrl-C was pressed.
    stop: Arc<AtomicBool>,
    /// Nothing is being answered.
    idle: Arc<AtomicBool>,
    system: Option<String>,
    /// As OpenAI has them, images as `data:` URLs.
    messages: Vec<Value>,
    /// What the model makes of the images of all messages.
    images: Vec<Arc<Seen>>,
    /// Images for the next message, and their parts of it.
    next: Vec<(Value, Arc<Seen>)>,
    last: Option<Finish>,
    /// Tokens computed and chosen in this conversation.
    spent: [usize; 2],
}

impl Conversation {
    pub(super) fn new(asked: Chat, loaded: Loaded, stop: Arc<AtomicBool>, idle: Arc<AtomicBool>, loudness: Loudness) -> Self {
        let system = asked.system.clone();
        let mut new = Self {
            asked,
            loaded: Some(loaded),
            loudness,
            stop,
            idle,
            system,
            messages: vec![],
            images: vec![],
            next: vec![],
            last: None,
            spent: [0; 2],
        };
        new.restart();
        new.idle.store(true, Ordering::SeqCst);
        new
    }

    pub(super) fn greeting(&self) -> String {
        match &self.loaded {
            Some(loaded) => format!("{} · {} tokens of context · /help", loaded.name, loaded.engine.context()),
            None => String::new(),
        }
    }

    fn model(&self) -> anyhow::Result<&Loaded> {
        self.loaded.as_ref().ok_or_else(|| anyhow!("no model is loaded"))
    }

    fn restart(&mut self) {
        self.messages = self.system.iter().map(|s| json!({"role": "system", "content": s})).collect();
        self.images.clear();
        self.next.clear();
        (self.last, self.spent) = (None, [0; 2]);
    }

    /// Does what a message or command asks for; false ends the conversation. What fails is told, and changes nothing; an error is only
    /// what ends the program.
    pub(super) fn take(&mut self, text: &str) -> anyhow::Result<bool> {
        let (command, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let rest = rest.trim();
        let done = match command {
            "" => Ok(()),
            "/quit" | "/exit" | "/bye" => return Ok(false),
            "/help" | "/?" => println(HELP).map_err(Into::into),
            "/new" | "/clear" => {
                self.restart();
                Ok(())
            }
            "/system" => {
                self.system = Some(rest.to_string()).filter(|s| !s.is_empty());
                self.restart();
                Ok(())
            }
            "/model" => self.switch(rest),
            "/image" => self.look(rest),
            "/save" => self.save(rest),
            "/load" if rest.is_empty() => Err(Usage("a file is needed: /load FILE".into()).into()),
            "/load" => self.load(rest.as_ref()),
            "/stats" => println(&self.stats()).map_err(Into::into),
            "/retry" => self.retry(),
            _ if command.starts_with('/') && !command[1..].contains('/') => {
                println(&format!("there is no {command}; /help lists what there is")).map_err(Into::into)
            }
            _ => self.say(text),
        };
        match done {
            Err(error) if self.loaded.is_none() || error.downcast_ref::<std::io::Error>().is_some_and(is_ours) => Err(error),
            Err(error) => {
                eprintln!("1bit: {}", plain(&format!("{error:#}")));
                Ok(true)
            }
            Ok(()) => Ok(true),
        }
    }

    fn say(&mut self, text: &str) -> anyhow::Result<()> {
        let next = std::mem::take(&mut self.next);
        let message = match next.is_empty() {
            true => json!({"role": "user", "content": text}),
            false => {
                let parts = next.iter().map(|(part, _)| part.clone()).chain([json!({"type": "text", "text": text})]);
                json!({"role": "user", "content": parts.collect::<Vec<_>>()})
            }
        };
        let before = (self.messages.len(), self.images.len());
        self.messages.push(message);
        self.images.extend(next.into_iter().map(|(_, seen)| seen));
        let answered = self.answer();
        if answered.is_err() {
            // A message that the template or the context refuses must not spoil the ones after it.
            self.messages.truncate(before.0);
            self.images.truncate(before.1);
        }
        answered
    }

    fn retry(&mut self) -> anyhow::Result<()> {
        let dropped = self.messages.pop_if(|message| message["role"] == "assistant");
        if self.messages.last().is_none_or(|message| message["role"] != "user") {
            self.messages.extend(dropped);
            return Ok(println("there is no message yet that could be answered again")?);
        }
        let answered = self.answer();
        if answered.is_err() {
            self.messages.extend(dropped);
        }
        answered
    }

    /// Looks at an image, which is shown with the next message.
    fn look(&mut self, file: &str) -> anyhow::Result<()> {
        let Some(tower) = &self.model()?.tower else {
            return Err(Usage("the model has no vision, so images cannot be given".into()).into());
        };
        let bytes = prompt::read_image(file.as_ref())?;
        let seen = prompt::see(tower, &bytes, file.as_ref())?;
        println(&format!("{} tokens, shown with the next message", seen.count))?;
        self.next.push((saved::image_part(&bytes), seen));
        Ok(())
    }

    fn save(&self, file: &str) -> anyhow::Result<()> {
        if file.is_empty() {
            return Err(Usage("a file is needed: /save FILE".into()).into());
        }
        saved::write(file.as_ref(), &self.model()?.name, &self.messages)?;
        Ok(println(&format!("{} messages are in {file}", self.messages.len()))?)
    }

    pub(super) fn load(&mut self, file: &Path) -> anyhow::Result<()> {
        let messages = saved::read(file)?;
        let images = seen(self.model()?.tower.as_ref(), &messages)?;
        let system = messages.first().filter(|message| message["role"] == "system");
        self.system = system.and_then(|message| message["content"].as_str()).map(str::to_string);
        self.restart();
        (self.messages, self.images) = (messages, images);
        let turns = self.messages.iter().filter(|message| message["role"] == "user").count();
        Ok(println(&format!("{turns} messages of yours, and their answers"))?)
    }

    /// Goes on with another model.
    fn switch(&mut self, name: &str) -> anyhow::Result<()> {
        if name.is_empty() {
            println(&format!("this is {}; in the cache are:", self.asked.model))?;
            for cached in Cache::from_env()?.list()? {
                println(&format!("  {}  {} ({:.1} MB)", cached.name, cached.variant, cached.bytes as f64 / 1e6))?;
            }
            return Ok(());
        }
        let fresh = match self.open(name) {
            // Both together may be too much where one alone is not.
            Err(error) if error.chain().any(|e| matches!(e.downcast_ref(), Some(DeviceError::Memory { .. }))) => {
                if let Some(old) = self.loaded.take() {
                    old.engine.shutdown(Duration::ZERO);
                }
                match self.open(name) {
                    Ok(fresh) => fresh,
                    Err(error) => {
                        let model = self.asked.model.clone();
                        self.loaded = Some(self.open(&model)?.0);
                        return Err(error);
                    }
                }
            }
            fresh => fresh?,
        };
        (self.loaded, self.images) = (Some(fresh.0), fresh.1);
        self.asked.model = name.to_string();
        // What waits was looked at with the other model's eyes.
        self.next.clear();
        (self.last, self.spent) = (None, [0; 2]);
        println(&self.greeting())?;
        Ok(())
    }

    /// A model that can go on with this conversation, and what it makes of its images.
    fn open(&self, name: &str) -> anyhow::Result<(Loaded, Vec<Arc<Seen>>)> {
        // A tower that was named belongs to the model that was.
        let sight = crate::sight::SightArgs {
            mmproj: self.asked.sight.mmproj.clone().filter(|_| name == self.asked.model),
            ..self.asked.sight.clone()
        };
        let loaded = open::engine(name, &self.asked.device, &self.asked.context, See::IfItCan(&sight), self.loudness)?;
        if loaded.template.is_none() && loaded.plan.answering.is_none() {
            return Err(Usage(format!("{} has no chat template", loaded.name)).into());
        }
        let images = seen(loaded.tower.as_ref(), &self.messages)?;
        Ok((loaded, images))
    }

    fn stats(&self) -> String {
        let (Some(finish), Some(loaded)) = (&self.last, &self.loaded) else { return "there was no answer yet".into() };
        let [computed, chosen] = self.spent;
        format!(
            "{}\ncontext: {} of {} tokens · this conversation: {computed} read, {chosen} written",
            speed::line(&finish.usage, &finish.timings),
            finish.usage.prompt + finish.usage.completion,
            loaded.engine.context(),
        )
    }

    fn answer(&mut self) -> anyhow::Result<()> {
        let loaded = self.model()?;
        let output = loaded.template.as_ref().map(|template| Output::of(&template.sources().collect::<Vec<_>>().join("\n")));
        let output = output.filter(Output::reasons);
        let (asked, text) = match &loaded.template {
            Some(_) => {
                let text = prompt::rendered(loaded, Value::Array(self.messages.iter().map(for_template).collect()))?;
                (prompt::of_text(loaded, &text, &self.images, prompt::RENDERED)?, text)
            }
            None => {
                let texts: Vec<&str> = self.messages.iter().filter_map(|message| message["content"].as_str()).collect();
                (prompt::of_text(loaded, &texts.join("\n"), &[], Encode { add_special: true, parse_special: false })?, String::new())
            }
        };
        let tokenizer = loaded.engine.tokenizer();
        let is_mark = |id: &u32| output.as_ref().is_some_and(|output| tokenizer.token_text(*id).is_some_and(|text| output.needs(&text)));
        let stream = loaded.engine.submit(Request {
            answer_start: self.asked.answer.tokens(tokenizer),
            sampling: self.asked.sampling.to_sampling(),
            diffusion: self.asked.diffusion.to_diffusion(),
            shown: tokenizer.special_ids().filter(is_mark).collect(),
            ..asked
        })?;
        let mut written = Written::new(output.map(|output| output.parser(&text, None, true)));
        self.idle.store(false, Ordering::SeqCst);
        self.stop.store(false, Ordering::SeqCst);
        let finish = written.all(stream, &self.stop);
        self.idle.store(true, Ordering::SeqCst);
        if let Some(finish) = finish? {
            self.spent[0] += finish.usage.prompt - finish.usage.cached;
            self.spent[1] += finish.usage.completion;
            self.last = Some(finish);
        }
        let mut message = json!({"role": "assistant", "content": written.content});
        if !written.reasoning.is_empty() {
            message["reasoning_content"] = written.reasoning.into();
        }
        self.messages.push(message);
        Ok(())
    }
}

/// Whether an error is of this program's own input and output, which ends it, and not of a file that somebody named.
fn is_ours(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::BrokenPipe
}

/// What the tower makes of the images of messages.
fn seen(tower: Option<&Tower>, messages: &[Value]) -> anyhow::Result<Vec<Arc<Seen>>> {
    let images = saved::images(messages);
    match tower {
        Some(tower) => images.iter().enumerate().map(|(i, bytes)| prompt::see(tower, bytes, format!("image {}", i + 1).as_ref())).collect(),
        None if images.is_empty() => Ok(vec![]),
        None => Err(Usage("the conversation has images, and the model has no vision".into()).into()),
    }
}

/// A message as templates take it: where an image is, without its bytes.
fn for_template(message: &Value) -> Value {
    let mut message = message.clone();
    for part in message["content"].as_array_mut().into_iter().flatten() {
        if part["type"] == "image_url" {
            *part = json!({"type": "image"});
        }
    }
    message
}

/// An answer on its way to the terminal.
struct Written {
    out: StdoutLock<'static>,
    /// Whether colours and styles are wanted.
    styled: bool,
    parser: Option<Parser>,
    markdown: Markdown,
    content: String,
    reasoning: String,
}

impl Written {
    fn new(parser: Option<Parser>) -> Self {
        let out = std::io::stdout().lock();
        let plain =
            std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty()) || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let styled = out.is_terminal() && !plain;
        Self { out, styled, parser, markdown: Markdown::new(styled), content: String::new(), reasoning: String::new() }
    }

    /// Writes what comes until it ends or somebody stops it; gives how it ended, unless it was stopped.
    fn all(&mut self, mut stream: Stream, stop: &AtomicBool) -> anyhow::Result<Option<Finish>> {
        let finish = loop {
            if stop.swap(false, Ordering::SeqCst) {
                // Dropping the stream frees its place.
                break None;
            }
            match stream.blocking_next_within(GLANCE) {
                Poll::Pending => {}
                Poll::Ready(Some(Event::Token(token))) => self.text(&token.text)?,
                Poll::Ready(Some(Event::Finished(finish))) => {
                    self.text(&finish.text)?;
                    break Some(finish);
                }
                Poll::Ready(Some(Event::Failed(error))) => {
                    self.end()?;
                    return Err(error.into());
                }
                Poll::Ready(Some(Event::Prompt(_) | Event::Embedding(_))) => {}
                Poll::Ready(None) => return Err(anyhow!("the engine ended")),
            }
        };
        if let Some(mut parser) = self.parser.take() {
            self.events(parser.finish())?;
        }
        self.end()?;
        Ok(finish)
    }

    fn text(&mut self, text: &str) -> std::io::Result<()> {
        match &mut self.parser {
            Some(parser) => {
                let events = parser.push(text);
                self.events(events)
            }
            None => self.events(vec![parse::Event::Content(text.to_string())]),
        }
    }

    fn events(&mut self, events: Vec<parse::Event>) -> std::io::Result<()> {
        for event in events {
            match event {
                parse::Event::Reasoning(text) if self.styled => {
                    let text = plain(&text);
                    write!(self.out, "{DIM}{text}{RESET}")?;
                    self.reasoning.push_str(&text);
                }
                parse::Event::Reasoning(text) => {
                    self.out.write_all(text.as_bytes())?;
                    self.reasoning.push_str(&text);
                }
                parse::Event::Content(text) => {
                    if self.content.is_empty() && !self.reasoning.is_empty() {
                        self.out.write_all(b"\n\n")?;
                    }
                    self.content.push_str(&text);
                    let shown = self.markdown.push(&text);
                    self.out.write_all(shown.as_bytes())?;
                }
                _ => {}
            }
        }
        self.out.flush()
    }

    fn end(&mut self) -> std::io::Result<()> {
        let rest = self.markdown.finish();
        writeln!(self.out, "{rest}")?;
        self.out.flush()
    }
}
