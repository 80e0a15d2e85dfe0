//! From ids back to text, token by token, without ever giving half a character.

use super::{Tokenizer, strings::Strings};
use std::sync::Arc;

/// What tokens stand for.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// Bytes by id, anywhere but at the start.
    pub bytes: Strings,
    /// Bytes by id at the start of a text, where they differ.
    pub first: Option<Strings>,
    /// How many spaces a text loses at its start.
    pub strip: usize,
}

/// The state of a text that is decoded token by token.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    skip_special: bool,
    first: bool,
    strip: usize,
    /// Bytes that are not whole characters yet.
    pending: Vec<u8>,
}

impl Stream {
    pub(crate) fn new(output: &Output, skip_special: bool) -> Self {
        Self { skip_special, first: true, strip: output.strip, pending: Vec::new() }
    }

    /// Appends the whole characters that `id` completes. Ids without a token give nothing.
    pub(crate) fn push(&mut self, tokenizer: &Tokenizer, id: u32, text: &mut String) {
        if !tokenizer.is_used(id) || (self.skip_special && tokenizer.is_special(id)) {
            return;
        }
        let output = &tokenizer.output;
        let strings = output.first.as_ref().filter(|_| self.first).unwrap_or(&output.bytes);
        let bytes = strings.get(id).unwrap_or_default();
        let spaces = bytes.iter().take(self.strip).take_while(|&&b| b == b' ').count();
        self.pending.extend_from_slice(&bytes[spaces..]);
        self.strip = if spaces == bytes.len() { self.strip - spaces } else { 0 };
        self.first = false;
        self.flush(text, false);
    }

    /// Moves whole characters to `text`; at the `end`, what is left too, as U+FFFD.
    fn flush(&mut self, text: &mut String, end: bool) {
        let mut done = 0;
        while done < self.pending.len() {
            let rest = &self.pending[done..];
            let error = match str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    done = self.pending.len();
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
        self.pending.drain(..done);
    }

    pub(crate) fn finish(&mut self, text: &mut String) {
        self.flush(text, true);
    }
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
        self.stream.finish(&mut self.ready);
        self.stream = Stream::new(&self.tokenizer.output, self.stream.skip_special);
        &self.ready
    }
}
