//! Calls that are written as Python: `[f(a=1, b='x'), g()]`.

use super::json::{self, is_name};
use super::{Beginning, Call, DEPTH, Flaw, Tools};
use serde_json::{Map, Number, Value};

/// A literal: a string, a number, `True`, `None`, a list, tuple or dictionary. JSON's words are read too.
pub(super) fn value(text: &str) -> Option<Value> {
    let mut reader = Reader { rest: text, unescaped: false };
    let value = reader.value(0).ok()?;
    reader.skip_space();
    reader.rest.is_empty().then_some(value)
}

/// As [`calls`], also where quotation marks within strings have no escape: then a string ends with one that a value's end follows.
pub(super) fn calls_without_escapes(text: &str, tools: &Tools) -> Result<Vec<Call>, Flaw> {
    calls(text, tools).or_else(|flaw| read_calls(text, true).map_err(|_| flaw))
}

/// Calls in a list or one after another, a comma or line break between them.
pub(super) fn calls(text: &str, _: &Tools) -> Result<Vec<Call>, Flaw> {
    read_calls(text, false)
}

fn read_calls(text: &str, unescaped: bool) -> Result<Vec<Call>, Flaw> {
    let text = text.trim();
    let text = match text.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').ok_or(Flaw::Cut)?,
        None => text,
    };
    let (mut reader, mut calls) = (Reader { rest: text, unescaped }, Vec::new());
    loop {
        reader.skip_space();
        if reader.rest.is_empty() {
            break;
        }
        calls.push(reader.call()?);
        reader.skip_space();
        reader.skip(",");
    }
    if calls.is_empty() { Err(Flaw::Malformed) } else { Ok(calls) }
}

/// As [`calls`], and all of them of tools that there are.
pub(super) fn bare_calls(text: &str, tools: &Tools) -> Result<Vec<Call>, Flaw> {
    let found = calls(text, tools)?;
    if found.iter().all(|call| tools.knows(&call.name)) { Ok(found) } else { Err(Flaw::Malformed) }
}

/// Whether `text` begins with `[name(`.
pub(super) fn begins_call(text: &str) -> Beginning {
    let Some(rest) = text.trim_start().strip_prefix('[') else { return Beginning::No };
    match rest.find('(') {
        Some(end) if is_name(rest[..end].trim()) => Beginning::Yes,
        None if rest.trim().is_empty() || is_name(rest.trim()) => Beginning::Unclear,
        _ => Beginning::No,
    }
}

struct Reader<'a> {
    rest: &'a str,
    /// Strings may hold their own quotation marks.
    unescaped: bool,
}

impl<'a> Reader<'a> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn skip(&mut self, what: &str) -> bool {
        let rest = self.rest.strip_prefix(what);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// As [`skip`](Self::skip), after space, and an error if it is not there.
    fn expect(&mut self, what: &str) -> Result<(), Flaw> {
        self.skip_space();
        if self.skip(what) { Ok(()) } else { Err(self.flaw()) }
    }

    fn flaw(&self) -> Flaw {
        if self.rest.is_empty() { Flaw::Cut } else { Flaw::Malformed }
    }

    /// The text up to the first character that `ends` it.
    fn until(&mut self, ends: impl Fn(char) -> bool) -> &'a str {
        let (text, rest) = self.rest.split_at(self.rest.find(ends).unwrap_or(self.rest.len()));
        self.rest = rest;
        text
    }

    fn call(&mut self) -> Result<Call, Flaw> {
        let name = self.until(|c| c == '(').trim();
        self.expect("(")?;
        let name = json::name(name)?;
        let mut arguments = Map::new();
        loop {
            self.skip_space();
            if self.skip(")") {
                return Ok(Call { name, id: None, arguments });
            }
            let key = self.until(|c| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.')));
            self.expect("=")?;
            if key.is_empty() {
                return Err(Flaw::Malformed);
            }
            arguments.insert(key.to_owned(), self.value(0)?);
            self.separator(")")?;
        }
    }

    /// A comma, or what closes the list, which is left.
    fn separator(&mut self, close: &str) -> Result<(), Flaw> {
        self.skip_space();
        if self.skip(",") || self.rest.starts_with(close) { Ok(()) } else { Err(self.flaw()) }
    }

    fn list(&mut self, close: &str, depth: usize) -> Result<Value, Flaw> {
        let mut list = Vec::new();
        loop {
            self.skip_space();
            if self.skip(close) {
                return Ok(list.into());
            }
            list.push(self.value(depth)?);
            self.separator(close)?;
        }
    }

    fn dictionary(&mut self, depth: usize) -> Result<Value, Flaw> {
        let mut map = Map::new();
        loop {
            self.skip_space();
            if self.skip("}") {
                return Ok(map.into());
            }
            let Value::String(key) = self.value(depth)? else { return Err(Flaw::Malformed) };
            self.expect(":")?;
            map.insert(key, self.value(depth)?);
            self.separator("}")?;
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, Flaw> {
        self.skip_space();
        if depth > DEPTH {
            return Err(Flaw::Malformed);
        }
        let first = self.rest.chars().next().ok_or(Flaw::Cut)?;
        match first {
            '\'' | '"' => self.string(first).map(Value::String),
            '[' | '(' => {
                self.rest = &self.rest[1..];
                self.list(if first == '[' { "]" } else { ")" }, depth + 1)
            }
            '{' => {
                self.rest = &self.rest[1..];
                self.dictionary(depth + 1)
            }
            _ => {
                let word = self.until(|c| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.' | '_')));
                match word {
                    "True" | "true" => Ok(true.into()),
                    "False" | "false" => Ok(false.into()),
                    "None" | "null" => Ok(Value::Null),
                    _ => serde_json::from_str::<Number>(word).map(Value::Number).map_err(|_| self.flaw()),
                }
            }
        }
    }

    fn string(&mut self, quote: char) -> Result<String, Flaw> {
        let mut text = String::new();
        let mut chars = self.rest[1..].chars();
        loop {
            match chars.next().ok_or(Flaw::Cut)? {
                '\\' => match chars.next().ok_or(Flaw::Cut)? {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    'r' => text.push('\r'),
                    c @ ('x' | 'u' | 'U') => {
                        let digits = match c {
                            'x' => 2,
                            'u' => 4,
                            _ => 8,
                        };
                        let mut code = 0u32;
                        for _ in 0..digits {
                            let digit = chars.next().ok_or(Flaw::Cut)?.to_digit(16).ok_or(Flaw::Malformed)?;
                            code = (code << 4) | digit;
                        }
                        text.push(char::from_u32(code).ok_or(Flaw::Malformed)?);
                    }
                    c @ ('\\' | '\'' | '"') => text.push(c),
                    // Python keeps both.
                    other => text.extend(['\\', other]),
                },
                c if c == quote && (!self.unescaped || ends_value(chars.as_str())) => break,
                c => text.push(c),
            }
        }
        self.rest = chars.as_str();
        Ok(text)
    }
}

/// Whether what follows a value begins `text`: a bracket, or a comma with another value or key.
fn ends_value(text: &str) -> bool {
    let text = text.trim_start();
    match text.strip_prefix(',').map(str::trim_start) {
        Some(next) => {
            let word = next.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))).unwrap_or(next.len());
            next.starts_with(['\'', '"', '[', '{', '(']) || (word > 0 && next[word..].starts_with(['=', ',', ']', ')', '}']))
        }
        None => text.starts_with([')', ']', '}', ':']),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn literals() {
        for (text, expected) in [
            ("'a\\'b\\n\\u00e9\\d'", json!("a'b\né\\d")),
            ("[1, -2.5, 1e3, True, None, ]", json!([1, -2.5, 1e3, true, null])),
            ("{'k': (1,), \"l\": {}}", json!({ "k": [1], "l": {} })),
        ] {
            assert_eq!(value(text), Some(expected), "{text}");
        }
        for text in ["", "x", "'a", "[1", "{1: 2}", "1 2", "'\\ud800'", "'\\xzz'", "[1 2]"] {
            assert_eq!(value(text), None, "{text}");
        }
        assert_eq!(value(&"[".repeat(100_000)), None);
    }

    #[test]
    fn calls_and_no_calls() {
        let tools = Tools::default();
        let found = calls("[f(a=1, b=['x)']), g.h()]", &tools).unwrap();
        assert_eq!((found[0].name.as_str(), &found[0].arguments["b"], found[1].name.as_str()), ("f", &json!(["x)"]), "g.h"));
        for (text, flaw) in [("[f(a='x", Flaw::Cut), ("[f(1)]", Flaw::Malformed), ("[]", Flaw::Malformed), ("f(a=1", Flaw::Cut)] {
            assert_eq!(calls(text, &tools), Err(flaw), "{text}");
        }
    }
}
