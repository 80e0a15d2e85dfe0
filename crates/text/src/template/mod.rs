//! Chat templates: messages to the text that a model was trained on.
//!
//! Templates are Jinja as `transformers` renders it; `transformers.apply_chat_template` (5.24) is the reference. The
//! language itself comes from `minijinja`; here is what the Hub's templates need beyond it: `messages` prepares what they
//! see, `json` is their `tojson`, `time` their `strftime_now`, `python` their Python, `source` their `{% generation %}`; `depth`
//! bounds how far a source nests, `stored` what is kept in variables.

mod depth;
mod json;
mod messages;
mod python;
mod source;
mod stored;
mod time;

use crate::{Error, Result, Tokenizer};
use minijinja::{Environment, ErrorKind, State, Value, syntax::SyntaxConfig};
use onebit_formats::{Checkpoint, Source};
use serde_json::{Map, Value as Json};
use std::{
    borrow::Cow,
    collections::BTreeMap,
    error::Error as _,
    fmt,
    panic::{self, AssertUnwindSafe},
    time::SystemTime,
};

/// What a rendering may cost: instructions, or 64 bytes of text each. It bounds time (about a second) and memory (256 MB). A
/// thousand messages cost some hundred thousand. What
/// `minijinja` 3.1 does not count, lists put together with `+` and comparisons of values that were made to nest, `stored` bounds where
/// variables are set; through the arguments of macros, whose calls nest, it is still possible.
const FUEL: u64 = 4_000_000;
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
pub struct ChatTemplate {
    environment: Environment<'static>,
    /// Their sources, by name.
    sources: BTreeMap<String, String>,
    /// Variables for special tokens: `bos_token` and others.
    tokens: BTreeMap<String, String>,
}

impl fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatTemplate").field("sources", &self.sources).field("tokens", &self.tokens).finish_non_exhaustive()
    }
}

const DEFAULT: &str = "default";

impl ChatTemplate {
    /// The template of a model: from `chat_template.jinja`, `tokenizer_config.json` or `chat_template.json` beside
    /// safetensors, or from the metadata of a GGUF file. `None` if it has none.
    pub fn from_checkpoint(checkpoint: &Checkpoint, tokenizer: &Tokenizer) -> Result<Option<Self>> {
        let (sources, tokens) = match checkpoint.source {
            Source::Gguf => source::from_gguf(&checkpoint.metadata, tokenizer)?,
            Source::HuggingFace => source::from_folder(checkpoint)?,
        };
        if sources.is_empty() { Ok(None) } else { Self::build(sources, tokens).map(Some) }
    }

    /// A template from its source. `bos` and `eos` are the texts of the tokens that begin and end texts; an empty one is
    /// not defined in the template.
    pub fn new(source: &str, bos: &str, eos: &str) -> Result<Self> {
        let tokens = [("bos_token", bos), ("eos_token", eos)].into_iter().filter(|(_, text)| !text.is_empty());
        Self::build(BTreeMap::from([(DEFAULT.to_owned(), source.to_owned())]), tokens.map(|(k, v)| (k.to_owned(), v.to_owned())).collect())
    }

    fn build(sources: BTreeMap<String, String>, tokens: BTreeMap<String, String>) -> Result<Self> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        let syntax = syntax.map_err(|e| Error::Template(describe(&e)))?;
        environment.set_syntax(syntax.clone());
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.set_fuel(Some(FUEL));
        environment.set_debug(false);
        python::add_to(&mut environment);
        environment.add_filter("tojson", json::tojson);
        environment.add_filter(stored::NAMESPACE_FILTER, stored::storable);
        environment.add_filter(stored::VARIABLE_FILTER, stored::bounded);
        environment.add_function("raise_exception", |message: String| -> Result<Value, minijinja::Error> { Err(raised(message)) });
        for (name, text) in &sources {
            if text.len() > SOURCE_LIMIT {
                return Err(Error::Template(format!("`{name}` has {} bytes; at most {SOURCE_LIMIT} are read", text.len())));
            }
            let text = source::without_generation_tags(text);
            depth::check(&text, &syntax).map_err(|e| Error::Template(format!("`{name}`, {e}")))?;
            environment
                .add_template_owned(name.clone(), stored::guard(&text, &syntax).into_owned())
                .map_err(|e| Error::Template(describe(&e)))?;
        }
        Ok(Self { environment, sources, tokens })
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
        let mut variables: BTreeMap<Cow<'_, str>, Value> = BTreeMap::new();
        variables.extend(self.tokens.iter().map(|(name, text)| (Cow::from(name), Value::from(text.as_str()))));
        variables.extend(options.extra.iter().map(|(name, value)| (Cow::from(name), json::value(value))));
        variables.insert("messages".into(), messages.iter().map(json::object).collect::<Vec<_>>().into());
        variables.insert("tools".into(), json::optional(options.tools.as_ref()));
        variables.insert("documents".into(), json::optional(options.documents.as_ref()));
        variables.insert("add_generation_prompt".into(), options.add_generation_prompt.into());
        let now = options.now.unwrap_or_else(SystemTime::now);
        variables.insert("strftime_now".into(), Value::from_function(move |format: String| time::strftime(now, &format)));
        let template = self.environment.get_template(name).map_err(|e| Error::Template(describe(&e)))?;
        stored::begin();
        // `minijinja` 3.1 panics in places, such as `loop.cycle()` without arguments. Nothing that it was in the midst of changing
        // outlives the rendering.
        let rendered = panic::catch_unwind(AssertUnwindSafe(|| template.render(Value::from_pairs(variables))));
        let text = rendered.map_err(|_| Error::Template("it made the template engine fail".into()))?.map_err(|e| error(&e))?;
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

/// Takes from the fuel for `bytes` that were written or read.
fn charge(state: &State<'_, '_>, bytes: usize) -> Result<(), minijinja::Error> {
    state.consume_fuel(bytes as u64 / 64 + 1)
}

/// What `raise_exception` was called with.
#[derive(Debug)]
struct Raised(String);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for Raised {}

fn raised(message: String) -> minijinja::Error {
    minijinja::Error::new(ErrorKind::InvalidOperation, "the template raised an exception").with_source(Raised(message))
}

fn error(e: &minijinja::Error) -> Error {
    let mut cause = e.source();
    while let Some(inner) = cause {
        if let Some(Raised(message)) = inner.downcast_ref::<Raised>() {
            return Error::Messages(message.clone());
        }
        cause = inner.source();
    }
    match e.kind() {
        ErrorKind::OutOfFuel => Error::Template(format!("it did more work than is allowed ({FUEL} steps), and was stopped")),
        ErrorKind::SyntaxError
        | ErrorKind::UnknownFilter
        | ErrorKind::UnknownTest
        | ErrorKind::UnknownFunction
        | ErrorKind::TemplateNotFound
        | ErrorKind::BadInclude => Error::Template(describe(e)),
        _ if e.detail().is_some_and(|detail| detail.contains("recursion limit") || detail.contains(stored::REFUSED)) => {
            Error::Template(describe(e))
        }
        _ => Error::Messages(describe(e)),
    }
}

/// An error with where it happened, and its first cause.
fn describe(e: &minijinja::Error) -> String {
    let mut text = e.to_string();
    let mut cause = e.source();
    while let Some(inner) = cause.and_then(|inner| inner.source()) {
        cause = Some(inner);
    }
    if let Some(cause) = cause {
        text = format!("{text}: {cause}");
    }
    text
}
