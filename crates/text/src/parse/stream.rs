//! Calls while they are written: arguments in JSON as they come, those between tags as each value is finished.

use super::scanner::{Found, Scanner};
use super::{Call, Event, Tools, first_bytes};
use serde_json::Value;

/// What of a format's calls can be told before they are complete.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    /// Finds where the next call's arguments, a JSON object, begin.
    pub(crate) head: Option<fn(&str, &Tools) -> Option<Head>>,
    /// The calls in a text that may end anywhere.
    pub(crate) values: Option<fn(&str, &Tools) -> Vec<Begun>>,
}

impl Stream {
    /// Nothing: calls are given out when their block is complete.
    pub(crate) const WHOLE: Self = Self { head: None, values: None };
}

/// The begin of a call whose arguments are JSON.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) name: String,
    pub(crate) id: Option<String>,
    /// Where the arguments begin.
    pub(crate) at: usize,
}

/// A call with the arguments that are finished.
#[derive(Debug, PartialEq)]
pub(crate) struct Begun {
    pub(crate) name: String,
    pub(crate) arguments: Vec<(String, Value)>,
    /// No more arguments follow.
    pub(crate) is_complete: bool,
}

/// The bytes in which a call's name is looked for.
const HEAD: usize = 1024;

/// A call that was given out in part.
#[derive(Clone, Debug)]
enum Open {
    Json(Scanner),
    /// How many arguments were given out.
    Values(usize),
}

/// How far the calls of one block were given out.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// Calls that were given out to their end.
    calls: usize,
    open: Option<Open>,
    /// The text up to here was looked at for JSON.
    at: usize,
    /// The length of the text at which values are looked for again: reading it anew each time would take quadratic time.
    next: usize,
    /// The JSON of a call broke off; nothing more is given out of this block.
    is_broken: bool,
}

impl Progress {
    /// Whether anything was given out.
    pub(super) fn has_begun(&self) -> bool {
        self.calls > 0 || self.open.is_some()
    }

    /// Gives out what is new in a block's text. With `last` it is all of it.
    pub(super) fn advance(&mut self, stream: &Stream, text: &str, last: bool, tools: &Tools, events: &mut Vec<Event>) {
        if let Some(head) = stream.head {
            self.advance_json(head, text, tools, events);
        }
        let is_json = matches!(self.open, Some(Open::Json(_)));
        if let Some(values) = stream.values.filter(|_| !is_json && (last || text.len() >= self.next)) {
            self.next = text.len() + text.len() / 8 + 1;
            for call in values(text, tools).into_iter().skip(self.calls) {
                self.give_values(call, events);
            }
        }
    }

    fn advance_json(&mut self, head: fn(&str, &Tools) -> Option<Head>, text: &str, tools: &Tools, events: &mut Vec<Event>) {
        while !self.is_broken && self.at < text.len() {
            match &mut self.open {
                Some(Open::Json(scanner)) => {
                    let (used, found) = scanner.take(&text[self.at..]);
                    if used > 0 {
                        events.push(Event::ToolArguments(text[self.at..self.at + used].to_owned()));
                    }
                    self.at += used;
                    match found {
                        Found::More => return,
                        Found::Flaw => self.is_broken = true,
                        Found::End => self.end(events),
                    }
                }
                Some(Open::Values(_)) => return,
                None => {
                    let Some(Head { name, id, at }) = head(first_bytes(&text[self.at..], HEAD), tools) else { return };
                    events.push(Event::ToolCallStart { name, id });
                    self.at += at;
                    self.open = Some(Open::Json(Scanner::new()));
                }
            }
        }
    }

    fn end(&mut self, events: &mut Vec<Event>) {
        events.push(Event::ToolCallEnd);
        self.calls += 1;
        self.open = None;
    }

    /// What is new of a call: one more `"key":value` for each argument.
    fn give_values(&mut self, call: Begun, events: &mut Vec<Event>) {
        let given = match self.open {
            Some(Open::Values(given)) => given,
            _ => {
                events.push(Event::ToolCallStart { name: call.name, id: None });
                0
            }
        };
        let count = call.arguments.len().max(given);
        let mut text = String::new();
        for (i, (key, value)) in call.arguments.into_iter().enumerate().skip(given) {
            text.push(if i == 0 { '{' } else { ',' });
            text.push_str(&format!("{}:{value}", Value::from(key)));
        }
        if call.is_complete {
            text.push_str(if count == 0 { "{}" } else { "}" });
        }
        if !text.is_empty() {
            events.push(Event::ToolArguments(text));
        }
        self.open = Some(Open::Values(count));
        if call.is_complete {
            self.end(events);
        }
    }

    /// The block is complete: gives out the rest of its calls.
    pub(super) fn finish(&mut self, calls: Vec<Call>, events: &mut Vec<Event>) {
        let mut rest = calls.into_iter().skip(self.calls);
        match self.open {
            // Its end was not sure.
            Some(Open::Values(_)) => {
                let call = rest.next();
                let (name, arguments) = call.map(|call| (call.name, call.arguments)).unwrap_or_default();
                self.give_values(Begun { name, arguments: arguments.into_iter().collect(), is_complete: true }, events);
            }
            // What broke off stays so.
            Some(Open::Json(_)) => drop(rest.next()),
            None => {}
        }
        for Call { name, id, arguments } in rest {
            let arguments = Value::Object(arguments).to_string();
            events.extend([Event::ToolCallStart { name, id }, Event::ToolArguments(arguments), Event::ToolCallEnd]);
        }
    }
}
