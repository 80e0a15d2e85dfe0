//! Chat templates: messages to the text that a model was trained on.
//!
//! Templates are Jinja as `transformers` renders it; `transformers.apply_chat_template` (5.24) is the reference. `jinja` is the language,
//! `messages` and `contents` prepare what templates see, `time` is their `strftime_now`, and `source` finds them.

mod contents;
mod jinja;
mod messages;
mod source;
mod time;

pub use contents::Contents;

use crate::{Error, Result, Tokenizer};
use jinja::{Fault, Kind, Machine, Template};
use onebit_formats::{Checkpoint, Source};
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use std::time::SystemTime;

/// The longest template, in bytes.
const SOURCE_LIMIT: usize = 512 << 10;

/// What a template is rendered with, besides messages.
#[derive(Clone, Debug, Default)]
pub struct Render {
    /// Descriptions of the tools that may be called, as an array; with them, a template named `tool_use` is preferred.
    pub tools: Option<Json>,
    /// Documents to answer from, as an array of objects.
    pub documents: Option<Json>,
    /// End with what begins an answer.
    pub add_generation_prompt: bool,
    /// Leave the last message open, so that the answer goes on with it. Not together with `add_generation_prompt`.
    pub continue_final_message: bool,
    /// Further variables (`enable_thinking`, ...), which come before those of the vocabulary (`bos_token`, ...).
    pub extra: Map<String, Json>,
    /// The time that `strftime_now` gives, in UTC; the present if `None`.
    pub now: Option<SystemTime>,
    /// Which of several templates to use; if `None`, `tool_use` with tools, else `default`.
    pub name: Option<String>,
}

/// One model's chat template, or several by name.
#[derive(Debug)]
pub struct ChatTemplate {
    templates: BTreeMap<String, Template>,
    /// Their sources, by name.
    sources: BTreeMap<String, String>,
    /// Variables for special tokens: `bos_token` and others.
    tokens: BTreeMap<String, String>,
}

const DEFAULT: &str = "default";

impl ChatTemplate {
    /// The template of a model: from `chat_template.jinja`, `tokenizer_config.json` or `chat_template.json` beside
    /// safetensors, or from the metadata of a GGUF file. `None` if it has none.
    pub fn from_checkpoint(checkpoint: &Checkpoint, tokenizer: &Tokenizer) -> Result<Option<Self>> {
        let (sources, tokens) = Self::sources_of(checkpoint, tokenizer)?;
        if sources.is_empty() { Ok(None) } else { Self::build(sources, tokens).map(Some) }
    }

    /// Another template for a model, in place of its own. The texts of its special tokens are the model's.
    pub fn replaced(checkpoint: &Checkpoint, tokenizer: &Tokenizer, source: &str) -> Result<Self> {
        let (_, tokens) = Self::sources_of(checkpoint, tokenizer)?;
        Self::build(BTreeMap::from([(DEFAULT.to_owned(), source.to_owned())]), tokens)
    }

    fn sources_of(checkpoint: &Checkpoint, tokenizer: &Tokenizer) -> Result<source::Sources> {
        match checkpoint.source {
            Source::Gguf => source::from_gguf(&checkpoint.metadata, tokenizer),
            Source::HuggingFace => source::from_folder(checkpoint),
        }
    }

    /// A template from its source. `bos` and `eos` are the texts of the tokens that begin and end texts; an empty one is
    /// not defined in the template.
    pub fn new(source: &str, bos: &str, eos: &str) -> Result<Self> {
        let tokens = [("bos_token", bos), ("eos_token", eos)].into_iter().filter(|(_, text)| !text.is_empty());
        Self::build(BTreeMap::from([(DEFAULT.to_owned(), source.to_owned())]), tokens.map(|(k, v)| (k.to_owned(), v.to_owned())).collect())
    }

    fn build(sources: BTreeMap<String, String>, tokens: BTreeMap<String, String>) -> Result<Self> {
        let mut templates = BTreeMap::new();
        for (name, text) in &sources {
            if text.len() > SOURCE_LIMIT {
                return Err(Error::Template(format!("`{name}` has {} bytes; at most {SOURCE_LIMIT} are read", text.len())));
            }
            let template = Template::new(text).map_err(|e| Error::Template(format!("`{name}`, {e}")))?;
            templates.insert(name.clone(), template);
        }
        Ok(Self { templates, sources, tokens })
    }

    /// The text for `messages`, an array of objects with `role` and `content`.
    ///
    /// # Errors
    /// [`Error::Messages`] where the template refuses the messages or uses something that they lack, [`Error::Template`]
    /// where the template itself is at fault or passes a limit.
    pub fn render(&self, messages: &Json, options: &Render) -> Result<String> {
        let mut messages = messages::prepare(messages)?;
        if options.continue_final_message && options.add_generation_prompt {
            return Err(Error::Messages("an answer cannot both be begun and go on with the last message".into()));
        }
        let name = self.select(options)?;
        let open = if options.continue_final_message { Some(messages::open_last(&mut messages, self.text_of(name))?) } else { None };
        let mut machine = Machine::new(options.now.unwrap_or_else(SystemTime::now));
        for (name, text) in &self.tokens {
            machine.set(name, text.as_str().into());
        }
        for (name, value) in &options.extra {
            let value = machine.json(value);
            machine.set(name, value);
        }
        let messages = messages.into_iter().map(Json::Object).collect();
        let optional = |json: &Option<Json>| json.clone().unwrap_or_default();
        for (name, json) in [
            ("messages", Json::Array(messages)),
            ("tools", optional(&options.tools)),
            ("documents", optional(&options.documents)),
            ("add_generation_prompt", options.add_generation_prompt.into()),
        ] {
            let value = machine.json(&json);
            machine.set(name, value);
        }
        let template = self.templates.get(name).ok_or_else(|| Error::Template(format!("there is no `{name}`")))?;
        let text = machine.render(template).map_err(|fault| error(&fault))?;
        match open {
            None => Ok(text),
            Some(open) => open.cut(text),
        }
    }

    /// The name of the template for these options.
    fn select(&self, options: &Render) -> Result<&str> {
        let wanted = match (&options.name, &options.tools) {
            (Some(name), _) => name,
            (None, Some(_)) if self.sources.contains_key("tool_use") => "tool_use",
            (None, _) => DEFAULT,
        };
        let found = self.sources.get_key_value(wanted).map(|(name, _)| name.as_str());
        found.ok_or_else(|| {
            let names = self.sources.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            Error::Messages(format!("the model has no template named `{wanted}`; it has: {names}"))
        })
    }

    fn text_of(&self, name: &str) -> &str {
        self.sources.get(name).map_or("", String::as_str)
    }

    /// The source of the default template, or of the first one.
    pub fn source(&self) -> &str {
        self.sources.get(DEFAULT).or_else(|| self.sources.values().next()).map_or("", String::as_str)
    }

    /// The sources of all templates.
    pub fn sources(&self) -> impl Iterator<Item = &str> {
        self.sources.values().map(String::as_str)
    }

    /// The names of all templates: `default` where the model has only one.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.sources.keys().map(String::as_str)
    }
}

fn error(fault: &Fault) -> Error {
    match fault.kind {
        Kind::Template => Error::Template(fault.to_string()),
        Kind::Raised | Kind::Values => Error::Messages(fault.to_string()),
    }
}
