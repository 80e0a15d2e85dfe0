//! Where templates are Python more than Jinja.

use super::charge;
use minijinja::{
    Environment, Error, ErrorKind, Output, State, Value,
    value::{ValueKind, from_args},
};
use minijinja_contrib::pycompat::unknown_method_callback;

/// Adds Python's methods on strings, lists and dictionaries, and tests, filters and functions as Jinja2 has them.
pub(super) fn add_to(environment: &mut Environment<'static>) {
    minijinja_contrib::add_to_environment(environment);
    environment.set_unknown_method_callback(method);
    environment.set_formatter(print);
    // Jinja2 asks for a length and for access by index, which strings and dictionaries have too.
    environment.add_test("sequence", |value: &Value| {
        matches!(value.kind(), ValueKind::Undefined | ValueKind::Seq | ValueKind::Map | ValueKind::String)
    });
    environment.add_filter("wordcount", |text: String| {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        text.split(|c| !is_word(c)).filter(|word| !word.is_empty()).count()
    });
}

/// Writes a value where a template prints it.
fn print(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    match (value.kind(), value.as_str()) {
        (_, Some(text)) => out.write_str(text)?,
        (ValueKind::Number | ValueKind::Seq | ValueKind::Iterable | ValueKind::Map, _) => {
            let mut text = String::new();
            repr(state, value, 0, &mut text)?;
            out.write_str(&text)?;
        }
        _ => out.write_str(&value.to_string())?,
    }
    Ok(())
}

/// How deep a value is written.
const DEPTH_LIMIT: usize = 200;

/// A value as Python's `repr` writes it. `minijinja` does so too, but for floats of extreme sizes.
fn repr(state: &State<'_, '_>, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
    let start = out.len();
    let number = if value.kind() == ValueKind::Number && !value.is_integer() { f64::try_from(value.clone()).ok() } else { None };
    match (value.kind(), number.filter(|n| n.is_finite())) {
        _ if depth > DEPTH_LIMIT => out.push_str("..."),
        (ValueKind::Number, Some(number)) => out.push_str(&float(number)),
        // Lists that were put together are iterables.
        (ValueKind::Seq | ValueKind::Iterable, _) if !value.is_tuple() => {
            out.push('[');
            for (i, item) in value.try_iter()?.enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                repr(state, &item, depth + 1, out)?;
            }
            out.push(']');
            return Ok(());
        }
        (ValueKind::Map, _) => {
            out.push('{');
            for (i, key) in value.try_iter()?.enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                repr(state, &key, depth + 1, out)?;
                out.push_str(": ");
                repr(state, &value.get_item(&key)?, depth + 1, out)?;
            }
            out.push('}');
            return Ok(());
        }
        _ => out.push_str(&format!("{value:?}")),
    }
    charge(state, out.len() - start)
}

/// Methods that Python's strings have beyond those of `minijinja_contrib`.
fn method(state: &mut State<'_, '_>, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let Some(text) = value.as_str() else { return unknown_method_callback(state, value, name, args) };
    charge(state, text.len())?;
    let one = || from_args::<(&str,)>(args).map(|(argument,)| argument);
    let found = |at: Option<usize>| {
        let at = at.ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "substring not found"))?;
        Ok(Value::from(text[..at].chars().count()))
    };
    let parts = |parts: [&str; 3]| Value::from(parts.map(Value::from).to_vec());
    match name {
        "index" => found(text.find(one()?)),
        "rindex" => found(text.rfind(one()?)),
        "removeprefix" => Ok(Value::from(text.strip_prefix(one()?).unwrap_or(text))),
        "removesuffix" => Ok(Value::from(text.strip_suffix(one()?).unwrap_or(text))),
        "partition" => {
            let separator = one()?;
            Ok(text.split_once(separator).map_or_else(|| parts([text, "", ""]), |(before, after)| parts([before, separator, after])))
        }
        "rpartition" => {
            let separator = one()?;
            Ok(text.rsplit_once(separator).map_or_else(|| parts(["", "", text]), |(before, after)| parts([before, separator, after])))
        }
        "rsplit" => {
            let (separator, most) = from_args::<(Option<&str>, Option<i64>)>(args)?;
            let pieces = usize::try_from(most.unwrap_or(-1)).map_or(usize::MAX, |most| most.saturating_add(1));
            let mut parts: Vec<Value> = match separator {
                Some("") => return Err(Error::new(ErrorKind::InvalidOperation, "empty separator")),
                Some(separator) => text.rsplitn(pieces, separator).map(Value::from).collect(),
                None if pieces == usize::MAX => text.split_whitespace().rev().map(Value::from).collect(),
                None => return unknown_method_callback(state, value, name, args),
            };
            parts.reverse();
            Ok(Value::from(parts))
        }
        _ => unknown_method_callback(state, value, name, args),
    }
}

/// A finite float as Python's `repr` writes it.
pub(super) fn float(value: f64) -> String {
    // Rust turns to exponents at the same sizes, but writes them without sign and padding.
    let text = format!("{value:?}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |e| ('-', e));
            format!("{digits}e{sign}{exponent:0>2}")
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    /// From Python's `repr`.
    #[test]
    fn floats() {
        for (value, want) in [
            (1.0, "1.0"),
            (-3.5, "-3.5"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (0.1 + 0.2, "0.30000000000000004"),
            (-0.0, "-0.0"),
        ] {
            assert_eq!(super::float(value), want);
        }
    }
}
