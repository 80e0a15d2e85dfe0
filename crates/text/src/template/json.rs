//! JSON into templates and out of them. `tojson` is, for the Hub's templates, Python's
//! `json.dumps(x, ensure_ascii=False, ...)`.

use super::charge;
use minijinja::{
    Error, ErrorKind, State, Value,
    value::{Kwargs, Rest, ValueKind},
};
use serde_json::{Map, Value as Json};
use std::fmt::Write;

/// A JSON value as templates see it. (Nesting is as deep as the JSON's, which its parser limits.)
pub(super) fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(yes) => Value::from(*yes),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(integer), _) => Value::from(integer),
            (None, Some(integer)) => Value::from(integer),
            _ => Value::from(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => items.iter().map(value).collect::<Vec<_>>().into(),
        Json::Object(fields) => object(fields),
    }
}

/// A JSON object; its fields stay in order.
pub(super) fn object(fields: &Map<String, Json>) -> Value {
    Value::from_pairs(fields.iter().map(|(name, field)| (name.as_str(), value(field))))
}

/// `None` in Python where there is no value.
pub(super) fn optional(json: Option<&Json>) -> Value {
    json.map_or(Value::from(()), value)
}

/// How deep a value may be nested.
const DEPTH_LIMIT: usize = 200;

/// The filter: `tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
pub(super) fn tojson(state: &State<'_, '_>, value: &Value, positional: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let argument = |i: usize, name: &str| -> Result<Option<Value>, Error> {
        let value = match positional.get(i) {
            Some(value) => Some(value.clone()),
            None => named.get::<Option<Value>>(name)?,
        };
        Ok(value.filter(|v| !v.is_none() && !v.is_undefined()))
    };
    let indent = match argument(1, "indent")? {
        None => None,
        Some(text) if text.as_str().is_some() => text.as_str().map(str::to_owned),
        // Python: negative numbers are as zero; `True` is one.
        Some(number) => {
            Some(" ".repeat(i64::try_from(number.clone()).or_else(|_| bool::try_from(number).map(i64::from))?.clamp(0, 64) as usize))
        }
    };
    let (mut item, mut key) = (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned());
    if let Some(separators) = argument(2, "separators")? {
        let both: Vec<String> = separators.try_iter()?.map(|part| part.to_string()).collect();
        [item, key] = both.try_into().map_err(|_| Error::new(ErrorKind::InvalidOperation, "`separators` should be two strings"))?;
    }
    let writer = Writer {
        state,
        ascii: argument(0, "ensure_ascii")?.is_some_and(|v| v.is_true()),
        sorted: argument(3, "sort_keys")?.is_some_and(|v| v.is_true()),
        indent,
        item,
        key,
    };
    named.assert_all_used()?;
    let mut out = String::new();
    writer.value(value, 0, &mut out)?;
    Ok(Value::from(out))
}

struct Writer<'s> {
    state: &'s State<'s, 's>,
    ascii: bool,
    sorted: bool,
    indent: Option<String>,
    item: String,
    key: String,
}

impl Writer<'_> {
    fn value(&self, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
        if depth > DEPTH_LIMIT {
            return Err(Error::new(ErrorKind::BadSerialization, format!("values nested deeper than {DEPTH_LIMIT} cannot become JSON")));
        }
        let start = out.len();
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => out.push_str(&number(value)),
            ValueKind::String => self.string(value.as_str().unwrap_or_default(), out),
            ValueKind::Seq | ValueKind::Iterable => {
                self.all(value.try_iter()?, ('[', ']'), depth, out, |item, out| self.value(&item, depth + 1, out))?
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sorted {
                    keys.sort();
                }
                self.all(keys.into_iter(), ('{', '}'), depth, out, |key, out| {
                    self.string(&key_text(&key)?, out);
                    out.push_str(&self.key);
                    self.value(&value.get_item(&key)?, depth + 1, out)
                })?;
            }
            kind => return Err(Error::new(ErrorKind::BadSerialization, format!("{kind} cannot become JSON"))),
        }
        // What is nested is charged for at each level, so that depth costs too.
        charge(self.state, out.len() - start)
    }

    fn all(
        &self,
        items: impl Iterator<Item = Value>,
        (open, close): (char, char),
        depth: usize,
        out: &mut String,
        write: impl Fn(Value, &mut String) -> Result<(), Error>,
    ) -> Result<(), Error> {
        out.push(open);
        let mut empty = true;
        for item in items {
            if !std::mem::take(&mut empty) {
                out.push_str(&self.item);
            }
            self.line(depth + 1, out);
            write(item, out)?;
        }
        if !empty {
            self.line(depth, out);
        }
        out.push(close);
        Ok(())
    }

    fn line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            (0..depth).for_each(|_| out.push_str(indent));
        }
    }

    fn string(&self, text: &str, out: &mut String) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if c < ' ' || (self.ascii && !(' '..='~').contains(&c)) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        let _ = write!(out, "\\u{unit:04x}");
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

/// A number as Python writes it in JSON.
fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    let Ok(float) = f64::try_from(value.clone()) else { return value.to_string() };
    if float.is_nan() {
        "NaN".into()
    } else if float.is_infinite() {
        if float > 0.0 { "Infinity" } else { "-Infinity" }.into()
    } else {
        super::python::float(float)
    }
}

/// Keys become strings.
fn key_text(key: &Value) -> Result<String, Error> {
    match key.kind() {
        ValueKind::String => Ok(key.as_str().unwrap_or_default().to_owned()),
        ValueKind::None => Ok("null".into()),
        ValueKind::Bool => Ok(if key.is_true() { "true" } else { "false" }.into()),
        ValueKind::Number => Ok(number(key)),
        kind => Err(Error::new(ErrorKind::BadSerialization, format!("a key that is a {kind} cannot become JSON"))),
    }
}
