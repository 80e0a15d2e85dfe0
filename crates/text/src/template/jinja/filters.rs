//! The filters: `value | name`. Those on what holds items are in `sequences`.

use super::arguments::{Arguments, integer, integer_or, text};
use super::ast::Operator;
use super::fault::{Fault, Kind as FaultKind};
use super::machine::Machine;
use super::operators::{TOO_LARGE, binary};
use super::unicode::is_space;
use super::value::{Kind, Number, Table, Value};
use super::{format, json, sequences, strings};
use std::cmp::Ordering;

type Done = Result<Value, Fault>;

pub(super) const ALL: Table = &[
    ("abs", abs),
    ("attr", |m, v, a| {
        let [name] = a.bind("attr", ["name"], 1)?;
        let name = text(&name.unwrap_or(Value::None))?;
        let found = m.own_attribute(v, &name)?;
        Ok(found.unwrap_or_else(|| Value::undefined(super::value::Missing::Attribute(v.type_name(), name))))
    }),
    ("batch", sequences::batch),
    ("capitalize", |m, v, a| mapped(m, v, a, "capitalize", strings::capitalized)),
    ("center", |m, v, mut a| {
        if a.positional.is_empty() && a.named.is_empty() {
            a.positional.push(Value::Int(80));
        }
        let text = Value::Str(m.str_of(v)?);
        let center = m.own_attribute(&text, "center")?.unwrap_or(Value::None);
        m.call(&center, a)
    }),
    ("count", sequences::length),
    ("d", sequences::default),
    ("default", sequences::default),
    ("dictsort", sequences::dictsort),
    ("e", |m, v, a| mapped(m, v, a, "escape", escaped)),
    ("escape", |m, v, a| mapped(m, v, a, "escape", escaped)),
    ("first", sequences::first),
    ("float", |m, v, a| {
        let [default] = a.bind("float", ["default"], 0)?;
        Ok(float(m, v)?.map_or_else(|| default.unwrap_or(Value::Float(0.0)), Value::Float))
    }),
    ("forceescape", |m, v, a| mapped(m, v, a, "forceescape", escaped)),
    ("format", |m, v, a| {
        let text = m.str_of(v)?;
        let values = match (a.positional.is_empty(), a.named.is_empty()) {
            (false, false) => return Fault::values("can't handle positional and keyword arguments at the same time"),
            (true, false) => {
                let dict = super::containers::merged(m, "format", a)?;
                m.dict(dict)?
            }
            _ => m.sequence(Kind::Tuple, a.positional)?,
        };
        format::printf(m, &text, &values)
    }),
    ("groupby", sequences::groupby),
    ("indent", indent),
    ("int", int),
    ("items", sequences::items),
    ("join", sequences::join),
    ("last", sequences::last),
    ("length", sequences::length),
    ("list", sequences::list),
    ("lower", |m, v, a| mapped(m, v, a, "lower", str::to_lowercase)),
    ("map", sequences::map),
    ("max", |m, v, a| sequences::extreme(m, v, a, Ordering::Greater)),
    ("min", |m, v, a| sequences::extreme(m, v, a, Ordering::Less)),
    ("reject", |m, v, a| sequences::choose(m, v, a, false, false)),
    ("rejectattr", |m, v, a| sequences::choose(m, v, a, true, false)),
    ("replace", |m, v, a| {
        let [old, new, count] = a.bind("replace", ["old", "new", "count"], 2)?;
        let (old, new) = (m.str_of(&old.unwrap_or(Value::None))?, m.str_of(&new.unwrap_or(Value::None))?);
        let (text, count) = (m.str_of(v)?, integer_or(count.as_ref(), -1)?);
        strings::replaced(m, &text, &old, &new, count)
    }),
    ("reverse", sequences::reverse),
    ("round", sequences::round),
    ("safe", |m, v, a| mapped(m, v, a, "safe", str::to_owned)),
    ("select", |m, v, a| sequences::choose(m, v, a, false, true)),
    ("selectattr", |m, v, a| sequences::choose(m, v, a, true, true)),
    ("slice", sequences::slice),
    ("sort", sequences::sort),
    ("string", |m, v, a| mapped(m, v, a, "string", str::to_owned)),
    ("sum", sequences::sum),
    ("title", |m, v, a| mapped(m, v, a, "title", titled)),
    ("tojson", json::tojson),
    ("trim", |m, v, a| {
        let [chars] = a.bind("trim", ["chars"], 0)?;
        let chars = chars.filter(|chars| !matches!(chars, Value::None)).as_ref().map(text).transpose()?;
        let text = m.str_of(v)?;
        m.spend_bytes(text.len())?;
        m.text(strings::trimmed(&text, chars.as_deref(), (true, true)))
    }),
    ("unique", sequences::unique),
    ("upper", |m, v, a| mapped(m, v, a, "upper", str::to_uppercase)),
    ("wordcount", |m, v, a| {
        let [] = a.bind("wordcount", [], 0)?;
        let text = m.str_of(v)?;
        m.spend_bytes(text.len())?;
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        Ok(text.split(|c| !is_word(c)).filter(|word| !word.is_empty()).count().into())
    }),
];

/// A filter that makes a text of a text.
fn mapped(m: &mut Machine, value: &Value, a: Arguments, name: &str, map: fn(&str) -> String) -> Done {
    let [] = a.bind(name, [], 0)?;
    let text = m.str_of(value)?;
    m.spend_bytes(text.len())?;
    m.text(map(&text))
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            c => out.push(c),
        }
    }
    out
}

/// Each word with a capital; words end at white space, `-` and brackets.
fn titled(text: &str) -> String {
    let is_end = |c: char| is_space(c) || matches!(c, '-' | '(' | '{' | '[' | '<');
    text.split_inclusive(is_end)
        .map(|word| {
            let mut chars = word.chars();
            let first = chars.next().into_iter().flat_map(char::to_uppercase);
            first.collect::<String>() + &chars.as_str().to_lowercase()
        })
        .collect()
}

fn abs(m: &mut Machine, value: &Value, a: Arguments) -> Done {
    let [] = a.bind("abs", [], 0)?;
    match value.number() {
        Some(Number::Int(n)) if n < 0 => binary(m, Operator::Subtract, &Value::Int(0), &Value::Int(n)),
        Some(Number::Int(n)) => Ok(Value::Int(n)),
        Some(Number::Float(n)) => Ok(Value::Float(n.abs())),
        None => Fault::values(format!("bad operand type for abs(): '{}'", value.type_name())),
    }
}

/// A number as a float, or what a text says; `None` if it is neither.
fn float(m: &mut Machine, value: &Value) -> Result<Option<f64>, Fault> {
    Ok(match value {
        Value::Str(text) => {
            m.spend_bytes(text.len())?;
            strings::trimmed(text, None, (true, true)).replace('_', "").parse().ok()
        }
        Value::Undefined(why) => return Fault::values(why.to_string()),
        other => other.number().map(Number::float),
    })
}

fn int(m: &mut Machine, value: &Value, a: Arguments) -> Done {
    let [default, base] = a.bind("int", ["default", "base"], 0)?;
    let base = u32::try_from(integer_or(base.as_ref(), 10)?).ok().filter(|base| (2..=36).contains(base));
    let Some(base) = base else { return Fault::values("int() base must be >= 2 and <= 36") };
    let whole = match value {
        Value::Int(n) => Some(*n),
        Value::Bool(yes) => Some((*yes).into()),
        Value::Str(text) => {
            m.spend_bytes(text.len())?;
            let digits = strings::trimmed(text, None, (true, true)).replace('_', "");
            let (sign, bare) = digits.split_at(usize::from(digits.starts_with(['+', '-'])));
            let prefix = match base {
                16 => "0x",
                8 => "0o",
                2 => "0b",
                _ => "",
            };
            let bare = bare.strip_prefix(prefix).unwrap_or(bare);
            let is_number = !bare.is_empty() && bare.chars().all(|c| c.is_digit(base));
            let parsed = i128::from_str_radix(&format!("{sign}{bare}"), base).ok();
            if is_number && parsed.is_none() {
                return Fault::values(TOO_LARGE);
            }
            parsed
        }
        _ => None,
    };
    let whole = match whole {
        Some(whole) => Some(whole),
        None => match float(m, value)? {
            Some(n) if n.is_finite() && n.abs() < 1.7e38 => Some(n as i128),
            Some(n) if n.is_finite() => return Err(Fault::new(FaultKind::Values, TOO_LARGE)),
            _ => None,
        },
    };
    Ok(whole.map_or_else(|| default.unwrap_or(Value::Int(0)), Value::Int))
}

fn indent(m: &mut Machine, value: &Value, a: Arguments) -> Done {
    let [width, first, blank] = a.bind("indent", ["width", "first", "blank"], 0)?;
    let space = match width {
        None => " ".repeat(4),
        Some(Value::Str(text)) => text.to_string(),
        Some(width) => {
            let width = usize::try_from(integer(&width)?.max(0)).unwrap_or(usize::MAX);
            m.spend_bytes(width)?;
            " ".repeat(width)
        }
    };
    let is_set = |m: &Machine, value: Option<Value>| value.is_some_and(|value| m.is_true(&value));
    let (first, blank) = (is_set(m, first), is_set(m, blank));
    let text = text(value)?;
    // With a last line break the last line counts, too.
    let text = format!("{text}\n");
    let lines = strings::lines(&text, false);
    m.spend_bytes(text.len().saturating_add(lines.len().saturating_mul(space.len())))?;
    let mut out = String::new();
    for (i, line) in lines.iter().enumerate() {
        out.push_str(if i > 0 { "\n" } else { "" });
        let indents = if i == 0 { first } else { blank || !line.is_empty() };
        out.push_str(if indents { &space } else { "" });
        out.push_str(line);
    }
    m.text(out)
}
