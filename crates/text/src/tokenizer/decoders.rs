//! The decoders of `tokenizer.json`, applied to every token once, when the file is read.

use super::{
    bytes,
    decode::Output,
    hf::PatternSpec,
    split::{Pattern, Prepend},
    strings::Strings,
};
use crate::{Error, Result};
use serde::Deserialize;
use serde_json::Value;
use std::rc::Rc;

/// A decoder as the file has it.
#[derive(Deserialize)]
#[serde(tag = "type")]
pub(super) enum Spec {
    Sequence {
        decoders: Vec<Self>,
    },
    ByteLevel,
    Replace {
        pattern: PatternSpec,
        content: String,
    },
    ByteFallback,
    Fuse,
    Strip {
        content: char,
        start: usize,
        stop: usize,
    },
    Metaspace {
        replacement: char,
        prepend_scheme: Option<Prepend>,
        add_prefix_space: Option<bool>,
    },
    #[serde(untagged)]
    Other(Value),
}

/// What is done to each token.
#[derive(Clone)]
enum Step<'a> {
    ByteLevel,
    Replace(Rc<Pattern>, &'a str),
    ByteFallback,
    Strip {
        content: char,
        start: usize,
        stop: usize,
    },
    /// A space comes before each token.
    Apart,
}

/// What each token stands for. `texts` are what tokens are put together from: those that are looked for in normalized text
/// as they look there.
pub(super) fn output<'t>(origin: &str, spec: Option<&Spec>, texts: impl Iterator<Item = &'t [u8]> + Clone) -> Result<Output> {
    let mut reader = Reader { origin, steps: Vec::new(), first: None, fused: false, strip: 0 };
    match spec {
        Some(spec) => reader.read(spec)?,
        None => {
            // Without a decoder, tokens are put together with spaces between them.
            reader.first = Some(reader.steps.clone());
            reader.steps.push(Step::Apart);
        }
    }
    let all = |steps: &[Step<'_>]| {
        let mut strings = Strings::default();
        texts.clone().for_each(|text| strings.push(&apply(steps, text)));
        strings
    };
    Ok(Output { bytes: all(&reader.steps), first: reader.first.as_deref().map(all), strip: reader.strip })
}

struct Reader<'a> {
    origin: &'a str,
    steps: Vec<Step<'a>>,
    /// What is done to the first token, where that differs.
    first: Option<Vec<Step<'a>>>,
    /// Tokens are one text from here on.
    fused: bool,
    /// How many spaces the text loses at its start.
    strip: usize,
}

impl<'a> Reader<'a> {
    fn push(&mut self, step: Step<'a>) {
        self.first.iter_mut().for_each(|steps| steps.push(step.clone()));
        self.steps.push(step);
    }

    fn read(&mut self, spec: &'a Spec) -> Result<()> {
        let unsupported = |what: &str| Err(Error::unsupported(self.origin, what));
        match spec {
            Spec::Sequence { decoders } => return decoders.iter().try_for_each(|d| self.read(d)),
            Spec::ByteLevel if self.steps.is_empty() => self.push(Step::ByteLevel),
            Spec::ByteLevel => return unsupported("a `ByteLevel` decoder after others"),
            Spec::Replace { pattern, content } => {
                let pattern = pattern.read(self.origin)?;
                let in_one_token = !self.fused || matches!(&pattern, Pattern::Literal(text) if text.chars().count() == 1);
                if !in_one_token {
                    return unsupported("a `Replace` decoder of more than one character after `Fuse`");
                }
                self.push(Step::Replace(Rc::new(pattern), content));
            }
            Spec::ByteFallback => self.push(Step::ByteFallback),
            Spec::Fuse => self.fused = true,
            Spec::Strip { content: ' ', start, stop: 0 } if self.fused && self.strip == 0 => self.strip = *start,
            Spec::Strip { .. } if self.fused => return unsupported("a `Strip` decoder after `Fuse` of other than spaces at the start"),
            Spec::Strip { content, start, stop } => self.push(Step::Strip { content: *content, start: *start, stop: *stop }),
            Spec::Metaspace { replacement, prepend_scheme, add_prefix_space } => {
                if !self.steps.is_empty() {
                    return unsupported("a `Metaspace` decoder after others");
                }
                let mark = Rc::new(Pattern::Literal(replacement.to_string()));
                let never = *prepend_scheme == Some(Prepend::Never) || (prepend_scheme.is_none() && *add_prefix_space == Some(false));
                self.first = (!never).then(|| vec![Step::Replace(Rc::clone(&mark), "")]);
                self.steps.push(Step::Replace(mark, " "));
            }
            Spec::Other(spec) => {
                return Err(match spec.get("type").and_then(Value::as_str) {
                    Some(name) => Error::unsupported(self.origin, format!("the decoder `{name}` with {spec}")),
                    None => Error::invalid(self.origin, format!("the decoder has no type: {spec}")),
                });
            }
        }
        Ok(())
    }
}

fn apply(steps: &[Step<'_>], token: &[u8]) -> Vec<u8> {
    let Ok(token) = str::from_utf8(token) else { return token.to_vec() };
    let mut text = token.to_owned();
    for step in steps {
        match step {
            Step::ByteLevel => return bytes::decode(&text).unwrap_or_else(|| text.into_bytes()),
            Step::ByteFallback => {
                if let Some(byte) = bytes::byte_token(&text) {
                    return vec![byte];
                }
            }
            Step::Replace(pattern, content) => {
                let mut replaced = String::with_capacity(text.len());
                pattern.each(&text, |range, is_match| replaced.push_str(if is_match { content } else { &text[range] }));
                text = replaced;
            }
            Step::Strip { content, start, stop } => {
                let starts = text.chars().take(*start).take_while(|c| c == content).count() * content.len_utf8();
                text.drain(..starts);
                let stops = text.chars().rev().take(*stop).take_while(|c| c == content).count() * content.len_utf8();
                text.truncate(text.len() - stops);
            }
            Step::Apart => text.insert(0, ' '),
        }
    }
    text.into_bytes()
}
