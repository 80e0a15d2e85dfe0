//! The parser that all formats share.

use super::formats::Output;
use super::stream::Progress;
use super::{Beginning, Block, Call, Close, Event, Flaw, Open, Pair, START_BYTES, Tools, first_bytes};
use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::Value;

/// Closing marks that are tried for one block whose text ends within a value, before it is given up.
const TRIES: usize = 16;

/// What a mark does.
#[derive(Clone, Copy, Debug)]
enum Action {
    Reason(usize),
    Call(usize),
    Nothing,
}

/// Where the parser is.
#[derive(Clone, Debug)]
enum Mode {
    Content,
    /// In reasoning that the pair of this index opened.
    Reasoning(usize),
    Block(InBlock),
}

#[derive(Clone, Debug)]
struct InBlock {
    block: usize,
    /// Of the text that waits, what was searched for the end.
    searched: usize,
    tries: usize,
    brackets: Brackets,
    progress: Progress,
}

/// Takes a model's text as it comes, and gives what it means.
#[derive(Clone, Debug)]
pub struct Parser {
    blocks: &'static [Block],
    tools: Tools,
    pairs: Vec<Pair>,
    marks: Vec<(&'static str, Action)>,
    finder: Option<AhoCorasick>,
    /// Of each block, what finds its closing marks.
    closers: Vec<Option<AhoCorasick>>,
    mode: Mode,
    /// Text that is not yet given out; in a block, all of it after the opening mark.
    waiting: String,
    /// White space that is given out only if more text of the same kind follows.
    space: String,
    /// White space that comes next is left out.
    trims: bool,
    /// A block may start without a mark.
    at_start: bool,
    /// Arguments are given out before their call is complete.
    streams: bool,
    events: Vec<Event>,
}

impl Parser {
    /// `prompt` is what the answer goes on from; its end says whether reasoning is open. Calls are only looked for with `tools`,
    /// and without `reasoning` that is left in the text with its marks.
    pub fn new(output: &Output, prompt: &str, tools: Option<&Value>, reasoning: bool) -> Self {
        let format = output.format;
        let blocks = if tools.is_some() { format.blocks } else { &[] };
        let pairs = if reasoning { output.pairs.clone() } else { Vec::new() };
        let mut marks: Vec<(&'static str, Action)> = Vec::new();
        marks.extend(pairs.iter().enumerate().map(|(i, pair)| (pair.0, Action::Reason(i))));
        for (i, block) in blocks.iter().enumerate() {
            if let Open::Mark(mark) = block.open {
                marks.push((mark, Action::Call(i)));
            }
        }
        marks.extend(format.silent.iter().map(|mark| (*mark, Action::Nothing)));
        let build = |marks: &[&str]| AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(marks).ok();
        let closers = blocks.iter().map(|block| match block.close {
            Close::Marks(marks) => build(marks),
            Close::Brackets => None,
        });
        let prompt = prompt.trim_end();
        let open = pairs.iter().position(|pair| prompt.ends_with(pair.0.trim_end()));
        Self {
            blocks,
            tools: tools.map(Tools::new).unwrap_or_default(),
            closers: closers.collect(),
            finder: build(&marks.iter().map(|(mark, _)| *mark).collect::<Vec<_>>()).filter(|_| !marks.is_empty()),
            pairs,
            marks,
            mode: open.map_or(Mode::Content, Mode::Reasoning),
            waiting: format.begun.filter(|mark| tools.is_some() && prompt.ends_with(mark)).unwrap_or_default().to_owned(),
            space: String::new(),
            trims: open.is_some(),
            at_start: true,
            streams: false,
            events: Vec::new(),
        }
    }

    /// Gives out arguments as they come, where the format allows it. What was given out cannot be taken back: a call that breaks off, or
    /// turns out to be none, has no [`Event::ToolCallEnd`], and the rest of it is left out.
    pub fn streaming(mut self) -> Self {
        self.streams = true;
        self
    }

    /// The next piece of the text. Gives what is sure by now.
    pub fn push(&mut self, text: &str) -> Vec<Event> {
        self.waiting.push_str(text);
        self.run(false);
        std::mem::take(&mut self.events)
    }

    /// The end of the text. Gives what waited.
    pub fn finish(&mut self) -> Vec<Event> {
        self.run(true);
        if !self.trims {
            let space = std::mem::take(&mut self.space);
            self.give(space);
        }
        std::mem::take(&mut self.events)
    }

    fn run(&mut self, last: bool) {
        let mut waiting = std::mem::take(&mut self.waiting);
        let mut at = 0;
        loop {
            let text = &waiting[at..];
            let (used, goes_on) = match self.mode {
                Mode::Content => self.content(text, last),
                Mode::Reasoning(pair) => self.reasoning(text, pair, last),
                Mode::Block(_) => self.block(text, last),
            };
            at += used;
            if !goes_on {
                break;
            }
        }
        waiting.drain(..at);
        self.waiting = waiting;
    }

    /// Takes from a text outside of reasoning and calls. Gives how much was used, and whether there is more to do at once.
    fn content(&mut self, text: &str, last: bool) -> (usize, bool) {
        if self.at_start && !text.trim_start().is_empty() {
            match self.starts(text, last) {
                Some((block, Beginning::Yes)) => {
                    self.enter(block);
                    return (0, true);
                }
                Some((_, Beginning::Unclear)) => return (0, false),
                _ => {}
            }
        }
        let unsure = if last { text.len() } else { text.len() - partial(text, self.marks.iter().map(|(mark, _)| *mark)) };
        let found = self.finder.as_ref().and_then(|finder| finder.find(text)).filter(|found| found.start() < unsure);
        let Some(found) = found else {
            if !text[..unsure].trim().is_empty() {
                self.at_start = false;
            }
            self.text(&text[..unsure]);
            return (unsure, false);
        };
        if !text[..found.start()].trim().is_empty() {
            self.at_start = false;
        }
        self.text(&text[..found.start()]);
        match self.marks[found.pattern().as_usize()].1 {
            Action::Reason(pair) => {
                self.turn();
                self.mode = Mode::Reasoning(pair);
            }
            Action::Call(block) => self.enter(block),
            Action::Nothing => self.turn(),
        }
        (found.end(), true)
    }

    /// The first block that starts with this text, or could.
    fn starts(&self, text: &str, last: bool) -> Option<(usize, Beginning)> {
        let text = text.trim_start();
        let is_short = text.len() < START_BYTES && !last;
        let text = first_bytes(text, START_BYTES);
        self.blocks.iter().enumerate().find_map(|(i, block)| match block.open {
            Open::Start(begins) => match begins(text) {
                Beginning::Yes => Some((i, Beginning::Yes)),
                Beginning::Unclear if is_short => Some((i, Beginning::Unclear)),
                _ => None,
            },
            Open::Mark(_) => None,
        })
    }

    fn enter(&mut self, block: usize) {
        self.mode = Mode::Block(InBlock { block, searched: 0, tries: 0, brackets: Brackets::default(), progress: Progress::default() });
    }

    fn reasoning(&mut self, text: &str, pair: usize, last: bool) -> (usize, bool) {
        let close = self.pairs[pair].1;
        match text.find(close) {
            Some(end) => {
                self.text(&text[..end]);
                self.turn();
                self.mode = Mode::Content;
                (end + close.len(), true)
            }
            None => {
                let sure = if last { text.len() } else { text.len() - partial(text, [close]) };
                self.text(&text[..sure]);
                (sure, false)
            }
        }
    }

    fn block(&mut self, text: &str, last: bool) -> (usize, bool) {
        let Mode::Block(state) = &mut self.mode else { return (0, false) };
        let block = &self.blocks[state.block];
        loop {
            // Where what is read ends, and where the closing mark does.
            let end = match (&block.close, &self.closers[state.block]) {
                (Close::Marks(_), Some(finder)) => match finder.find(&text[state.searched..]) {
                    Some(found) => Some((state.searched + found.start(), state.searched + found.end())),
                    None => {
                        let sure = text.len() - longest(block).min(text.len());
                        state.searched = state.searched.max(first_bytes(text, sure).len());
                        None
                    }
                },
                (Close::Marks(_), None) => None,
                (Close::Brackets, _) => match state.brackets.end(text) {
                    Ok(end) => end.map(|end| (end, end)),
                    Err(flaw) => {
                        self.end("", Err(flaw));
                        return (0, true);
                    }
                },
            };
            if self.streams {
                // Up to the end, or to where it may begin.
                let unsure = match &block.close {
                    Close::Marks(marks) if end.is_none() && !last => partial(text, marks.iter().copied()),
                    _ => 0,
                };
                let sure = end.map_or(text.len() - unsure, |(end, _)| end);
                state.progress.advance(&block.stream, &text[..sure], end.is_some() || last, &self.tools, &mut self.events);
            }
            let Some((end, after)) = end else {
                if !last {
                    return (0, false);
                }
                let read = (block.read)(text, &self.tools);
                self.end(text, read);
                return (text.len(), true);
            };
            match (block.read)(&text[..end], &self.tools) {
                Err(Flaw::Cut) if state.tries < TRIES && after > end => {
                    state.tries += 1;
                    state.searched = after;
                }
                read => {
                    self.end(&text[..after], read);
                    return (after, true);
                }
            }
        }
    }

    /// A block is complete; `text` is all of it after the opening mark.
    fn end(&mut self, text: &str, read: Result<Vec<Call>, Flaw>) {
        let Mode::Block(state) = &mut self.mode else { return };
        match read {
            Ok(calls) => state.progress.finish(calls, &mut self.events),
            Err(_) if state.progress.has_begun() => {}
            Err(_) => {
                self.no_call();
                return self.text(text);
            }
        }
        self.turn();
        self.mode = Mode::Content;
    }

    /// What opened the block is content.
    fn no_call(&mut self) {
        let Mode::Block(state) = std::mem::replace(&mut self.mode, Mode::Content) else { return };
        self.at_start = false;
        if let Open::Mark(mark) = self.blocks[state.block].open {
            self.text(mark);
        }
    }

    /// Another kind of text begins; white space between the two belongs to neither.
    fn turn(&mut self) {
        self.space.clear();
        self.trims = true;
        self.at_start = true;
    }

    /// Text of the present kind.
    fn text(&mut self, text: &str) {
        let text = if self.trims { text.trim_start() } else { text };
        if text.is_empty() {
            return;
        }
        self.trims = false;
        let body = text.trim_end();
        if body.is_empty() {
            self.space.push_str(text);
            return;
        }
        let mut out = std::mem::take(&mut self.space);
        out.push_str(body);
        self.space.push_str(&text[body.len()..]);
        self.give(out);
    }

    fn give(&mut self, text: String) {
        if text.is_empty() {
            return;
        }
        let is_reasoning = matches!(self.mode, Mode::Reasoning(_));
        match self.events.last_mut() {
            Some(Event::Reasoning(before)) if is_reasoning => before.push_str(&text),
            Some(Event::Content(before)) if !is_reasoning => before.push_str(&text),
            _ => self.events.push(if is_reasoning { Event::Reasoning(text) } else { Event::Content(text) }),
        }
    }
}

/// The bytes of the longest end of `text` with which a mark begins but does not end.
fn partial<'a>(text: &str, marks: impl IntoIterator<Item = &'a str>) -> usize {
    let longest = |mark: &str| {
        let most = text.len().min(mark.len() - 1);
        (1..=most).rev().find(|n| text.as_bytes().ends_with(&mark.as_bytes()[..*n])).unwrap_or(0)
    };
    // A part of a character is never at the end of a text, so these are boundaries.
    marks.into_iter().map(longest).max().unwrap_or(0)
}

/// The longest closing mark of a block.
fn longest(block: &Block) -> usize {
    match block.close {
        Close::Marks(marks) => marks.iter().map(|mark| mark.len()).max().unwrap_or(0),
        Close::Brackets => 0,
    }
}

/// Finds the bracket that closes the first one, over strings in quotation marks.
#[derive(Clone, Debug, Default)]
struct Brackets {
    at: usize,
    depth: usize,
    quote: Option<u8>,
    escaped: bool,
}

impl Brackets {
    /// Where the text after the closing bracket begins, `None` while it has not come. There is no bracket if the text has a
    /// header of more than a line.
    fn end(&mut self, text: &str) -> Result<Option<usize>, Flaw> {
        let bytes = text.as_bytes();
        if self.depth == 0 {
            let head = first_bytes(text, START_BYTES);
            let start = head.len() - head.trim_start().len();
            let is_bracket = |b: &u8| matches!(b, b'{' | b'[');
            let first = if bytes.get(start).is_some_and(is_bracket) { Some(start) } else { head.find('{') };
            if head[start..first.unwrap_or(head.len())].trim_end().contains('\n') || (first.is_none() && text.len() > START_BYTES) {
                return Err(Flaw::Malformed);
            }
            let Some(first) = first else { return Ok(None) };
            (self.at, self.depth) = (first + 1, 1);
        }
        while let Some(byte) = bytes.get(self.at) {
            self.at += 1;
            match (self.quote, byte) {
                (Some(_), _) if self.escaped => self.escaped = false,
                (Some(_), b'\\') => self.escaped = true,
                (Some(quote), byte) if *byte == quote => self.quote = None,
                (Some(_), _) => {}
                (None, b'"' | b'\'') => self.quote = Some(*byte),
                (None, b'{' | b'[' | b'(') => self.depth += 1,
                (None, b'}' | b']' | b')') => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Ok(Some(self.at));
                    }
                }
                _ => {}
            }
        }
        Ok(None)
    }
}
