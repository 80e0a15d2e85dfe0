//! From ids back to text, token by token, without ever giving half a character.

use super::{
    Tokenizer,
    strings::Strings,
    text_steps::{TextState, TextStep},
};
use std::sync::Arc;

/// What tokens stand for.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// Bytes by id, anywhere but at the start.
    pub bytes: Strings,
    /// Bytes by id at the start of a text, where they differ.
    pub first: Option<Strings>,
    /// The start of a text lasts until something has been written, not only for one token.
    pub long_start: bool,
    /// Bytes by id at the end of a text, where they differ.
    pub last: Option<Strings>,
    /// Of neighbours that are the same token, only one counts.
    pub distinct: bool,
    /// What is done to the text.
    pub steps: Vec<TextStep>,
}

/// The state of a text that is decoded token by token.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    skip_special: bool,
    first: bool,
    /// The token before, and whether its text still waits to know if another comes.
    before: Option<u32>,
    /// Bytes that are not whole characters yet.
    pending: Vec<u8>,
    steps: Vec<TextState>,
}

impl Stream {
    pub(crate) fn new(output: &Output, skip_special: bool) -> Self {
        let steps = output.steps.iter().map(TextStep::start).collect();
        Self { skip_special, first: true, before: None, pending: Vec::new(), steps }
    }

    /// Appends the whole characters that `id` completes. Ids without a token give nothing.
    pub(crate) fn push(&mut self, tokenizer: &Tokenizer, id: u32, text: &mut String) {
        if !tokenizer.is_used(id) || (self.skip_special && tokenizer.is_special(id)) {
            return;
        }
        let output = &tokenizer.output;
        let before = self.before.replace(id);
        if output.distinct && before == Some(id) {
            return;
        }
        let id = match (&output.last, before) {
            (None, _) => id,
            (Some(_), Some(before)) => before,
            (Some(_), None) => return,
        };
        let strings = output.first.as_ref().filter(|_| self.first).unwrap_or(&output.bytes);
        let bytes = strings.get(id).unwrap_or_default();
        self.pending.extend_from_slice(bytes);
        self.first &= output.long_start && bytes.is_empty();
        self.flush(output, text, false);
    }

    /// Moves whole characters to `text`; at the `end`, what is left too, as U+FFFD.
    fn flush(&mut self, output: &Output, text: &mut String, end: bool) {
        if output.steps.is_empty() {
            return whole_characters(&mut self.pending, text, end);
        }
        let mut part = String::new();
        whole_characters(&mut self.pending, &mut part, end);
        for (step, state) in output.steps.iter().zip(&mut self.steps) {
            step.apply(state, &mut part, end);
        }
        text.push_str(&part);
    }

    pub(crate) fn finish(&mut self, output: &Output, text: &mut String) {
        if let (Some(last), Some(id)) = (&output.last, self.before) {
            self.pending.extend_from_slice(last.get(id).unwrap_or_default());
        }
        self.flush(output, text, true);
    }
}

/// Moves whole characters to `text`; at the `end`, what is left too, as U+FFFD.
fn whole_characters(pending: &mut Vec<u8>, text: &mut String, end: bool) {
    let mut done = 0;
    while done < pending.len() {
        let rest = &pending[done..];
        let error = match str::from_utf8(rest) {
            Ok(valid) => {
                text.push_str(valid);
                done = pending.len();
                break;
            }
            Err(error) => error,
        };
        let (valid, broken) = rest.split_at(error.valid_up_to());
        text.push_str(&String::from_utf8_lossy(valid));
        done += valid.len();
        match error.error_len() {
            None if !end => break,
            length => {
                text.push(char::REPLACEMENT_CHARACTER);
                done += length.unwrap_or(broken.len());
            }
        }
    }
    pending.drain(..done);
}

/// Decodes ids as they come. What all calls give, put together, is what [`Tokenizer::decode`] gives for all ids.
#[derive(Clone, Debug)]
pub struct Decoder {
    tokenizer: Arc<Tokenizer>,
    stream: Stream,
    ready: String,
}

impl Decoder {
    pub(crate) fn new(tokenizer: Arc<Tokenizer>, skip_special: bool) -> Self {
        let stream = Stream::new(&tokenizer.output, skip_special);
        Self { tokenizer, stream, ready: String::new() }
    }
    /// The text that `id` completes: whole characters only, often none.
    pub fn push(&mut self, id: u32) -> &str {
        self.ready.clear();
        self.stream.push(&self.tokenizer, id, &mut self.ready);
        &self.ready
    }
    /// The text that is left at the end: U+FFFD for a character that was never completed. The decoder is then as new.
    pub fn finish(&mut self) -> &str {
        self.ready.clear();
        self.stream.finish(&self.tokenizer.output, &mut self.ready);
        self.stream = Stream::new(&self.tokenizer.output, self.stream.skip_special);
        &self.ready
    }
}
