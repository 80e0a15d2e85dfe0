//! What a model writes, taken apart: content, reasoning and calls of tools, while it streams.
//!
//! Models mark their calls and their reasoning each in their own way. A [`Format`] says how: which texts open and close
//! what, and how that which lies between is read. Formats are data, one file each in [`formats`], and one line each in
//! [`formats::ALL`]; [`Output::of`] selects one by the marks that a chat template holds. [`Parser`] does the rest, the same for
//! all of them.
//!
//! Three rules hold whatever the text: it may be cut into pieces anywhere without a change in what the events add up to; no
//! part of a mark is ever given out as content before it is sure that it is none; and what looked like a call and cannot be
//! read is content. For the last one a call is given out when it is complete, unless the parser is told to [stream](Parser::streaming)
//! arguments: then a call that breaks off stays unfinished.

pub mod formats;
mod json;
mod machine;
mod opening;
mod python;
mod scanner;
mod stream;
mod tagged;
mod tools;
pub mod written;

pub use formats::Output;
pub use machine::Parser;
pub use opening::Opening;
pub use tools::Tools;

use serde_json::{Map, Value};
pub(crate) use stream::{Begun, Head, Stream};
pub(crate) use written::{Arguments, Beside, Each, Written};

/// A part of an answer. Texts of one kind that follow each other belong together.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// More of what is meant for the user.
    Content(String),
    /// More of what the model thinks.
    Reasoning(String),
    /// A call begins.
    ToolCallStart {
        /// The function.
        name: String,
        /// The call's id, where the model gave one.
        id: Option<String>,
    },
    /// More of the call's arguments, which are a JSON object.
    ToolArguments(String),
    /// The call is complete.
    ToolCallEnd,
}

/// A call that was read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) id: Option<String>,
    pub(crate) arguments: Map<String, Value>,
}

/// Why a text is no call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// It ends within a value: what was taken for the closing mark may be part of a string.
    Cut,
    Malformed,
}

/// Reads the text between two marks.
pub(crate) type Read = fn(&str, &Tools) -> Result<Vec<Call>, Flaw>;

/// How a kind of model writes.
#[derive(Debug)]
pub struct Format {
    /// Its name.
    pub name: &'static str,
    /// Whether a template with this source belongs to it.
    pub(crate) detect: fn(&str) -> bool,
    /// Where calls are.
    pub(crate) blocks: &'static [Block],
    /// How calls are written: in any of these ways, of which a template asks for one at least.
    pub(crate) written: &'static [Written],
    /// Marks that stand for nothing and are left out.
    pub(crate) silent: &'static [&'static str],
    /// Marks within blocks.
    pub(crate) within: &'static [&'static str],
    /// Marks of reasoning besides those in [`formats::REASONING`], which hold for every template of the format.
    pub(crate) reasoning: &'static [Pair],
    /// A mark that belongs to the answer where the prompt ends with it.
    pub(crate) begun: Option<&'static str>,
    /// What comes before a text for the user.
    pub(crate) lead: Lead,
    /// What comes after reasoning, before the next part of an answer.
    pub(crate) again: &'static str,
}

/// What comes before a text for the user.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lead {
    /// Always this; most often nothing.
    Always(&'static str),
    /// This, or nothing.
    Perhaps(&'static str),
}

impl Format {
    /// What most formats have: nothing but blocks.
    pub(crate) const PLAIN: Self = Self {
        name: "",
        detect: |_| false,
        blocks: &[],
        written: &[],
        silent: &[],
        within: &[],
        reasoning: &[],
        begun: None,
        lead: Lead::Always(""),
        again: "",
    };
}

/// A stretch of text that holds calls.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) open: Open,
    pub(crate) close: Close,
    pub(crate) read: Read,
    pub(crate) stream: Stream,
}

/// How a block begins.
#[derive(Debug)]
pub(crate) enum Open {
    /// With a mark, anywhere. It is not part of what is read.
    Mark(&'static str),
    /// At the start of an answer, and after reasoning or another call, with what this recognizes. All of it is read.
    Start(fn(&str) -> Beginning),
}

/// Whether a block begins with the given text, which is at least one character and may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beginning {
    Yes,
    No,
    /// The text is too short to tell.
    Unclear,
}

/// How a block ends. The end of the answer always ends it too.
#[derive(Debug)]
pub(crate) enum Close {
    /// With one of these marks, which are not part of what is read.
    Marks(&'static [&'static str]),
    /// With the bracket that closes the first one. Before that there may be a header of one line.
    Brackets,
}

/// Opens and closes reasoning.
pub(crate) type Pair = (&'static str, &'static str);

/// Most lists and maps within one another in the arguments of a call.
pub(crate) const DEPTH: usize = 64;

/// The bytes that a text may have before it is clear whether a block starts with it.
pub(crate) const START_BYTES: usize = 256;

/// The first `most` bytes of `text`, or less so that no character is cut.
pub(crate) fn first_bytes(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
