//! The decoders of `tokenizer.json`, applied to every token once, when the file is read.

use super::{PatternSpec, yes};
use crate::{
    Error, Result,
    tokenizer::{
        bytes,
        decode::Output,
        normalize::clean_up,
        split::{Pattern, Prepend},
        strings::Strings,
        text_steps::TextStep,
    },
};
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
    WordPiece {
        #[serde(default = "continuation")]
        prefix: String,
        #[serde(default = "yes")]
        cleanup: bool,
    },
    #[serde(rename = "BPEDecoder")]
    Bpe {
        suffix: String,
    },
    #[serde(rename = "CTC")]
    Ctc {
        pad_token: String,
        word_delimiter_token: String,
        #[serde(default = "yes")]
        cleanup: bool,
    },
    #[serde(untagged)]
    Other(Value),
}

fn continuation() -> String {
    "##".into()
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
    /// A space comes before each token that does not continue a word.
    Continue(&'a str),
    /// Spaces that English does not have are removed.
    Clean,
}

/// What each token stands for. `texts` are what tokens are put together from: those that are looked for in normalized text
/// as they look there.
pub(super) fn output<'t>(origin: &str, spec: Option<&Spec>, texts: impl Iterator<Item = &'t [u8]> + Clone) -> Result<Output> {
    let mut reader = Reader { origin, ..Reader::default() };
    match spec {
        Some(spec) => reader.read(spec)?,
        None => {
            // Without a decoder, tokens are put together with spaces between them.
            reader.first = Some(Vec::new());
            reader.steps.push(Step::Apart);
        }
    }
    let all = |steps: &[Step<'_>]| {
        let mut strings = Strings::default();
        texts.clone().for_each(|text| strings.push(&apply(steps, text)));
        strings
    };
    Ok(Output {
        bytes: all(&reader.steps),
        first: reader.first.as_deref().map(all),
        last: reader.last.as_deref().map(all),
        distinct: reader.distinct,
        long_start: false,
        steps: reader.text_steps,
    })
}

#[derive(Default)]
struct Reader<'a> {
    origin: &'a str,
    steps: Vec<Step<'a>>,
    /// What is done to the first token, where that differs.
    first: Option<Vec<Step<'a>>>,
    /// What is done to the last token, where that differs.
    last: Option<Vec<Step<'a>>>,
    distinct: bool,
    /// Tokens are one text from here on.
    fused: bool,
    text_steps: Vec<TextStep>,
}

impl<'a> Reader<'a> {
    fn push(&mut self, step: Step<'a>) {
        for steps in self.first.iter_mut().chain(&mut self.last) {
            steps.push(step.clone());
        }
        self.steps.push(step);
    }

    fn read(&mut self, spec: &'a Spec) -> Result<()> {
        let unsupported = |what: &str| Err(Error::unsupported(self.origin, what));
        let literal = |text: &str| Rc::new(Pattern::Literal(text.to_owned()));
        // These do something else to the first or last token, or to the next that is the same.
        let leads = match spec {
            Spec::Metaspace { .. } => "Metaspace",
            Spec::WordPiece { .. } => "WordPiece",
            Spec::Bpe { .. } => "BPEDecoder",
            Spec::Ctc { .. } => "CTC",
            Spec::ByteLevel if self.fused => "ByteLevel",
            Spec::ByteFallback if self.fused => "ByteFallback",
            _ => "",
        };
        if !leads.is_empty() && (!self.steps.is_empty() || self.fused) {
            return unsupported(&format!("a `{leads}` decoder after others"));
        }
        match spec {
            Spec::Sequence { decoders } => return decoders.iter().try_for_each(|d| self.read(d)),
            Spec::ByteLevel => {
                self.push(Step::ByteLevel);
                self.fused = true;
            }
            Spec::Replace { pattern, content } => match (pattern.read(self.origin)?, self.fused) {
                (pattern, false) => self.push(Step::Replace(Rc::new(pattern), content)),
                (Pattern::Literal(pattern), true) => self.text_steps.push(TextStep::Replace { pattern, content: content.clone() }),
                (_, true) => return unsupported("a `Replace` decoder of a regular expression after `Fuse`"),
            },
            Spec::ByteFallback => self.push(Step::ByteFallback),
            Spec::Fuse => self.fused = true,
            &Spec::Strip { content, start, stop } if self.fused => self.text_steps.push(TextStep::Strip { content, start, stop }),
            Spec::Strip { content, start, stop } => self.push(Step::Strip { content: *content, start: *start, stop: *stop }),
            Spec::Metaspace { replacement, prepend_scheme, add_prefix_space } => {
                let mark = literal(&replacement.to_string());
                let never = *prepend_scheme == Some(Prepend::Never) || (prepend_scheme.is_none() && *add_prefix_space == Some(false));
                self.first = (!never).then(|| vec![Step::Replace(Rc::clone(&mark), "")]);
                self.steps.push(Step::Replace(mark, " "));
            }
            Spec::WordPiece { prefix, cleanup } => {
                self.first = Some(Vec::new());
                self.steps.push(Step::Continue(prefix));
                if *cleanup {
                    self.push(Step::Clean);
                }
            }
            Spec::Bpe { suffix } if suffix.is_empty() => return Err(Error::invalid(self.origin, "the `suffix` of `BPEDecoder` is empty")),
            Spec::Bpe { suffix } => {
                self.last = Some(vec![Step::Replace(literal(suffix), "")]);
                self.steps.push(Step::Replace(literal(suffix), " "));
            }
            Spec::Ctc { pad_token, word_delimiter_token, cleanup } => {
                self.distinct = true;
                if pad_token.is_empty() || word_delimiter_token.is_empty() {
                    return Err(Error::invalid(self.origin, "`CTC` has an empty `pad_token` or `word_delimiter_token`"));
                }
                self.push(Step::Replace(literal(pad_token), ""));
                if *cleanup {
                    self.push(Step::Clean);
                    self.push(Step::Replace(literal(word_delimiter_token), " "));
                }
            }
            Spec::Other(spec) => return Err(super::unknown(self.origin, "decoder", spec)),
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
            Step::Continue(prefix) => match text.strip_prefix(prefix) {
                Some(rest) => text = rest.to_owned(),
                None => text.insert(0, ' '),
            },
            Step::Clean => text = clean_up(text),
        }
    }
    text.into_bytes()
}
