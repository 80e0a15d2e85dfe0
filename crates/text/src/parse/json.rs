//! Calls that are written as JSON.

use super::{Call, Flaw, Head, Stream, Tools};
use serde_json::{Deserializer, Map, Value};

/// One value, or why it is none.
fn value(text: &str) -> Result<Value, Flaw> {
    serde_json::from_str(text.trim()).map_err(|e| if e.is_eof() { Flaw::Cut } else { Flaw::Malformed })
}

/// An object, also where it is given as a string that holds one; nothing is an empty one.
pub(super) fn object(text: &str) -> Result<Map<String, Value>, Flaw> {
    if text.trim().is_empty() { Ok(Map::new()) } else { arguments(value(text)?) }
}

fn arguments(value: Value) -> Result<Map<String, Value>, Flaw> {
    match value {
        Value::Object(map) => Ok(map),
        Value::Null => Ok(Map::new()),
        Value::String(text) => match serde_json::from_str(&text) {
            Ok(Value::Object(map)) => Ok(map),
            _ => Err(Flaw::Malformed),
        },
        _ => Err(Flaw::Malformed),
    }
}

/// An object with a name and arguments, under the names that are in use: `name` (`tool_name`), `arguments` (`parameters`), `id`
/// (`tool_call_id`), or the two first within `function`.
fn call(value: Value) -> Result<Call, Flaw> {
    let Value::Object(mut map) = value else { return Err(Flaw::Malformed) };
    let mut take = |names: &[&str]| names.iter().find_map(|name| map.remove(*name)).filter(|v| !v.is_null());
    let id = match take(&["id", "tool_call_id"]) {
        Some(Value::String(id)) => Some(id),
        _ => None,
    };
    if let Some(function) = take(&["function"]) {
        return match function {
            Value::Object(_) => Ok(Call { id, ..call(function)? }),
            Value::String(name) => Ok(Call { name, id, arguments: arguments(take(&["arguments", "parameters"]).unwrap_or_default())? }),
            _ => Err(Flaw::Malformed),
        };
    }
    let Some(Value::String(name)) = take(&["name", "tool_name"]) else { return Err(Flaw::Malformed) };
    let arguments = arguments(take(&["arguments", "parameters"]).unwrap_or_default())?;
    if name.is_empty() { Err(Flaw::Malformed) } else { Ok(Call { name, id, arguments }) }
}

/// `{"name", "arguments"}`, or an array of such; several may follow each other, with a line break or `;` between them.
pub(super) fn calls(text: &str, _: &Tools) -> Result<Vec<Call>, Flaw> {
    let (mut rest, mut calls) = (text.trim(), Vec::new());
    while !rest.is_empty() {
        let mut values = Deserializer::from_str(rest).into_iter::<Value>();
        let value = values.next().ok_or(Flaw::Cut)?.map_err(|e| if e.is_eof() { Flaw::Cut } else { Flaw::Malformed })?;
        rest = rest[values.byte_offset()..].trim_start_matches(|c: char| c.is_whitespace() || c == ';');
        match value {
            Value::Array(list) => calls.extend(list.into_iter().map(call).collect::<Result<Vec<_>, _>>()?),
            one => calls.push(call(one)?),
        }
    }
    if calls.is_empty() { Err(Flaw::Malformed) } else { Ok(calls) }
}

/// As [`calls`], and all of them of tools that there are, with their arguments given: for JSON without marks, which may be an answer.
pub(super) fn bare_calls(text: &str, tools: &Tools) -> Result<Vec<Call>, Flaw> {
    let text = text.trim_start().trim_start_matches(';');
    if !text.contains("\"arguments\"") && !text.contains("\"parameters\"") {
        return Err(Flaw::Malformed);
    }
    let found = calls(text, tools)?;
    if found.iter().all(|call| tools.knows(&call.name)) { Ok(found) } else { Err(Flaw::Malformed) }
}

/// Whether `text` begins with an object that could be a call: by its first key.
pub(super) fn begins_call(text: &str) -> super::Beginning {
    use super::Beginning::{No, Unclear, Yes};
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || c == ';');
    let rest = text.strip_prefix('[').unwrap_or(text).trim_start();
    if rest.is_empty() {
        return Unclear;
    }
    let Some(rest) = rest.strip_prefix('{') else { return No };
    let rest = rest.trim_start();
    let keys = ["\"name\"", "\"type\"", "\"function\"", "\"parameters\"", "\"arguments\"", "\"id\""];
    if keys.iter().any(|key| rest.starts_with(key)) {
        Yes
    } else if keys.iter().any(|key| key.starts_with(rest)) {
        Unclear
    } else {
        No
    }
}

/// The head of the next call of [`calls`]: what comes before its arguments, if the name does.
pub(super) fn head(text: &str, _: &Tools) -> Option<Head> {
    let mut rest = text.trim_start_matches(|c: char| c.is_whitespace() || ",;[]}".contains(c)).strip_prefix('{')?;
    let (mut name, mut id) = (None, None);
    loop {
        let key = string(&mut rest)?;
        rest = rest.trim_start().strip_prefix(':')?.trim_start();
        match key.as_str() {
            "name" | "tool_name" => name = Some(string(&mut rest)?).filter(|name| !name.is_empty()),
            "id" | "tool_call_id" => id = Some(string(&mut rest)?),
            "type" => drop(string(&mut rest)?),
            "arguments" | "parameters" if rest.starts_with('{') => return Some(Head { name: name?, id, at: text.len() - rest.len() }),
            _ => return None,
        }
        rest = rest.trim_start().strip_prefix(',')?;
    }
}

/// As [`head`], of a tool that there is.
pub(super) fn bare_head(text: &str, tools: &Tools) -> Option<Head> {
    head(text, tools).filter(|head| tools.knows(&head.name))
}

/// The head of the next call of [`keyed_calls`].
pub(super) fn keyed_head(text: &str, _: &Tools) -> Option<Head> {
    let mut rest = text.trim_start_matches(|c: char| c.is_whitespace() || ",[}".contains(c)).strip_prefix('{')?;
    let name = string(&mut rest)?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start();
    rest.starts_with('{').then(|| Head { name, id: None, at: text.len() - rest.len() })
}

/// The head of a call whose arguments come after something of the format's own; `read` gives the name and id in it.
pub(super) fn head_after(text: &str, read: impl Fn(&str) -> Option<(&str, Option<&str>)>) -> Option<Head> {
    let at = text.find('{')?;
    let (name, id) = read(&text[..at])?;
    is_name(name).then(|| Head { name: name.to_owned(), id: id.map(str::to_owned), at })
}

/// Takes a string off the text.
fn string(rest: &mut &str) -> Option<String> {
    let mut values = Deserializer::from_str(rest).into_iter::<String>();
    let text = values.next()?.ok()?;
    *rest = &rest[values.byte_offset()..];
    Some(text)
}

/// Streams the calls of [`calls`].
pub(super) const STREAM: Stream = Stream { head: Some(head), values: None };
/// Streams the calls of [`bare_calls`].
pub(super) const BARE_STREAM: Stream = Stream { head: Some(bare_head), values: None };

/// `[{NAME: {arguments}}]`.
pub(super) fn keyed_calls(text: &str, _: &Tools) -> Result<Vec<Call>, Flaw> {
    let Value::Array(list) = value(text)? else { return Err(Flaw::Malformed) };
    let read = |entry| match entry {
        Value::Object(map) if map.len() == 1 => map.into_iter().next().ok_or(Flaw::Malformed),
        _ => Err(Flaw::Malformed),
    };
    list.into_iter().map(|entry| read(entry).and_then(|(name, value)| Ok(Call { name, id: None, arguments: arguments(value)? }))).collect()
}

/// The name of a function, where it can be one.
pub(super) fn name(text: &str) -> Result<String, Flaw> {
    if is_name(text) { Ok(text.to_owned()) } else { Err(Flaw::Malformed) }
}

/// Whether a name can be that of a function: of letters, digits and a few marks.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= 256 && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/'))
}
