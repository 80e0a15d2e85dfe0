//! `tojson`, which for the Hub's templates is Python's `json.dumps(x, ensure_ascii=False, ...)`.

use super::arguments::{Arguments, integer, text};
use super::fault::Fault;
use super::machine::Machine;
use super::print::float;
use super::value::{Key, Kind, Value};
use std::fmt::Write;

/// The filter: `tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
pub(super) fn tojson(m: &mut Machine, value: &Value, a: Arguments) -> Result<Value, Fault> {
    let given = a.bind("tojson", ["ensure_ascii", "indent", "separators", "sort_keys"], 0)?;
    let [ascii, indent, separators, sorted] = given.map(|value| value.filter(|value| !matches!(value, Value::None)));
    let indent = match &indent {
        None => None,
        Some(Value::Str(text)) => Some(text.to_string()),
        // Python: negative numbers are as zero.
        Some(number) => Some(" ".repeat(integer(number)?.clamp(0, 64) as usize)),
    };
    let (mut item, mut key) = (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned());
    if let Some(separators) = separators {
        let Ok([a, b]) = <[Value; 2]>::try_from(m.items(&separators)?) else { return Fault::values("`separators` should be two strings") };
        (item, key) = (text(&a)?.to_string(), text(&b)?.to_string());
    }
    let is_set = |m: &Machine, value: &Option<Value>| value.as_ref().is_some_and(|value| m.is_true(value));
    let style = Style { ascii: is_set(m, &ascii), sorted: is_set(m, &sorted), indent, item, key };
    let mut out = String::new();
    style.value(m, value, 0, &mut out)?;
    m.text(out)
}

struct Style {
    ascii: bool,
    sorted: bool,
    indent: Option<String>,
    item: String,
    key: String,
}

impl Style {
    fn value(&self, m: &mut Machine, value: &Value, depth: usize, out: &mut String) -> Result<(), Fault> {
        Machine::check_depth(depth)?;
        let start = out.len();
        match value {
            Value::None => out.push_str("null"),
            Value::Bool(yes) => out.push_str(if *yes { "true" } else { "false" }),
            Value::Int(n) => _ = write!(out, "{n}"),
            Value::Float(n) => out.push_str(&number(*n)),
            Value::Str(text) => self.string(text, out),
            Value::Sequence(kind, id) if *kind == Kind::List || kind.is_tuple() => {
                out.push('[');
                let count = m.heap.sequence(*id).len();
                for i in 0..count {
                    let item = m.heap.sequence(*id)[i].clone();
                    self.begin_item(m, i, depth, out)?;
                    self.value(m, &item, depth + 1, out)?;
                }
                self.end(count, depth, ']', out);
            }
            Value::Dict(id) => {
                out.push('{');
                m.spend_items(m.heap.dict(*id).len())?;
                let mut keys: Vec<Key> = m.heap.dict(*id).keys().cloned().collect();
                if self.sorted {
                    let pairs = keys.iter().map(|key| (key.value().clone(), key.value().clone())).collect();
                    keys = m.sorted(pairs, false)?.iter().map(Key::new).collect::<Result<_, _>>()?;
                }
                for (i, key) in keys.iter().enumerate() {
                    self.begin_item(m, i, depth, out)?;
                    self.string(&key_text(key.value()), out);
                    out.push_str(&self.key);
                    let value = m.heap.dict(*id).get(key).cloned().unwrap_or(Value::None);
                    self.value(m, &value, depth + 1, out)?;
                }
                self.end(keys.len(), depth, '}', out);
            }
            other => return Fault::values(format!("Object of type {} is not JSON serializable", other.type_name())),
        }
        // What is nested is paid for at each level, so that depth costs too.
        m.spend_bytes(out.len() - start)
    }

    /// What is before an item. Indents and separators may be of any length.
    fn begin_item(&self, m: &mut Machine, i: usize, depth: usize, out: &mut String) -> Result<(), Fault> {
        let indent = self.indent.as_ref().map_or(0, String::len).saturating_mul(depth + 1);
        m.spend_bytes(self.item.len() + self.key.len() + indent)?;
        out.push_str(if i > 0 { &self.item } else { "" });
        self.line(depth + 1, out);
        Ok(())
    }

    fn end(&self, count: usize, depth: usize, close: char, out: &mut String) {
        if count > 0 {
            self.line(depth, out);
        }
        out.push(close);
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

fn number(value: f64) -> String {
    if value.is_nan() {
        "NaN".into()
    } else if value.is_infinite() {
        if value > 0.0 { "Infinity" } else { "-Infinity" }.into()
    } else {
        float(value)
    }
}

/// Keys become strings.
fn key_text(key: &Value) -> String {
    match key {
        Value::Str(text) => text.to_string(),
        Value::Bool(yes) => if *yes { "true" } else { "false" }.into(),
        Value::Int(n) => n.to_string(),
        Value::Float(n) => number(*n),
        _ => "null".into(),
    }
}
