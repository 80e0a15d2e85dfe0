//! `<tool_call><invoke name="NAME"><KEY>VALUE</KEY></invoke></tool_call>`, with `]<]minimax[>[` before each tag. Values may be trees: objects
//! by their keys, arrays of `<item>`: MiniMax M3.

use super::super::tagged::{before, each};
use super::super::{Arguments, Beside, Block, Call, Close, DEPTH, Flaw, Format, Open, Stream, Tools, Written, json};
use serde_json::{Map, Value};

/// What makes `<` a tag.
const TAG: &str = "]<]minimax[>[<";

pub(super) static FORMAT: Format = Format {
    name: "minimax-m3",
    detect: |template| template.contains("]<]minimax[>["),
    blocks: &[Block {
        open: Open::Mark("]<]minimax[>[<tool_call>"),
        close: Close::Marks(&["]<]minimax[>[</tool_call>"]),
        read,
        stream: Stream::WHOLE,
    }],
    // Without reasoning the model begins with its end.
    silent: &["</mm:think>"],
    within: &[TAG],
    reasoning: &[("<mm:think>", "</mm:think>")],
    written: &[WRITTEN, Written { open: "</mm:think>]<]minimax[>[<tool_call>·", beside: Beside::Either, ..WRITTEN }],
    ..Format::PLAIN
};

fn read(text: &str, tools: &Tools) -> Result<Vec<Call>, Flaw> {
    each(text, "]<]minimax[>[<invoke name=", |rest| {
        let name = json::name(before(rest, ">").ok_or(Flaw::Cut)?.trim_matches('"'))?;
        let schema = tools.parameters(&name);
        match tree(rest, "invoke", schema, 0)? {
            Value::Object(arguments) => Ok(Call { name, id: None, arguments }),
            // No parameters, and no schema that says what nothing is.
            Value::String(text) if text.trim().is_empty() => Ok(Call { name, id: None, arguments: Map::new() }),
            _ => Err(Flaw::Malformed),
        }
    })
}

/// What is within the tag `name`, whose end is taken.
fn tree(rest: &mut &str, name: &str, schema: Option<&Value>, depth: usize) -> Result<Value, Flaw> {
    if depth > DEPTH {
        return Err(Flaw::Malformed);
    }
    let (mut children, mut text) = (Vec::new(), "");
    loop {
        let between = before(rest, TAG).ok_or(Flaw::Cut)?;
        let tag = before(rest, ">").ok_or(Flaw::Cut)?;
        if !children.is_empty() && !between.trim().is_empty() {
            return Err(Flaw::Malformed);
        }
        match tag.strip_prefix('/') {
            Some(end) if end == name => {
                text = if children.is_empty() { between } else { text };
                break;
            }
            Some(_) => return Err(Flaw::Malformed),
            None => {
                let own = schema.and_then(|schema| schema.get("properties").and_then(|p| p.get(tag)).or(schema.get("items")));
                children.push((tag, tree(rest, tag, own, depth + 1)?));
            }
        }
    }
    let kind = schema.and_then(|schema| schema.get("type")).and_then(Value::as_str);
    Ok(match (children.first(), kind) {
        (None, Some("object")) if text.trim().is_empty() => Map::new().into(),
        (None, Some("array")) if text.trim().is_empty() => Vec::<Value>::new().into(),
        (None, _) => Tools::typed_by(schema, text),
        (Some(("item", _)), _) if kind != Some("object") => children.into_iter().map(|(_, value)| value).collect(),
        _ => Value::Object(children.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
    })
}

const WRITTEN: Written = Written {
    open: "]<]minimax[>[<tool_call>·",
    call: "]<]minimax[>[<invoke name=\"⟨name⟩\">⟨arguments⟩]<]minimax[>[</invoke>",
    close: "·]<]minimax[>[</tool_call>",
    arguments: Arguments::Tree(TAG),
    ..Written::PLAIN
};
