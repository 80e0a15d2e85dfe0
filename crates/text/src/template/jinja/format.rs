//! Values within texts: `'%s' % value` and `'{}'.format(value)`.

use super::arguments::Arguments;
use super::fault::Fault;
use super::machine::Machine;
use super::print::float;
use super::value::{Key, Kind, Number, Value};
use std::sync::Arc;

type Done<T> = Result<T, Fault>;

/// How a value is written: `[[fill]align][sign][#][0][width][,][.precision][kind]`.
#[derive(Clone, Copy, Debug)]
struct Spec {
    fill: char,
    /// `<`, `>`, `^` or `=`; by the kind of value if there is none.
    align: Option<char>,
    sign: Option<char>,
    alternate: bool,
    width: usize,
    group: Option<char>,
    precision: Option<usize>,
    kind: Option<char>,
}

impl Spec {
    const PLAIN: Self = Self { fill: ' ', align: None, sign: None, alternate: false, width: 0, group: None, precision: None, kind: None };

    fn read(text: &str) -> Done<Self> {
        let mut spec = Self::PLAIN;
        let chars: Vec<char> = text.chars().collect();
        let is_align = |i: usize| chars.get(i).is_some_and(|c| "<>^=".contains(*c));
        let mut at = 0;
        if is_align(1) {
            (spec.fill, spec.align, at) = (chars[0], Some(chars[1]), 2);
        } else if is_align(0) {
            (spec.align, at) = (Some(chars[0]), 1);
        }
        let mut take = |wanted: &str| {
            let found = chars.get(at).copied().filter(|c| wanted.contains(*c));
            at += usize::from(found.is_some());
            found
        };
        spec.sign = take("+- ");
        spec.alternate = take("#").is_some();
        if take("0").is_some() && spec.align.is_none() {
            (spec.fill, spec.align) = ('0', Some('='));
        }
        let number = |take: &mut dyn FnMut(&str) -> Option<char>| {
            let mut n = None;
            while let Some(digit) = take("0123456789").and_then(|c| c.to_digit(10)) {
                n = Some(n.unwrap_or(0usize).saturating_mul(10).saturating_add(digit as usize));
            }
            n
        };
        spec.width = number(&mut take).unwrap_or(0);
        spec.group = take(",_");
        if take(".").is_some() {
            let Some(precision) = number(&mut take) else { return Fault::values("Format specifier missing precision") };
            spec.precision = Some(precision);
        }
        spec.kind = take("sdbcoxXeEfFgG%");
        if at < chars.len() {
            return Fault::values(format!("Invalid format specifier '{text}'"));
        }
        Ok(spec)
    }

    /// Pads a text; `lead` of its bytes are a sign or prefix, after which zeros go.
    fn pad(&self, m: &mut Machine, text: &str, lead: usize, align: char) -> Done<String> {
        let left = self.width.saturating_sub(text.chars().count());
        m.spend_bytes(text.len().saturating_add(left.saturating_mul(4)))?;
        let (before, after) = match self.align.unwrap_or(align) {
            '<' => (0, left),
            '^' => (left / 2, left - left / 2),
            _ => (left, 0),
        };
        let fill = |n: usize| std::iter::repeat_n(self.fill, n).collect::<String>();
        let (sign, digits) = text.split_at(if self.align == Some('=') { lead } else { 0 });
        Ok(format!("{sign}{}{digits}{}", fill(before), fill(after)))
    }

    /// Whether the kind is one of whole numbers.
    fn counts_whole(&self) -> bool {
        !self.kind.is_some_and(|kind| "eEfFgG%".contains(kind))
    }

    fn text(&self, m: &mut Machine, text: &str) -> Done<String> {
        let cut: String = match self.precision {
            Some(most) => text.chars().take(most).collect(),
            None => text.to_owned(),
        };
        self.pad(m, &cut, 0, '<')
    }

    fn number(&self, m: &mut Machine, number: Number) -> Done<String> {
        const PRECISION: usize = 1000;
        if self.precision.is_some_and(|n| n > PRECISION) {
            return Fault::values(format!("a precision of more than {PRECISION} digits is not supported"));
        }
        let precision = self.precision.unwrap_or(6);
        let is_negative =
            matches!(number, Number::Int(n) if n < 0) || matches!(number, Number::Float(n) if n.is_sign_negative() && !n.is_nan());
        let (digits, prefix) = match (self.kind, number) {
            (Some('c'), Number::Int(n)) => {
                let c = u32::try_from(n).ok().and_then(char::from_u32);
                return c.map_or_else(|| Fault::values("%c arg not in range"), |c| self.text(m, &c.to_string()));
            }
            (None | Some('d'), Number::Int(n)) => (n.unsigned_abs().to_string(), ""),
            (Some('x'), Number::Int(n)) => (format!("{:x}", n.unsigned_abs()), "0x"),
            (Some('X'), Number::Int(n)) => (format!("{:X}", n.unsigned_abs()), "0X"),
            (Some('o'), Number::Int(n)) => (format!("{:o}", n.unsigned_abs()), "0o"),
            (Some('b'), Number::Int(n)) => (format!("{:b}", n.unsigned_abs()), "0b"),
            (Some('f' | 'F'), n) => (format!("{:.precision$}", n.float().abs()), ""),
            (Some('%'), n) => (format!("{:.precision$}%", n.float().abs() * 100.0), ""),
            (Some('e' | 'E'), n) => (scientific(n.float().abs(), precision), ""),
            (Some('g' | 'G'), n) => (general(n.float().abs(), precision), ""),
            (None, Number::Float(n)) => (self.precision.map_or_else(|| float(n.abs()), |p| short(n.abs(), p)), ""),
            (Some(kind), _) => return Fault::values(format!("Unknown format code '{kind}' for object of this type")),
        };
        let digits = if matches!(self.kind, Some('E' | 'G' | 'F')) { digits.to_uppercase() } else { digits };
        let digits = match self.group {
            Some(group) => grouped(&digits, group),
            None => digits,
        };
        let sign = if is_negative { "-" } else { self.sign.map_or("", |sign| ["+", "", " "]["+- ".find(sign).unwrap_or(1)]) };
        let prefix = if self.alternate { prefix } else { "" };
        self.pad(m, &format!("{sign}{prefix}{digits}"), sign.len() + prefix.len(), '>')
    }
}

/// `1.5e+20`.
fn scientific(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |e| ('-', e));
    format!("{digits}e{sign}{exponent:0>2}")
}

/// So many digits that count, without zeros at the end.
fn general(value: f64, precision: usize) -> String {
    let precision = precision.max(1);
    let text = scientific(value, precision - 1);
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let bare =
        |digits: &str| if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.').to_owned() } else { digits.to_owned() };
    if exponent < -4 || exponent >= precision as i32 {
        let (sign, size) = if exponent < 0 { ('-', -exponent) } else { ('+', exponent) };
        return format!("{}e{sign}{size:0>2}", bare(digits));
    }
    bare(&format!("{value:.*}", (precision as i32 - 1 - exponent).max(0) as usize))
}

/// As [`general`], with a digit after the point.
fn short(value: f64, precision: usize) -> String {
    let text = general(value, precision);
    let whole = text.find('.').unwrap_or(text.len());
    if text.contains(['.', 'e']) || !value.is_finite() {
        text
    } else if whole < precision.max(1) {
        text + ".0"
    } else {
        scientific(value, precision.max(1) - 1)
    }
}

/// Thousands with a mark between them.
fn grouped(digits: &str, mark: char) -> String {
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let mut out = String::new();
    for (i, c) in digits[..end].chars().enumerate() {
        if i > 0 && (end - i).is_multiple_of(3) {
            out.push(mark);
        }
        out.push(c);
    }
    out + &digits[end..]
}

/// `text % values`.
pub(super) fn printf(m: &mut Machine, text: &str, values: &Value) -> Done<Value> {
    m.spend_bytes(text.len())?;
    let mut given = match values {
        Value::Sequence(kind, _) if kind.is_tuple() => m.items(values)?,
        other => vec![other.clone()],
    }
    .into_iter();
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let mut named = None;
        if let Some((name, after)) = rest.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
            let Value::Dict(id) = values else { return Fault::values("format requires a mapping") };
            named = m.heap.dict(*id).get(&Key::from(name)).cloned();
            if named.is_none() {
                return Fault::values(format!("no key '{name}'"));
            }
            rest = after;
        }
        let end = rest.find(|c: char| c.is_alphabetic() || c == '%').unwrap_or(rest.len());
        let Some(kind) = rest[end..].chars().next() else { return Fault::values("incomplete format") };
        let flags = &rest[..end];
        rest = &rest[end + kind.len_utf8()..];
        if kind == '%' {
            out.push('%');
            continue;
        }
        let Some(value) = named.or_else(|| given.next()) else { return Fault::values("not enough arguments for format string") };
        let piece = converted(m, flags, kind, &value)?;
        m.spend_bytes(piece.len())?;
        out.push_str(&piece);
    }
    out.push_str(rest);
    // What has items by name or place may be left over.
    let may_be_left = matches!(values, Value::Dict(_) | Value::Sequence(Kind::List | Kind::Range, _) | Value::Undefined(_));
    if given.next().is_some() && !may_be_left {
        return Fault::values("not all arguments converted during string formatting");
    }
    m.text(out)
}

fn converted(m: &mut Machine, flags: &str, kind: char, value: &Value) -> Done<String> {
    let sizes = flags.trim_start_matches(['-', '+', ' ', '#', '0']);
    let set = &flags[..flags.len() - sizes.len()];
    let mut spec = Spec::read(sizes)?;
    spec.sign = set.chars().find(|c| *c == '+').or(set.chars().find(|c| *c == ' '));
    spec.alternate = set.contains('#');
    spec.align = if set.contains('-') { Some('<') } else { Some('>') };
    if set.contains('0') && !set.contains('-') && kind != 's' {
        (spec.fill, spec.align) = ('0', Some('='));
    }
    match (kind, value.number()) {
        ('s' | 'r' | 'a', _) => {
            let text = if kind == 's' { m.str_of(value)? } else { m.repr_of(value)?.into() };
            spec.text(m, &text)
        }
        ('c', None) => match value {
            Value::Str(text) if text.chars().count() == 1 => spec.text(m, text),
            _ => Fault::values("%c requires int or char"),
        },
        ('d' | 'i' | 'u', Some(number)) => {
            let whole = match number {
                Number::Int(n) => n,
                Number::Float(n) => n as i128,
            };
            Spec { kind: Some('d'), precision: None, ..spec }.number(m, Number::Int(whole))
        }
        ('x' | 'X' | 'o' | 'c', Some(Number::Int(_))) | ('e' | 'E' | 'f' | 'F' | 'g' | 'G', Some(_)) => {
            let number = value.number().unwrap_or(Number::Int(0));
            Spec { kind: Some(kind), ..spec }.number(m, number)
        }
        ('d' | 'i' | 'u' | 'x' | 'X' | 'o' | 'e' | 'E' | 'f' | 'F' | 'g' | 'G', _) => {
            Fault::values(format!("%{kind} format: a number is required, not {}", value.type_name()))
        }
        _ => Fault::values(format!("unsupported format character '{kind}'")),
    }
}

/// How the fields of a text name their places: one after another, or each by its number.
#[derive(Clone, Copy)]
enum Numbering {
    Open,
    /// The next place.
    Automatic(usize),
    Manual,
}

impl Numbering {
    /// The place that a field names, if it is one.
    fn place(&mut self, name: &str) -> Done<Option<usize>> {
        let place = match (name.is_empty(), name.parse::<usize>(), *self) {
            (true, _, Self::Open) => 0,
            (true, _, Self::Automatic(next)) => next,
            (false, Ok(place), Self::Open | Self::Manual) => {
                *self = Self::Manual;
                return Ok(Some(place));
            }
            (false, Err(_), _) => return Ok(None),
            _ => return Fault::values("cannot switch between manual field specification and automatic field numbering"),
        };
        *self = Self::Automatic(place + 1);
        Ok(Some(place))
    }
}

/// `text.format(arguments)`.
pub(super) fn format(m: &mut Machine, text: &str, a: Arguments) -> Done<Value> {
    let out = fields(m, text, &a, &mut Numbering::Open, 0)?;
    m.text(out)
}

/// A text with its fields filled in; those of specifications may have fields themselves.
fn fields(m: &mut Machine, text: &str, a: &Arguments, next: &mut Numbering, depth: usize) -> Done<String> {
    m.spend_bytes(text.len())?;
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(['{', '}']) {
        out.push_str(&rest[..at]);
        let mark = rest.as_bytes()[at];
        rest = &rest[at + 1..];
        if rest.as_bytes().first() == Some(&mark) {
            out.push(char::from(mark));
            rest = &rest[1..];
            continue;
        }
        if mark == b'}' {
            return Fault::values("Single '}' encountered in format string");
        }
        let Some(end) = closing(rest) else { return Fault::values("expected '}' before end of string") };
        let field = &rest[..end];
        rest = &rest[end + 1..];
        let (field, spec) = field.split_once(':').unwrap_or((field, ""));
        let (field, conversion) = field.split_once('!').unwrap_or((field, ""));
        let value = looked_up(m, field, a, next)?;
        let value = match conversion {
            "" => value,
            "s" => Value::Str(m.str_of(&value)?),
            "r" | "a" => Value::Str(m.repr_of(&value)?.into()),
            other => return Fault::values(format!("Unknown conversion specifier '{other}'")),
        };
        if spec.contains('{') && depth == 1 {
            return Fault::values("Max string recursion exceeded");
        }
        let inner = if spec.contains('{') { fields(m, spec, a, next, depth + 1)? } else { spec.to_owned() };
        let piece = match (&value, value.number()) {
            (_, _) if inner.is_empty() => m.str_of(&value)?.to_string(),
            (_, Some(number)) => {
                let spec = Spec::read(&inner)?;
                if spec.kind == Some('s') || (matches!(number, Number::Int(_)) && spec.precision.is_some() && spec.counts_whole()) {
                    return Fault::values(format!("format specifier '{inner}' is not for '{}'", value.type_name()));
                }
                spec.number(m, number)?
            }
            (Value::Str(text), _) => {
                let spec = Spec::read(&inner)?;
                if spec.kind.is_some_and(|kind| kind != 's') || spec.sign.is_some() || spec.group.is_some() || spec.alternate {
                    return Fault::values(format!("format specifier '{inner}' is not for 'str'"));
                }
                // Zeros before the width fill behind a text.
                let align = if spec.align == Some('=') { Some('<') } else { spec.align };
                Spec { align, ..spec }.text(m, text)?
            }
            (other, _) => return Fault::values(format!("unsupported format string passed to {}.__format__", other.type_name())),
        };
        m.spend_bytes(piece.len())?;
        out.push_str(&piece);
    }
    out.push_str(rest);
    Ok(out)
}

/// Where the `}` of a field is.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    text.bytes().position(|b| {
        depth += i32::from(b == b'{') - i32::from(b == b'}');
        depth < 0
    })
}

/// `name.attribute[key]`, where `name` may be a place or nothing.
fn looked_up(m: &mut Machine, field: &str, a: &Arguments, next: &mut Numbering) -> Done<Value> {
    let end = field.find(['.', '[']).unwrap_or(field.len());
    let (name, mut rest) = field.split_at(end);
    let place = next.place(name)?;
    let found = match place {
        Some(i) => a.positional.get(i).cloned(),
        None => a.named.iter().find(|(n, _)| **n == *name).map(|(_, value)| value.clone()),
    };
    let Some(mut value) = found else {
        return Fault::values(match place {
            Some(_) => "Replacement index out of range for positional args tuple".to_owned(),
            None => format!("no key '{name}'"),
        });
    };
    while !rest.is_empty() {
        let found = if let Some(after) = rest.strip_prefix('[') {
            let Some((key, after)) = after.split_once(']') else { return Fault::values("Missing ']' in format string") };
            rest = after;
            let key = key.parse().map_or_else(|_| Value::from(key), Value::Int);
            m.item(&value, &key)?
        } else {
            let after = rest.strip_prefix('.').unwrap_or(rest);
            let (name, after) = after.split_at(after.find(['.', '[']).unwrap_or(after.len()));
            rest = after;
            m.attribute(&value, &Arc::from(name))?
        };
        value = found;
    }
    Ok(value)
}
