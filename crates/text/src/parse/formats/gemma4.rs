//! `<|tool_call>call:NAME{key:<|"|>text<|"|>,other:5}<tool_call|>`, and reasoning in a channel: Gemma 4.

use super::super::{Arguments, Block, Call, Close, DEPTH, Flaw, Format, Open, Stream, Tools, Written, json, written::Literals};
use serde_json::{Map, Number, Value};

const QUOTE: &str = "<|\"|>";

pub(super) static FORMAT: Format = Format {
    name: "gemma4",
    detect: |template| template.contains("<|tool_call>") && template.contains("<tool_call|>"),
    blocks: &[Block { open: Open::Mark("<|tool_call>"), close: Close::Marks(&["<tool_call|>"]), read, stream: Stream::WHOLE }],
    within: &[QUOTE],
    reasoning: &[("<|channel>thought\n", "<channel|>")],
    written: &[Written {
        call: "<|tool_call>call:⟨name⟩⟨arguments⟩<tool_call|>",
        arguments: Arguments::Object(&Literals {
            quotes: &[QUOTE],
            escapes: false,
            quoted_keys: false,
            sorted: true,
            words: [&["null", "None"], &["true"], &["false"]],
        }),
        ..Written::PLAIN
    }],
    ..Format::PLAIN
};

fn read(text: &str, _: &Tools) -> Result<Vec<Call>, Flaw> {
    let rest = text.trim().strip_prefix("call:").ok_or(Flaw::Malformed)?;
    let (name, arguments) = rest.split_at(rest.find('{').ok_or(Flaw::Cut)?);
    let name = json::name(name)?;
    let mut reader = Reader { rest: arguments };
    let Value::Object(arguments) = reader.value(0)? else { return Err(Flaw::Malformed) };
    if reader.rest.trim().is_empty() { Ok(vec![Call { name, id: None, arguments }]) } else { Err(Flaw::Malformed) }
}

/// Reads JSON in which strings have a mark of their own as quotation marks, no escapes, and keys may have none.
struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn skip(&mut self, what: &str) -> bool {
        let rest = self.rest.trim_start().strip_prefix(what);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn flaw(&self) -> Flaw {
        if self.rest.trim().is_empty() { Flaw::Cut } else { Flaw::Malformed }
    }

    fn string(&mut self) -> Result<String, Flaw> {
        let (text, rest) = self.rest.split_once(QUOTE).ok_or(Flaw::Cut)?;
        self.rest = rest;
        Ok(text.to_owned())
    }

    fn value(&mut self, depth: usize) -> Result<Value, Flaw> {
        if depth > DEPTH {
            return Err(Flaw::Malformed);
        }
        if self.skip(QUOTE) {
            return self.string().map(Value::String);
        }
        if self.skip("{") {
            let mut map = Map::new();
            while !self.skip("}") {
                let key = if self.skip(QUOTE) { self.string()? } else { self.word(":").to_owned() };
                if !self.skip(":") {
                    return Err(self.flaw());
                }
                map.insert(key, self.value(depth + 1)?);
                self.separator("}")?;
            }
            return Ok(map.into());
        }
        if self.skip("[") {
            let mut list = Vec::new();
            while !self.skip("]") {
                list.push(self.value(depth + 1)?);
                self.separator("]")?;
            }
            return Ok(list.into());
        }
        match self.word(",]}") {
            "true" => Ok(true.into()),
            "false" => Ok(false.into()),
            "null" | "None" => Ok(Value::Null),
            word => serde_json::from_str::<Number>(word).map(Value::Number).map_err(|_| self.flaw()),
        }
    }

    fn separator(&mut self, close: &str) -> Result<(), Flaw> {
        if self.skip(",") || self.rest.trim_start().starts_with(close) { Ok(()) } else { Err(self.flaw()) }
    }
}

impl<'a> Reader<'a> {
    /// The text before one of these characters.
    fn word(&mut self, ends: &str) -> &'a str {
        let (word, rest) = self.rest.split_at(self.rest.find(|c| ends.contains(c)).unwrap_or(self.rest.len()));
        self.rest = rest;
        word.trim()
    }
}
