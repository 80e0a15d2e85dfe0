//! The methods of lists, tuples, dictionaries and loops.

use super::access::place;
use super::arguments::{Arguments, integer, integer_or};
use super::fault::Fault;
use super::machine::Machine;
use super::value::{Dict, Id, Key, Kind, Table, Value};

type Done = Result<Value, Fault>;

pub(super) const LIST_METHODS: Table = &[
    ("append", |m, list, a| {
        let [item] = a.bind("append", ["item"], 1)?;
        m.spend_items(1)?;
        m.heap.sequence_mut(at(list)?).extend(item);
        Ok(Value::None)
    }),
    ("clear", |m, list, a| {
        let [] = a.bind("clear", [], 0)?;
        m.heap.sequence_mut(at(list)?).clear();
        Ok(Value::None)
    }),
    ("copy", |m, list, a| {
        let [] = a.bind("copy", [], 0)?;
        let items = m.items(list)?;
        m.list(items)
    }),
    ("count", count),
    ("extend", |m, list, a| {
        let [more] = a.bind("extend", ["iterable"], 1)?;
        let more = m.items(&more.unwrap_or(Value::None))?;
        m.spend_items(more.len())?;
        m.heap.sequence_mut(at(list)?).extend(more);
        Ok(Value::None)
    }),
    ("index", index),
    ("insert", |m, list, a| {
        let [index, item] = a.bind("insert", ["index", "item"], 2)?;
        let (id, index) = (at(list)?, integer_or(index.as_ref(), 0)?);
        let len = m.heap.sequence(id).len();
        m.spend_items(len)?;
        let place = if index < 0 { place(index, len).unwrap_or(0) } else { usize::try_from(index).unwrap_or(len).min(len) };
        m.heap.sequence_mut(id).insert(place, item.unwrap_or(Value::None));
        Ok(Value::None)
    }),
    ("pop", |m, list, a| {
        let [index] = a.bind("pop", ["index"], 0)?;
        let (id, index) = (at(list)?, integer_or(index.as_ref(), -1)?);
        let len = m.heap.sequence(id).len();
        m.spend_items(len)?;
        match place(index, len) {
            Some(i) => Ok(m.heap.sequence_mut(id).remove(i)),
            None => Fault::values(if len == 0 { "pop from empty list" } else { "pop index out of range" }),
        }
    }),
    ("remove", |m, list, a| {
        let [item] = a.bind("remove", ["item"], 1)?;
        match position(m, list, &item.unwrap_or(Value::None))? {
            Some(i) => {
                m.heap.sequence_mut(at(list)?).remove(i);
                Ok(Value::None)
            }
            None => Fault::values("list.remove(x): x not in list"),
        }
    }),
    ("reverse", |m, list, a| {
        let [] = a.bind("reverse", [], 0)?;
        m.spend_items(m.heap.sequence(at(list)?).len())?;
        m.heap.sequence_mut(at(list)?).reverse();
        Ok(Value::None)
    }),
    ("sort", |m, list, mut a| {
        let reverse = a.take("reverse").is_some_and(|reverse| m.is_true(&reverse));
        let [] = a.bind("sort", [], 0)?;
        let items = m.items(list)?;
        let sorted = m.sorted(items.iter().cloned().zip(items.clone()).collect(), reverse)?;
        *m.heap.sequence_mut(at(list)?) = sorted;
        Ok(Value::None)
    }),
];

pub(super) const TUPLE_METHODS: Table = &[("count", count), ("index", index)];

pub(super) const DICT_METHODS: Table = &[
    ("clear", |m, dict, a| {
        let [] = a.bind("clear", [], 0)?;
        m.heap.dict_mut(at(dict)?).clear();
        Ok(Value::None)
    }),
    ("copy", |m, dict, a| {
        let [] = a.bind("copy", [], 0)?;
        m.spend_items(m.heap.dict(at(dict)?).len() * 3)?;
        let copy = m.heap.dict(at(dict)?).clone();
        m.dict(copy)
    }),
    ("get", |m, dict, a| {
        let [key, default] = a.bind("get", ["key", "default"], 1)?;
        let found = m.found(at(dict)?, &key.unwrap_or(Value::None))?;
        Ok(found.or(default).unwrap_or(Value::None))
    }),
    ("items", |m, dict, a| {
        let [] = a.bind("items", [], 0)?;
        pairs(m, dict, Kind::Items)
    }),
    ("keys", |m, dict, a| {
        let [] = a.bind("keys", [], 0)?;
        let keys = m.items(dict)?;
        m.sequence(Kind::Keys, keys)
    }),
    ("pop", |m, dict, a| {
        let [key, default] = a.bind("pop", ["key", "default"], 1)?;
        let key = m.key(&key.unwrap_or(Value::None))?;
        m.spend_items(m.heap.dict(at(dict)?).len())?;
        match m.heap.dict_mut(at(dict)?).shift_remove(&key).or(default) {
            Some(value) => Ok(value),
            None => missing_key(m, &key),
        }
    }),
    ("popitem", |m, dict, a| {
        let [] = a.bind("popitem", [], 0)?;
        match m.heap.dict_mut(at(dict)?).pop() {
            Some((key, value)) => m.sequence(Kind::Tuple, vec![key.value().clone(), value]),
            None => Fault::values("'popitem(): dictionary is empty'"),
        }
    }),
    ("setdefault", |m, dict, a| {
        let [key, default] = a.bind("setdefault", ["key", "default"], 1)?;
        m.spend_items(3)?;
        let key = m.key(&key.unwrap_or(Value::None))?;
        Ok(m.heap.dict_mut(at(dict)?).entry(key).or_insert(default.unwrap_or(Value::None)).clone())
    }),
    ("update", |m, dict, a| {
        let more = merged(m, "update", a)?;
        m.spend_items(more.len() * 3)?;
        m.heap.dict_mut(at(dict)?).extend(more);
        Ok(Value::None)
    }),
    ("values", |m, dict, a| {
        let [] = a.bind("values", [], 0)?;
        m.spend_items(m.heap.dict(at(dict)?).len())?;
        let values = m.heap.dict(at(dict)?).values().cloned().collect();
        m.sequence(Kind::Values, values)
    }),
];

pub(super) const LOOP_METHODS: Table = &[
    ("changed", |m, state, a| {
        let id = at(state)?;
        let same = match m.heap.loop_at(id).seen.clone() {
            Some(seen) if seen.len() == a.positional.len() => {
                let mut same = true;
                for (old, new) in seen.iter().zip(&a.positional) {
                    same = same && m.equal(old, new, 0)?;
                }
                same
            }
            _ => false,
        };
        m.heap.loop_mut(id).seen = Some(a.positional);
        Ok((!same).into())
    }),
    ("cycle", |m, state, a| {
        let index = m.heap.loop_at(at(state)?).index;
        match index.checked_rem(a.positional.len()) {
            Some(i) => Ok(a.positional[i].clone()),
            None => Fault::values("no items for cycling given"),
        }
    }),
];

/// Where the value that a method is called on lies.
fn at(value: &Value) -> Result<Id, Fault> {
    match value {
        Value::Sequence(_, id) | Value::Dict(id) | Value::Loop(id) => Ok(*id),
        other => Fault::values(format!("'{}' object has no such method", other.type_name())),
    }
}

fn missing_key(m: &mut Machine, key: &Key) -> Done {
    let key = m.repr_of(key.value())?;
    Fault::values(format!("no key {key}"))
}

/// The pairs of a dictionary, as tuples.
pub(super) fn pairs(m: &mut Machine, dict: &Value, kind: Kind) -> Done {
    let id = at(dict)?;
    let count = m.heap.dict(id).len();
    m.spend_items(count * 2)?;
    let mut pairs = Vec::with_capacity(count);
    for i in 0..count {
        let Some((key, value)) = m.heap.dict(id).get_index(i) else { break };
        let pair = vec![key.value().clone(), value.clone()];
        pairs.push(m.sequence(Kind::Tuple, pair)?);
    }
    m.sequence(kind, pairs)
}

/// What `dict(...)` makes of its arguments: a dictionary or pairs, and what is named.
pub(super) fn merged(m: &mut Machine, function: &str, mut a: Arguments) -> Result<Dict, Fault> {
    let named = std::mem::take(&mut a.named);
    let [first] = a.bind(function, ["iterable"], 0)?;
    let mut dict = match &first {
        None => Dict::new(),
        Some(Value::Dict(id) | Value::Namespace(id)) => {
            m.spend_items(m.heap.dict(*id).len() * 3)?;
            m.heap.dict(*id).clone()
        }
        Some(other) => {
            let mut dict = Dict::new();
            for pair in m.items(other)? {
                let Ok([key, value]) = <[Value; 2]>::try_from(m.items(&pair)?) else {
                    return Fault::values("dictionary update sequence elements should have length 2");
                };
                dict.insert(m.key(&key)?, value);
            }
            dict
        }
    };
    dict.extend(named.into_iter().map(|(name, value)| (Key::from(&name), value)));
    Ok(dict)
}

fn position(m: &mut Machine, list: &Value, item: &Value) -> Result<Option<usize>, Fault> {
    for (i, own) in m.items(list)?.iter().enumerate() {
        if m.equal(own, item, 0)? {
            return Ok(Some(i));
        }
    }
    Ok(None)
}

fn count(m: &mut Machine, list: &Value, a: Arguments) -> Done {
    let [item] = a.bind("count", ["item"], 1)?;
    let (item, mut count) = (item.unwrap_or(Value::None), 0usize);
    for own in m.items(list)? {
        count += usize::from(m.equal(&own, &item, 0)?);
    }
    Ok(count.into())
}

fn index(m: &mut Machine, list: &Value, a: Arguments) -> Done {
    let [item, start] = a.bind("index", ["item", "start"], 1)?;
    let start = start.as_ref().map_or(Ok(0), integer)?;
    let item = item.unwrap_or(Value::None);
    let items = m.items(list)?;
    let start = if start < 0 { place(start, items.len()).unwrap_or(0) } else { usize::try_from(start).unwrap_or(usize::MAX) };
    for (i, own) in items.iter().enumerate().skip(start) {
        if m.equal(own, &item, 0)? {
            return Ok(i.into());
        }
    }
    let item = m.repr_of(&item)?;
    Fault::values(format!("{item} is not in {}", list.type_name()))
}
