//! The methods of strings. Places in a text count characters.

use super::access::slice_text;
use super::arguments::{Arguments, integer_or, text};
use super::fault::Fault;
use super::format;
use super::machine::Machine;
use super::unicode::{is_decimal, is_letter, is_line_end, is_numeric, is_space};
use super::value::{Kind, Table, Value};
use std::sync::Arc;

type Done = Result<Value, Fault>;

pub(super) const METHODS: Table = &[
    ("capitalize", |m, s, a| mapped(m, s, a, "capitalize", capitalized)),
    ("center", |m, s, a| padded(m, s, a, "center", |left| (left / 2, left - left / 2))),
    ("count", |m, s, a| {
        let (within, part, before) = searched(m, s, a, "count")?;
        // Nothing is between all characters, and at both ends.
        let count = if part.is_empty() { within.chars().count() + 1 } else { within.matches(&*part).count() };
        Ok(before.map_or(0, |_| count).into())
    }),
    ("endswith", |m, s, a| affix(m, s, a, "endswith", |s, part| s.ends_with(part))),
    ("find", |m, s, a| found(m, s, a, "find", |s, part| s.find(part), false)),
    ("format", |m, s, a| format::format(m, &own(s), a)),
    ("index", |m, s, a| found(m, s, a, "index", |s, part| s.find(part), true)),
    ("isalnum", |m, s, a| all(m, s, a, "isalnum", |c| is_letter(c) || is_numeric(c))),
    ("isalpha", |m, s, a| all(m, s, a, "isalpha", is_letter)),
    ("isascii", |m, s, a| whole(m, s, a, "isascii", str::is_ascii)),
    ("isdecimal", |m, s, a| all(m, s, a, "isdecimal", is_decimal)),
    ("isdigit", |m, s, a| all(m, s, a, "isdigit", |c| is_decimal(c) || "²³¹⁰⁴⁵⁶⁷⁸⁹".contains(c))),
    ("islower", |m, s, a| whole(m, s, a, "islower", is_lower)),
    ("isnumeric", |m, s, a| all(m, s, a, "isnumeric", is_numeric)),
    ("isspace", |m, s, a| all(m, s, a, "isspace", is_space)),
    ("istitle", |m, s, a| whole(m, s, a, "istitle", |s| s.chars().any(is_cased) && titled(s) == s)),
    ("isupper", |m, s, a| whole(m, s, a, "isupper", is_upper)),
    ("join", join),
    ("ljust", |m, s, a| padded(m, s, a, "ljust", |left| (0, left))),
    ("lower", |m, s, a| mapped(m, s, a, "lower", str::to_lowercase)),
    ("lstrip", |m, s, a| stripped(m, s, a, "lstrip", (true, false))),
    ("partition", |m, s, a| parted(m, s, a, "partition")),
    ("removeprefix", |m, s, a| without(m, s, a, "removeprefix", |s, part| s.strip_prefix(part))),
    ("removesuffix", |m, s, a| without(m, s, a, "removesuffix", |s, part| s.strip_suffix(part))),
    ("replace", |m, s, a| {
        let [old, new, count] = a.bind("replace", ["old", "new", "count"], 2)?;
        let (old, new) = (text(&old.unwrap_or(Value::None))?, text(&new.unwrap_or(Value::None))?);
        let count = integer_or(count.as_ref(), -1)?;
        replaced(m, &own(s), &old, &new, count)
    }),
    ("rfind", |m, s, a| found(m, s, a, "rfind", |s, part| s.rfind(part), false)),
    ("rindex", |m, s, a| found(m, s, a, "rindex", |s, part| s.rfind(part), true)),
    ("rjust", |m, s, a| padded(m, s, a, "rjust", |left| (left, 0))),
    ("rpartition", |m, s, a| parted(m, s, a, "rpartition")),
    ("rsplit", |m, s, a| split(m, s, a, "rsplit")),
    ("rstrip", |m, s, a| stripped(m, s, a, "rstrip", (false, true))),
    ("split", |m, s, a| split(m, s, a, "split")),
    ("splitlines", splitlines),
    ("startswith", |m, s, a| affix(m, s, a, "startswith", |s, part| s.starts_with(part))),
    ("strip", |m, s, a| stripped(m, s, a, "strip", (true, true))),
    ("title", |m, s, a| mapped(m, s, a, "title", titled)),
    ("upper", |m, s, a| mapped(m, s, a, "upper", str::to_uppercase)),
    ("zfill", zfill),
];

/// The text that a method is called on.
fn own(value: &Value) -> Arc<str> {
    match value {
        Value::Str(text) => text.clone(),
        _ => "".into(),
    }
}

fn mapped(m: &mut Machine, s: &Value, a: Arguments, name: &str, map: fn(&str) -> String) -> Done {
    let [] = a.bind(name, [], 0)?;
    let s = own(s);
    m.spend_bytes(s.len())?;
    m.text(map(&s))
}

fn whole(m: &mut Machine, s: &Value, a: Arguments, name: &str, test: fn(&str) -> bool) -> Done {
    let [] = a.bind(name, [], 0)?;
    let s = own(s);
    m.spend_bytes(s.len())?;
    Ok(test(&s).into())
}

/// Whether there are characters, and all pass a test.
fn all(m: &mut Machine, s: &Value, a: Arguments, name: &str, test: fn(char) -> bool) -> Done {
    let [] = a.bind(name, [], 0)?;
    let s = own(s);
    m.spend_bytes(s.len())?;
    Ok((!s.is_empty() && s.chars().all(test)).into())
}

pub(super) fn is_cased(c: char) -> bool {
    c.is_lowercase() || c.is_uppercase()
}
pub(super) fn is_lower(text: &str) -> bool {
    text.chars().any(char::is_lowercase) && !text.chars().any(char::is_uppercase)
}
pub(super) fn is_upper(text: &str) -> bool {
    text.chars().any(char::is_uppercase) && !text.chars().any(char::is_lowercase)
}

/// A character as it begins a word: of those that become several, one is large.
fn title_case(c: char) -> String {
    match c {
        'Ǆ' | 'ǅ' | 'ǆ' => "ǅ".into(),
        'Ǉ' | 'ǈ' | 'ǉ' => "ǈ".into(),
        'Ǌ' | 'ǋ' | 'ǌ' => "ǋ".into(),
        'Ǳ' | 'ǲ' | 'ǳ' => "ǲ".into(),
        _ => {
            let large: Vec<char> = c.to_uppercase().collect();
            let first = large.iter().position(|c| is_cased(*c)).map_or(large.len(), |at| at + 1);
            large[..first].iter().copied().chain(large[first..].iter().flat_map(|c| c.to_lowercase())).collect()
        }
    }
}

/// The first character as it begins a word, the others small.
pub(super) fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(title_case).unwrap_or_default();
    first + &chars.as_str().to_lowercase()
}

/// Each word as [`capitalized`]; a word is cased characters.
fn titled(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_cased) {
        let (before, from) = rest.split_at(start);
        let (word, after) = from.split_at(from.find(|c| !is_cased(c)).unwrap_or(from.len()));
        out.push_str(before);
        let mut chars = word.chars();
        let first = chars.next();
        // The whole word becomes small, as the last letter depends on those before it.
        let small = word.to_lowercase();
        let skipped = first.map_or(0, |c| c.to_lowercase().map(char::len_utf8).sum());
        out.push_str(&first.map(title_case).unwrap_or_default());
        out.push_str(small.get(skipped..).unwrap_or_default());
        rest = after;
    }
    out + rest
}

/// A text without some characters at its ends; without white space if none are given.
pub(super) fn trimmed<'t>(text: &'t str, chars: Option<&str>, (start, end): (bool, bool)) -> &'t str {
    let is_taken = |c: char| chars.map_or_else(|| is_space(c), |chars| chars.contains(c));
    let text = if start { text.trim_start_matches(is_taken) } else { text };
    if end { text.trim_end_matches(is_taken) } else { text }
}

fn stripped(m: &mut Machine, s: &Value, a: Arguments, name: &str, ends: (bool, bool)) -> Done {
    let [chars] = a.bind(name, ["chars"], 0)?;
    let chars = chars.filter(|chars| !matches!(chars, Value::None)).as_ref().map(text).transpose()?;
    let s = own(s);
    m.spend_bytes(s.len())?;
    // Each character is looked for among those to be taken.
    let taken = trimmed(&s, chars.as_deref(), ends);
    m.spend_bytes((s.len() - taken.len()).saturating_mul(chars.as_ref().map_or(0, |c| c.len())))?;
    if taken.len() == s.len() { Ok(Value::Str(s.clone())) } else { m.text(taken) }
}

fn without(m: &mut Machine, s: &Value, a: Arguments, name: &str, strip: for<'t> fn(&'t str, &str) -> Option<&'t str>) -> Done {
    let [part] = a.bind(name, ["part"], 1)?;
    let (s, part) = (own(s), text(&part.unwrap_or(Value::None))?);
    match strip(&s, &part) {
        Some(rest) => m.text(rest),
        None => Ok(Value::Str(s.clone())),
    }
}

/// Whether the text, from `start` to `end`, begins or ends with one of the given texts.
fn affix(m: &mut Machine, s: &Value, a: Arguments, name: &str, test: fn(&str, &str) -> bool) -> Done {
    let [part, start, end] = a.bind(name, ["part", "start", "end"], 1)?;
    let part = part.unwrap_or(Value::None);
    let mut within = own(s);
    if start.is_some() || end.is_some() {
        m.spend_bytes(within.len())?;
        within = slice_text(&within, [bound(start)?, bound(end)?, None]).into();
    }
    let parts = match &part {
        Value::Sequence(Kind::Tuple, _) => m.items(&part)?,
        Value::Str(_) => vec![part],
        Value::Undefined(why) => return Fault::values(why.to_string()),
        other => return Fault::values(format!("{name} first arg must be str or a tuple of str, not {}", other.type_name())),
    };
    for part in parts {
        let part = text(&part)?;
        m.spend_bytes(part.len())?;
        if test(&within, &part) {
            return Ok(true.into());
        }
    }
    Ok(false.into())
}

fn bound(value: Option<Value>) -> Result<Option<i128>, Fault> {
    value.filter(|value| !matches!(value, Value::None)).as_ref().map(super::arguments::integer).transpose()
}

/// The text from `start` to `end`, what is looked for in it, and where `start` is, unless that is behind the text.
fn searched(m: &mut Machine, s: &Value, a: Arguments, name: &str) -> Result<(Arc<str>, Arc<str>, Option<usize>), Fault> {
    let [part, start, end] = a.bind(name, ["part", "start", "end"], 1)?;
    let (s, part) = (own(s), text(&part.unwrap_or(Value::None))?);
    m.spend_bytes(s.len())?;
    if start.is_none() && end.is_none() {
        return Ok((s, part, Some(0)));
    }
    let (start, end) = (bound(start)?, bound(end)?);
    let count = s.chars().count();
    let before = count - slice_text(&s, [start, None, None]).chars().count();
    let is_behind = start.is_some_and(|start| start > count as i128);
    Ok((slice_text(&s, [start, end, None]).into(), part, (!is_behind).then_some(before)))
}

fn found(m: &mut Machine, s: &Value, a: Arguments, name: &str, find: fn(&str, &str) -> Option<usize>, needed: bool) -> Done {
    let (within, part, before) = searched(m, s, a, name)?;
    match before.zip(find(&within, &part)) {
        Some((before, at)) => Ok((before + within[..at].chars().count()).into()),
        None if needed => Fault::values("substring not found"),
        None => Ok(Value::Int(-1)),
    }
}

fn padded(m: &mut Machine, s: &Value, a: Arguments, name: &str, sides: fn(usize) -> (usize, usize)) -> Done {
    let [width, fill] = a.bind(name, ["width", "fillchar"], 1)?;
    let width = usize::try_from(integer_or(width.as_ref(), 0)?.max(0)).unwrap_or(usize::MAX);
    let fill = fill.as_ref().map_or_else(|| Ok(" ".into()), text)?;
    if fill.chars().count() != 1 {
        return Fault::values("The fill character must be exactly one character long");
    }
    let s = own(s);
    let left = width.saturating_sub(s.chars().count());
    m.spend_bytes(s.len().saturating_add(left.saturating_mul(fill.len())))?;
    let (before, after) = sides(left);
    // Python puts the odd one before a text of even width, and after one of odd width.
    let (before, after) = if name == "center" && left % 2 == 1 && width % 2 == 1 { (after, before) } else { (before, after) };
    m.text(format!("{}{s}{}", fill.repeat(before), fill.repeat(after)))
}

fn zfill(m: &mut Machine, s: &Value, a: Arguments) -> Done {
    let [width] = a.bind("zfill", ["width"], 1)?;
    let width = usize::try_from(integer_or(width.as_ref(), 0)?.max(0)).unwrap_or(usize::MAX);
    let s = own(s);
    let left = width.saturating_sub(s.chars().count());
    m.spend_bytes(s.len().saturating_add(left))?;
    let (sign, digits) = s.split_at(usize::from(s.starts_with(['+', '-'])));
    m.text(format!("{sign}{}{digits}", "0".repeat(left)))
}

/// `old` as `new`, at most `count` times; all if it is negative.
pub(super) fn replaced(m: &mut Machine, s: &str, old: &str, new: &str, count: i128) -> Done {
    let most = usize::try_from(count).unwrap_or(usize::MAX);
    m.spend_bytes(s.len())?;
    let times = if old.is_empty() { s.chars().count() + 1 } else { s.matches(old).count() }.min(most);
    m.spend_bytes(times.saturating_mul(new.len()))?;
    m.text(s.replacen(old, new, most))
}

fn parted(m: &mut Machine, s: &Value, a: Arguments, name: &str) -> Done {
    let [separator] = a.bind(name, ["sep"], 1)?;
    let (s, separator) = (own(s), text(&separator.unwrap_or(Value::None))?);
    if separator.is_empty() {
        return Fault::values("empty separator");
    }
    m.spend_bytes(s.len())?;
    let parts = match name {
        "partition" => s.split_once(&*separator).map_or([&*s, "", ""], |(before, after)| [before, &*separator, after]),
        _ => s.rsplit_once(&*separator).map_or(["", "", &*s], |(before, after)| [before, &*separator, after]),
    };
    m.sequence(Kind::Tuple, parts.map(Value::from).to_vec())
}

fn split(m: &mut Machine, s: &Value, a: Arguments, name: &str) -> Done {
    let [separator, most] = a.bind(name, ["sep", "maxsplit"], 0)?;
    let pieces = usize::try_from(integer_or(most.as_ref(), -1)?).map_or(usize::MAX, |most| most.saturating_add(1));
    let s = own(s);
    m.spend_bytes(s.len())?;
    let from_end = name == "rsplit";
    let mut parts: Vec<Value> = match separator.filter(|separator| !matches!(separator, Value::None)) {
        Some(separator) => {
            let separator = text(&separator)?;
            if separator.is_empty() {
                return Fault::values("empty separator");
            }
            m.spend(s.matches(&*separator).count().min(pieces))?;
            match from_end {
                true => s.rsplitn(pieces, &*separator).map(Value::from).collect(),
                false => s.splitn(pieces, &*separator).map(Value::from).collect(),
            }
        }
        None => {
            m.spend(s.chars().filter(|c| is_space(*c)).count().min(pieces))?;
            words(&s, pieces, from_end)
        }
    };
    if from_end {
        parts.reverse();
    }
    m.list(parts)
}

/// Words between white space, the last of `pieces` with all that is left.
fn words(text: &str, pieces: usize, from_end: bool) -> Vec<Value> {
    let trim = |text| if from_end { trimmed(text, None, (false, true)) } else { trimmed(text, None, (true, false)) };
    let (mut rest, mut words) = (trim(text), Vec::new());
    while !rest.is_empty() {
        let end = if from_end { rest.char_indices().rfind(|(_, c)| is_space(*c)) } else { rest.char_indices().find(|(_, c)| is_space(*c)) };
        let (word, after) = match end.filter(|_| words.len() + 1 < pieces) {
            Some((at, c)) if from_end => (&rest[at + c.len_utf8()..], &rest[..at]),
            Some((at, _)) => (&rest[..at], &rest[at..]),
            None => (rest, ""),
        };
        words.push(word.into());
        rest = trim(after);
    }
    words
}

/// The lines of a text, without what ends them.
pub(super) fn lines(text: &str, keep_ends: bool) -> Vec<&str> {
    let (mut rest, mut lines) = (text, Vec::new());
    while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_line_end(*c)) {
        let after = at + if rest[at..].starts_with("\r\n") { 2 } else { c.len_utf8() };
        lines.push(&rest[..if keep_ends { after } else { at }]);
        rest = &rest[after..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

fn splitlines(m: &mut Machine, s: &Value, a: Arguments) -> Done {
    let [keep] = a.bind("splitlines", ["keepends"], 0)?;
    let keep = keep.is_some_and(|keep| m.is_true(&keep));
    let s = own(s);
    m.spend_bytes(s.len())?;
    m.spend(s.chars().filter(|c| is_line_end(*c)).count())?;
    m.list(lines(&s, keep).into_iter().map(Value::from).collect())
}

fn join(m: &mut Machine, s: &Value, a: Arguments) -> Done {
    let [over] = a.bind("join", ["iterable"], 1)?;
    let separator = own(s);
    let mut out = String::new();
    for (i, item) in m.items(&over.unwrap_or(Value::None))?.into_iter().enumerate() {
        let Value::Str(item) = &item else {
            return Fault::values(format!("sequence item {i}: expected str instance, {} found", item.type_name()));
        };
        m.spend_bytes(separator.len() + item.len())?;
        out.push_str(if i > 0 { &separator } else { "" });
        out.push_str(item);
    }
    m.text(out)
}
