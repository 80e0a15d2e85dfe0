//! Filters on what holds items: choosing, ordering, grouping.

use super::arguments::{Arguments, integer, integer_or, text};
use super::ast::Operator;
use super::containers::pairs;
use super::fault::Fault;
use super::machine::Machine;
use super::operators::binary;
use super::value::{Kind, Missing, Value};
use std::cmp::Ordering;

type Done = Result<Value, Fault>;

impl Machine {
    /// The values of pairs in the order of the keys; equal ones stay as they are.
    pub(super) fn sorted(&mut self, mut pairs: Vec<(Value, Value)>, reverse: bool) -> Result<Vec<Value>, Fault> {
        // A merge sort, as comparisons can fail.
        let count = pairs.len();
        self.spend_items(count * 2)?;
        let mut width = 1;
        while width < count {
            let mut merged = Vec::with_capacity(count);
            for chunk in pairs.chunks(width * 2) {
                let (mut left, mut right) = chunk.split_at(width.min(chunk.len()));
                while let (Some((a, _)), Some((b, _))) = (left.first(), right.first()) {
                    let order = self.order(b, a, "<", 0)?;
                    let takes_right = order == Some(if reverse { Ordering::Greater } else { Ordering::Less });
                    let side = if takes_right { &mut right } else { &mut left };
                    merged.push(side[0].clone());
                    *side = &side[1..];
                }
                merged.extend_from_slice(left);
                merged.extend_from_slice(right);
            }
            pairs = merged;
            width *= 2;
        }
        Ok(pairs.into_iter().map(|(_, value)| value).collect())
    }

    /// The value of an attribute such as `a.b.0`, looked up as items.
    fn attribute_of(&mut self, item: &Value, attribute: &Value, default: Option<&Value>) -> Done {
        let parts: Vec<Value> = match attribute {
            Value::Str(path) => path
                .split('.')
                .map(|part| {
                    if part.bytes().all(|b| b.is_ascii_digit()) {
                        part.parse().map_or_else(|_| part.into(), Value::Int)
                    } else {
                        part.into()
                    }
                })
                .collect(),
            other => vec![other.clone()],
        };
        let mut value = item.clone();
        for part in parts {
            value = self.item(&value, &part)?;
            if let (true, Some(default)) = (value.is_undefined(), default) {
                value = default.clone();
            }
        }
        Ok(value)
    }

    /// What an item is compared by: an attribute if one is given, and small letters if case does not count.
    fn key_of(&mut self, item: &Value, attribute: Option<&Value>, case_sensitive: bool) -> Done {
        let value = match attribute {
            Some(attribute) => self.attribute_of(item, attribute, None)?,
            None => item.clone(),
        };
        match &value {
            Value::Str(text) if !case_sensitive => self.text(text.to_lowercase()),
            _ => Ok(value),
        }
    }

    fn is_set(&self, value: Option<&Value>) -> bool {
        value.is_some_and(|value| self.is_true(value))
    }
}

fn given(value: Option<Value>) -> Option<Value> {
    value.filter(|value| !matches!(value, Value::None))
}

pub(super) fn sort(m: &mut Machine, value: &Value, a: Arguments) -> Done {
    let [reverse, case, attribute] = a.bind("sort", ["reverse", "case_sensitive", "attribute"], 0)?;
    let (reverse, case) = (m.is_set(reverse.as_ref()), m.is_set(case.as_ref()));
    let mut keyed = Vec::new();
    for item in m.items(value)? {
        // Several attributes have commas between them.
        let key = match given(attribute.clone()) {
            Some(Value::Str(several)) if several.contains(',') => {
                let keys = several.split(',').map(|one| m.key_of(&item, Some(&one.into()), case)).collect::<Result<_, _>>()?;
                m.list(keys)?
            }
            one => m.key_of(&item, one.as_ref(), case)?,
        };
        keyed.push((key, item));
    }
    let sorted = m.sorted(keyed, reverse)?;
    m.list(sorted)
}

pub(super) fn dictsort(m: &mut Machine, value: &Value, a: Arguments) -> Done {
    let [case, by, reverse] = a.bind("dictsort", ["case_sensitive", "by", "reverse"], 0)?;
    let (case, reverse) = (m.is_set(case.as_ref()), m.is_set(reverse.as_ref()));
    let at = match by {
        None => 0,
        Some(Value::Str(by)) if &*by == "key" => 0,
        Some(Value::Str(by)) if &*by == "value" => 1,
        Some(_) => return Fault::values("You can only sort by either \"key\" or \"value\""),
    };
    let Value::Dict(_) = value else { return Fault::values(format!("'{}' object has no attribute 'items'", value.type_name())) };
    let both = pairs(m, value, Kind::Items)?;
    let mut keyed = Vec::new();
    for pair in m.items(&both)? {
        keyed.push((m.key_of(&pair, Some(&Value::Int(at)), case)?, pair));
    }
    let sorted = m.sorted(keyed, reverse)?;
    m.list(sorted)
}

/// The item that comes first, or last, in order.
pub(super) fn extreme(m: &mut Machine, value: &Value, a: Arguments, wanted: Ordering) -> Done {
    let [case, attribute] = a.bind("min/max", ["case_sensitive", "attribute"], 0)?;
    let (case, attribute) = (m.is_set(case.as_ref()), given(attribute));
    let mut best: Option<(Value, Value)> = None;
    for item in m.items(value)? {
        let key = m.key_of(&item, attribute.as_ref(), case)?;
        let is_better = match &best {
            Some((best, _)) => m.order(&key, best, "<", 0)? == Some(wanted),
            None => true,
        };
        if is_better {
            best = Some((key, item));
        }
    }
    Ok(best.map_or_else(|| Value::undefined(Missing::Other("No aggregated item, sequence was empty.")), |(_, item)| item))
}

pub(super) fn unique(m: &mut Machine, value: &Value, a: Arguments) -> Done {
    let [case, attribute] = a.bind("unique", ["case_sensitive", "attribute"], 0)?;
    let (case, attribute) = (m.is_set(case.as_ref()), given(attribute));
    let (mut seen, mut kept) = (Vec::<Value>::new(), Vec::new());
    'items: for item in m.items(value)? {
        let key = m.key_of(&item, attribute.as_ref(), case)?;
        if matches!(key, Value::Dict(_) | Value::Sequence(Kind::List, _)) {
            return Fault::values(format!("unhashable type: '{}'", key.type_name()));
        }
        for other in &seen {
            if m.equal(other, &key, 0)? {
                continue 'items;
            }
        }
        seen.push(key);
        kept.push(item);
    }
    m.sequence(Kind::Generator, kept)
}

pub(super) fn groupby(m: &mut Machine, value: &Value, a: Arguments) -> Done {
    let [attribute, default, case] = a.bind("groupby", ["attribute", "default", "case_sensitive"], 1)?;
    let (attribute, default, case) = (attribute.unwrap_or(Value::None), given(default), m.is_set(case.as_ref()));
    let mut keyed = Vec::new();
    for item in m.items(value)? {
        let name = m.attribute_of(&item, &attribute, default.as_ref())?;
        let key = m.key_of(&name, None, case)?;
        let entry = m.sequence(Kind::Tuple, vec![key.clone(), name, item])?;
        keyed.push((key, entry));
    }
    let (mut groups, mut last) = (Vec::<(Value, Vec<Value>)>::new(), None);
    for entry in m.sorted(keyed, false)? {
        let Ok([key, name, item]) = <[Value; 3]>::try_from(m.items(&entry)?) else { continue };
        let goes_on = match &last {
            Some(last) => m.equal(last, &key, 0)?,
            None => false,
        };
        match groups.last_mut() {
            Some((_, items)) if goes_on => items.push(item),
            _ => groups.push((name, vec![item])),
        }
        last = Some(key);
    }
    let mut out = Vec::new();
    for (name, items) in groups {
        let items = m.list(items)?;
        out.push(m.sequence(Kind::Group, vec![name, items])?);
    }
    m.list(out)
}

pub(super) fn sum(m: &mut Machine, value: &Value, a: Arguments) -> Done {
    let [attribute, start] = a.bind("sum", ["attribute", "start"], 0)?;
    let attribute = given(attribute);
    let mut total = start.unwrap_or(Value::Int(0));
    for item in m.items(value)? {
        let item = match &attribute {
            Some(attribute) => m.attribute_of(&item, attribute, None)?,
            None => item,
        };
        total = binary(m, Operator::Add, &total, &item)?;
    }
    Ok(total)
}

pub(super) fn join(m: &mut Machine, value: &Value, a: Arguments) -> Done {
    let [separator, attribute] = a.bind("join", ["d", "attribute"], 0)?;
    let separator = separator.map_or_else(|| Ok("".into()), |separator| m.str_of(&separator))?;
    let attribute = given(attribute);
    let mut out = String::new();
    for (i, item) in m.items(value)?.into_iter().enumerate() {
        let item = match &attribute {
            Some(attribute) => m.attribute_of(&item, attribute, None)?,
            None => item,
        };
        let item = m.str_of(&item)?;
        m.spend_bytes(separator.len() + item.len())?;
        out.push_str(if i > 0 { &separator } else { "" });
        out.push_str(&item);
    }
    m.text(out)
}

/// What `map` and `select` go through: nothing, not even an error, for what is not true.
fn items_if_any(m: &mut Machine, value: &Value) -> Result<Vec<Value>, Fault> {
    if m.is_true(value) { m.items(value) } else { Ok(Vec::new()) }
}

pub(super) fn map(m: &mut Machine, value: &Value, mut a: Arguments) -> Done {
    let mut out = Vec::new();
    let filter = a.shift();
    let attribute = if filter.is_none() { a.take("attribute") } else { None };
    match (filter, attribute) {
        (Some(filter), _) => {
            let name = text(&filter)?;
            for item in items_if_any(m, value)? {
                let arguments = Arguments { positional: a.positional.clone(), named: a.named.clone() };
                m.spend_items(a.positional.len() + a.named.len())?;
                out.push(m.filter(&name, &item, arguments)?);
            }
        }
        (None, Some(attribute)) => {
            let default = a.take("default");
            let [] = a.bind("map", [], 0)?;
            for item in items_if_any(m, value)? {
                out.push(m.attribute_of(&item, &attribute, default.as_ref())?);
            }
        }
        (None, None) => return Fault::values("map requires a filter argument"),
    }
    m.sequence(Kind::Generator, out)
}

/// Items of which a test of the item, or of an attribute of it, comes out as `wanted`.
pub(super) fn choose(m: &mut Machine, value: &Value, mut a: Arguments, by_attribute: bool, wanted: bool) -> Done {
    let attribute = if by_attribute { a.shift() } else { None };
    if by_attribute && attribute.is_none() {
        return Fault::values("Missing parameter for attribute name");
    }
    let test = a.shift().as_ref().map(text).transpose()?;
    let mut kept = Vec::new();
    for item in items_if_any(m, value)? {
        let looked_at = match &attribute {
            Some(attribute) => m.attribute_of(&item, attribute, None)?,
            None => item.clone(),
        };
        m.spend_items(a.positional.len() + a.named.len())?;
        let holds = match &test {
            Some(test) => m.test(test, &looked_at, Arguments { positional: a.positional.clone(), named: a.named.clone() })?,
            None => m.is_true(&looked_at),
        };
        if holds == wanted {
            kept.push(item);
        }
    }
    m.sequence(Kind::Generator, kept)
}

pub(super) fn batch(m: &mut Machine, value: &Value, a: Arguments) -> Done {
    let [count, fill] = a.bind("batch", ["linecount", "fill_with"], 1)?;
    let count = integer(&count.unwrap_or(Value::None))?;
    let Some(count) = usize::try_from(count).ok().filter(|n| *n > 0) else { return Fault::values("`linecount` should be positive") };
    let (items, fill) = (m.items(value)?, given(fill));
    let mut rows = Vec::new();
    for row in items.chunks(count) {
        let mut row = row.to_vec();
        if let Some(fill) = &fill {
            m.spend_items(count)?;
            row.resize(count, fill.clone());
        }
        rows.push(m.list(row)?);
    }
    m.sequence(Kind::Generator, rows)
}

pub(super) fn slice(m: &mut Machine, value: &Value, a: Arguments) -> Done {
    let [slices, fill] = a.bind("slice", ["slices", "fill_with"], 1)?;
    let slices = integer(&slices.unwrap_or(Value::None))?;
    let Some(slices) = usize::try_from(slices).ok().filter(|n| *n > 0) else { return Fault::values("`slices` should be positive") };
    m.spend_items(slices)?;
    let (items, fill) = (m.items(value)?, given(fill));
    let (each, more) = (items.len() / slices, items.len() % slices);
    let (mut rows, mut at) = (Vec::new(), 0);
    for i in 0..slices {
        let end = at + each + usize::from(i < more);
        let mut row = items[at..end].to_vec();
        row.extend(fill.clone().filter(|_| i >= more && more > 0));
        rows.push(m.list(row)?);
        at = end;
    }
    m.sequence(Kind::Generator, rows)
}

pub(super) fn first(m: &mut Machine, value: &Value, a: Arguments) -> Done {
    let [] = a.bind("first", [], 0)?;
    let items = m.items(value)?;
    Ok(items.into_iter().next().unwrap_or_else(|| Value::undefined(Missing::Other("No first item, sequence was empty."))))
}

pub(super) fn last(m: &mut Machine, value: &Value, a: Arguments) -> Done {
    let [] = a.bind("last", [], 0)?;
    let items = m.items(value)?;
    Ok(items.into_iter().next_back().unwrap_or_else(|| Value::undefined(Missing::Other("No last item, sequence was empty."))))
}

pub(super) fn reverse(m: &mut Machine, value: &Value, a: Arguments) -> Done {
    let [] = a.bind("reverse", [], 0)?;
    if let Value::Str(text) = value {
        let text: String = text.chars().rev().collect();
        return m.text(text);
    }
    let mut items = m.items(value)?;
    items.reverse();
    m.sequence(Kind::Generator, items)
}

pub(super) fn round(m: &mut Machine, value: &Value, a: Arguments) -> Done {
    let [precision, method] = a.bind("round", ["precision", "method"], 0)?;
    let precision = integer_or(precision.as_ref(), 0)?.clamp(-400, 400) as i32;
    let method = method.as_ref().map_or_else(|| Ok("common".into()), text)?;
    let Some(number) = value.number() else {
        return Fault::values(format!("type {} doesn't define __round__ method", value.type_name()));
    };
    m.spend(1)?;
    let scale = 10f64.powi(precision);
    match (&*method, value) {
        ("common", Value::Int(_) | Value::Bool(_)) if precision >= 0 => integer(value).map(Value::Int),
        ("common", _) if precision >= 0 => {
            let rounded = format!("{:.*}", precision as usize, number.float()).parse().unwrap_or(f64::NAN);
            Ok(Value::Float(rounded))
        }
        ("common", Value::Float(n)) => Ok(Value::Float((n * scale).round_ties_even() / scale)),
        ("common", _) => Ok(Value::Int(((number.float() * scale).round_ties_even() / scale) as i128)),
        ("ceil", _) => Ok(Value::Float((number.float() * scale).ceil() / scale)),
        ("floor", _) => Ok(Value::Float((number.float() * scale).floor() / scale)),
        _ => Fault::values("method must be common, ceil or floor"),
    }
}

/// `default`, `d`.
pub(super) fn default(m: &mut Machine, value: &Value, a: Arguments) -> Done {
    let [default, boolean] = a.bind("default", ["default_value", "boolean"], 0)?;
    let replaces = value.is_undefined() || (m.is_set(boolean.as_ref()) && !m.is_true(value));
    Ok(if replaces { default.unwrap_or_else(|| "".into()) } else { value.clone() })
}

pub(super) fn items(m: &mut Machine, value: &Value, a: Arguments) -> Done {
    let [] = a.bind("items", [], 0)?;
    match value {
        Value::Undefined(_) => m.sequence(Kind::Generator, Vec::new()),
        Value::Dict(_) => pairs(m, value, Kind::Generator),
        _ => Fault::values("Can only get item pairs from a mapping."),
    }
}

pub(super) fn length(m: &mut Machine, value: &Value, a: Arguments) -> Done {
    let [] = a.bind("length", [], 0)?;
    match m.length(value)? {
        Some(length) => Ok(length.into()),
        None => Fault::values(format!("object of type '{}' has no len()", value.type_name())),
    }
}

pub(super) fn list(m: &mut Machine, value: &Value, a: Arguments) -> Done {
    let [] = a.bind("list", [], 0)?;
    let items = m.items(value)?;
    m.list(items)
}
