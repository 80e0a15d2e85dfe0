//! The items of an answer: what a model thinks, what it says, what it calls.

use crate::error::{call_id, fresh_id};
use onebit_text::parse::{Event, Parser};
use serde_json::{Value, json};

/// An item as far as it has come.
struct Item {
    id: String,
    kind: Kind,
    /// What it says, or the arguments of a call.
    text: String,
}

enum Kind {
    Reasoning,
    /// With the logprobs of its tokens.
    Message(Vec<Value>),
    Call {
        name: String,
        call_id: String,
    },
}

/// What more text does to the items.
pub(super) enum Step {
    /// This item begins.
    Open(usize),
    /// This item goes on, with logprobs of tokens that were read since the last step.
    More(usize, String, Vec<Value>),
    /// This item is complete.
    Close(usize),
}

/// The items of one answer.
pub(super) struct Output {
    /// Takes the answer apart, if there is anything to be looked for in it.
    parser: Option<Parser>,
    items: Vec<Item>,
    /// Whether the last item may go on.
    is_open: bool,
    /// Of tokens whose text waits.
    logprobs: Vec<Value>,
    reasoning_tokens: usize,
}

impl Output {
    pub(super) fn new(parser: Option<Parser>) -> Self {
        Self { parser, items: vec![], is_open: false, logprobs: vec![], reasoning_tokens: 0 }
    }

    /// Tokens whose text was thought.
    pub(super) fn reasoning_tokens(&self) -> usize {
        self.reasoning_tokens
    }

    /// Reads a token's text.
    pub(super) fn read(&mut self, text: &str, logprobs: Option<Value>) -> Vec<Step> {
        self.logprobs.extend(logprobs);
        let events = match &mut self.parser {
            Some(parser) => parser.push(text),
            None if text.is_empty() => vec![],
            None => vec![Event::Content(text.to_owned())],
        };
        let mut steps = Vec::new();
        self.take(events, &mut steps);
        self.reasoning_tokens += usize::from(self.is_open && matches!(self.items.last(), Some(Item { kind: Kind::Reasoning, .. })));
        steps
    }

    /// Reads the last text. An answer of nothing is an empty message.
    pub(super) fn end(&mut self, text: &str) -> Vec<Step> {
        let mut events = match &mut self.parser {
            Some(parser) => parser.push(text),
            None if text.is_empty() => vec![],
            None => vec![Event::Content(text.to_owned())],
        };
        events.extend(self.parser.as_mut().map(Parser::finish).into_iter().flatten());
        let mut steps = Vec::new();
        self.take(events, &mut steps);
        if self.items.is_empty() {
            self.open(Kind::Message(vec![]), &mut steps);
        }
        self.close(&mut steps);
        steps
    }

    fn take(&mut self, events: Vec<Event>, steps: &mut Vec<Step>) {
        for event in events {
            match event {
                Event::Content(text) => {
                    if !matches!(self.items.last(), Some(Item { kind: Kind::Message(_), .. }) if self.is_open) {
                        self.open(Kind::Message(vec![]), steps);
                    }
                    self.more(text, steps);
                }
                Event::Reasoning(text) => {
                    if !matches!(self.items.last(), Some(Item { kind: Kind::Reasoning, .. }) if self.is_open) {
                        self.open(Kind::Reasoning, steps);
                    }
                    self.more(text, steps);
                }
                Event::ToolCallStart { name, id } => {
                    let call_id = id.unwrap_or_else(|| format!("call_{}", call_id()));
                    self.open(Kind::Call { name, call_id }, steps);
                }
                Event::ToolArguments(text) => self.more(text, steps),
                Event::ToolCallEnd => self.close(steps),
            }
        }
    }

    fn open(&mut self, kind: Kind, steps: &mut Vec<Step>) {
        self.close(steps);
        let prefix = match kind {
            Kind::Reasoning => "rs_",
            Kind::Message(_) => "msg_",
            Kind::Call { .. } => "fc_",
        };
        self.items.push(Item { id: fresh_id(prefix), kind, text: String::new() });
        self.is_open = true;
        steps.push(Step::Open(self.items.len() - 1));
    }

    fn more(&mut self, text: String, steps: &mut Vec<Step>) {
        let index = self.items.len().saturating_sub(1);
        let Some(item) = self.items.last_mut() else { return };
        item.text.push_str(&text);
        let mut logprobs = Vec::new();
        if let Kind::Message(all) = &mut item.kind {
            logprobs = std::mem::take(&mut self.logprobs);
            all.extend(logprobs.iter().cloned());
        } else {
            // Only those of a message's text are told.
            self.logprobs.clear();
        }
        steps.push(Step::More(index, text, logprobs));
    }

    fn close(&mut self, steps: &mut Vec<Step>) {
        if std::mem::take(&mut self.is_open) {
            steps.push(Step::Close(self.items.len() - 1));
        }
    }

    /// All items of an answer that has ended; the last one of an answer that was cut is incomplete.
    pub(super) fn items(&self, is_complete: bool) -> Value {
        let last = self.items.len().saturating_sub(1);
        self.items.iter().enumerate().map(|(i, item)| item.json(if is_complete || i < last { "completed" } else { "incomplete" })).collect()
    }

    /// A step as events: their names and data.
    pub(super) fn events(&self, step: &Step) -> Vec<(&'static str, Value)> {
        let (Step::Open(index) | Step::More(index, ..) | Step::Close(index)) = step;
        let Some(item) = self.items.get(*index) else { return vec![] };
        let at = |mut data: Value| {
            data["output_index"] = (*index).into();
            data["item_id"] = item.id.as_str().into();
            data
        };
        let part = |data: Value| {
            let mut data = at(data);
            data["content_index"] = 0.into();
            data
        };
        let whole = |item: Value| json!({ "output_index": index, "item": item });
        match (step, &item.kind) {
            (Step::Open(_), kind) => {
                let mut events =
                    vec![("response.output_item.added", whole(Item { text: String::new(), ..item.bare() }.json("in_progress")))];
                if let Some(part_of) = kind.part("", &[]) {
                    events.push(("response.content_part.added", part(json!({ "part": part_of }))));
                }
                events
            }
            (Step::More(_, text, _), Kind::Reasoning) => vec![("response.reasoning_text.delta", part(json!({ "delta": text })))],
            (Step::More(_, text, logprobs), Kind::Message(_)) => {
                vec![("response.output_text.delta", part(json!({ "delta": text, "logprobs": logprobs })))]
            }
            (Step::More(_, text, _), Kind::Call { .. }) => vec![("response.function_call_arguments.delta", at(json!({ "delta": text })))],
            (Step::Close(_), kind) => {
                let (text, done) = (&item.text, ("response.output_item.done", whole(item.json("completed"))));
                match kind {
                    Kind::Call { name, .. } => {
                        vec![("response.function_call_arguments.done", at(json!({ "arguments": text, "name": name }))), done]
                    }
                    Kind::Reasoning => vec![
                        ("response.reasoning_text.done", part(json!({ "text": text }))),
                        ("response.content_part.done", part(json!({ "part": kind.part(text, &[]) }))),
                        done,
                    ],
                    Kind::Message(logprobs) => vec![
                        ("response.output_text.done", part(json!({ "text": text, "logprobs": logprobs }))),
                        ("response.content_part.done", part(json!({ "part": kind.part(text, logprobs) }))),
                        done,
                    ],
                }
            }
        }
    }
}

impl Kind {
    /// The one part of an item's content, where it has some.
    fn part(&self, text: &str, logprobs: &[Value]) -> Option<Value> {
        match self {
            Self::Reasoning => Some(json!({ "type": "reasoning_text", "text": text })),
            Self::Message(_) => Some(json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": logprobs })),
            Self::Call { .. } => None,
        }
    }
}

impl Item {
    /// The same without what it says.
    fn bare(&self) -> Self {
        let kind = match &self.kind {
            Kind::Reasoning => Kind::Reasoning,
            Kind::Message(_) => Kind::Message(vec![]),
            Kind::Call { name, call_id } => Kind::Call { name: name.clone(), call_id: call_id.clone() },
        };
        Self { id: self.id.clone(), kind, text: String::new() }
    }

    fn json(&self, status: &str) -> Value {
        let logprobs: &[Value] = if let Kind::Message(logprobs) = &self.kind { logprobs } else { &[] };
        let content = match self.kind.part(&self.text, logprobs) {
            Some(part) if status != "in_progress" => json!([part]),
            _ => json!([]),
        };
        match &self.kind {
            // Summaries are not made: the text itself is there.
            Kind::Reasoning => json!({ "id": self.id, "type": "reasoning", "summary": [], "content": content, "status": status }),
            Kind::Message(_) => json!({ "id": self.id, "type": "message", "role": "assistant", "status": status, "content": content }),
            Kind::Call { name, call_id } => {
                json!({ "id": self.id, "type": "function_call", "status": status, "call_id": call_id, "name": name, "arguments": self.text })
            }
        }
    }
}
