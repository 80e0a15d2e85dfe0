//! Attributes, items and slices of values, and what they hold.

use super::arguments::integer;
use super::fault::Fault;
use super::machine::Machine;
use super::value::{Function, Id, Key, Kind, Missing, Table, Value, find};
use super::{containers, strings};
use std::sync::Arc;

impl Machine {
    /// `value.name`: an attribute, or else an item.
    pub(super) fn attribute(&mut self, value: &Value, name: &Arc<str>) -> Result<Value, Fault> {
        if let Some(found) = self.own_attribute(value, name)? {
            return Ok(found);
        }
        self.spend(name.len() / 64)?;
        let item = match value {
            Value::Dict(id) => self.heap.dict(*id).get(&Key::from(name)).cloned(),
            _ => None,
        };
        Ok(item.unwrap_or_else(|| Value::undefined(Missing::Attribute(value.type_name(), name.clone()))))
    }

    /// An attribute in Python's sense.
    pub(super) fn own_attribute(&mut self, value: &Value, name: &str) -> Result<Option<Value>, Fault> {
        if let Value::Undefined(why) = value {
            return Fault::values(why.to_string());
        }
        // What Python's own machinery is reached by is hidden.
        if name.starts_with("__") {
            return Ok(None);
        }
        let methods: Table = match value {
            Value::Str(_) => strings::METHODS,
            Value::Dict(_) => containers::DICT_METHODS,
            Value::Sequence(Kind::List, _) => containers::LIST_METHODS,
            Value::Sequence(Kind::Group, id) if matches!(name, "grouper" | "list") => {
                return Ok(self.heap.sequence(*id).get(usize::from(name == "list")).cloned());
            }
            Value::Sequence(Kind::Tuple | Kind::Group | Kind::Range, _) => containers::TUPLE_METHODS,
            Value::Namespace(id) => return Ok(self.heap.dict(*id).get(&Key::from(name)).cloned()),
            Value::Loop(id) => return self.loop_attribute(*id, name),
            Value::Macro(id) if name == "name" => return Ok(Some(Value::Str(self.heap.closure(*id).definition.name.clone()))),
            _ => return Ok(None),
        };
        let method = find(methods, name);
        Ok(method.map(|(name, run)| Value::Function(Arc::new(Function { name, run, receiver: value.clone() }))))
    }

    fn loop_attribute(&mut self, id: Id, name: &str) -> Result<Option<Value>, Fault> {
        let state = self.heap.loop_at(id);
        let (index, count) = (state.index, state.items.len());
        let neighbour =
            |i: Option<usize>, why| i.and_then(|i| state.items.get(i)).cloned().unwrap_or(Value::undefined(Missing::Other(why)));
        Ok(Some(match name {
            "index" => (index + 1).into(),
            "index0" => index.into(),
            "revindex" => (count - index).into(),
            "revindex0" => (count - index - 1).into(),
            "first" => (index == 0).into(),
            "last" => (index + 1 == count).into(),
            "length" => count.into(),
            "depth" => (state.depth + 1).into(),
            "depth0" => state.depth.into(),
            "previtem" => neighbour(index.checked_sub(1), "there is no previous item"),
            "nextitem" => neighbour(Some(index + 1), "there is no next item"),
            _ => {
                let method = find(containers::LOOP_METHODS, name);
                return Ok(method.map(|(name, run)| Value::Function(Arc::new(Function { name, run, receiver: Value::Loop(id) }))));
            }
        }))
    }

    /// `value[index]`: an item, or else an attribute.
    pub(super) fn item(&mut self, value: &Value, index: &Value) -> Result<Value, Fault> {
        let found = match (value, index) {
            (Value::Undefined(why), _) => return Fault::values(why.to_string()),
            (Value::Dict(id), index) => self.found(*id, index).unwrap_or_default(),
            (Value::Sequence(kind, id), Value::Int(_) | Value::Bool(_)) if kind.is_tuple() || matches!(kind, Kind::List | Kind::Range) => {
                let items = self.heap.sequence(*id);
                place(integer(index)?, items.len()).map(|i| items[i].clone())
            }
            (Value::Str(text), Value::Int(_) | Value::Bool(_)) => {
                let i = integer(index)?;
                self.spend_bytes(text.len())?;
                let c = if i >= 0 { usize::try_from(i).ok().and_then(|i| text.chars().nth(i)) } else { from_end(text, i) };
                c.map(|c| Value::from(&*c.encode_utf8(&mut [0; 4])))
            }
            _ => None,
        };
        match (found, index) {
            (Some(found), _) => Ok(found),
            (None, Value::Str(name)) => {
                let attribute = self.own_attribute(value, name)?;
                Ok(attribute.unwrap_or_else(|| Value::undefined(Missing::Attribute(value.type_name(), name.clone()))))
            }
            (None, index) => {
                let index = self.repr_of(index)?;
                Ok(Value::undefined(Missing::Element(value.type_name(), index)))
            }
        }
    }

    /// `value[start:stop:step]`.
    pub(super) fn slice(&mut self, value: &Value, bounds: &[Option<Value>; 3]) -> Result<Value, Fault> {
        let mut numbers = [None; 3];
        for (number, bound) in numbers.iter_mut().zip(bounds) {
            match bound {
                None | Some(Value::None) => {}
                Some(Value::Int(_) | Value::Bool(_)) => *number = bound.as_ref().map(integer).transpose()?,
                Some(Value::Undefined(why)) => return Fault::values(why.to_string()),
                Some(_) => return Fault::values("slice indices must be integers or None or have an __index__ method"),
            }
        }
        if numbers[2] == Some(0) {
            return Fault::values("slice step cannot be zero");
        }
        match value {
            Value::Str(text) => {
                self.spend_bytes(text.len())?;
                let taken = slice_text(text, numbers);
                self.text(taken)
            }
            Value::Sequence(kind, id) if kind.is_tuple() || matches!(kind, Kind::List | Kind::Range) => {
                let indices = indices(self.heap.sequence(*id).len(), numbers);
                self.spend_items(indices.len())?;
                let items = self.heap.sequence(*id);
                let taken = indices.map(|i| items[i].clone()).collect();
                self.sequence(if *kind == Kind::Group { Kind::Tuple } else { *kind }, taken)
            }
            Value::Undefined(why) => Fault::values(why.to_string()),
            // Jinja2 takes it for an item that is not there.
            other => Ok(Value::undefined(Missing::Element(other.type_name(), "slice".into()))),
        }
    }

    /// All that a value gives one by one.
    pub(super) fn items(&mut self, value: &Value) -> Result<Vec<Value>, Fault> {
        let items = match value {
            Value::Sequence(Kind::Generator, id) => std::mem::take(self.heap.sequence_mut(*id)),
            Value::Sequence(_, id) => {
                self.spend_items(self.heap.sequence(*id).len())?;
                return Ok(self.heap.sequence(*id).clone());
            }
            Value::Dict(id) => {
                self.spend_items(self.heap.dict(*id).len())?;
                return Ok(self.heap.dict(*id).keys().map(|key| key.value().clone()).collect());
            }
            Value::Str(text) => {
                self.spend(text.len())?;
                text.chars().map(|c| Value::from(&*c.encode_utf8(&mut [0; 4]))).collect()
            }
            Value::Undefined(_) => Vec::new(),
            Value::Loop(id) => {
                let state = self.heap.loop_at(*id);
                state.items[(state.index + 1).min(state.items.len())..].to_vec()
            }
            other => return Fault::values(format!("'{}' object is not iterable", other.type_name())),
        };
        self.spend_items(items.len())?;
        Ok(items)
    }

    /// `len(value)`, if it has one.
    pub(super) fn length(&mut self, value: &Value) -> Result<Option<usize>, Fault> {
        Ok(match value {
            Value::Str(text) => {
                self.spend_bytes(text.len())?;
                Some(text.chars().count())
            }
            Value::Sequence(Kind::Generator, _) => None,
            Value::Sequence(_, id) => Some(self.heap.sequence(*id).len()),
            Value::Dict(id) => Some(self.heap.dict(*id).len()),
            Value::Loop(id) => Some(self.heap.loop_at(*id).items.len()),
            Value::Undefined(_) => Some(0),
            _ => None,
        })
    }
}

/// An index, counted from the end if it is negative, among `count`.
pub(super) fn place(index: i128, count: usize) -> Option<usize> {
    let index = if index < 0 { index + count as i128 } else { index };
    usize::try_from(index).ok().filter(|i| *i < count)
}

fn from_end(text: &str, index: i128) -> Option<char> {
    usize::try_from(index.checked_neg()? - 1).ok().and_then(|i| text.chars().nth_back(i))
}

/// The indices of a slice among `count`, as Python's `slice.indices`.
fn indices(count: usize, [start, stop, step]: [Option<i128>; 3]) -> impl ExactSizeIterator<Item = usize> {
    let (step, count) = (step.unwrap_or(1), count as i128);
    let (low, high) = if step < 0 { (-1, count - 1) } else { (0, count) };
    let bound = |bound: Option<i128>, default: i128| match bound {
        None => default,
        Some(n) if n < 0 => n.saturating_add(count).max(low),
        Some(n) => n.min(high),
    };
    let (start, stop) = if step < 0 { (bound(start, high), bound(stop, low)) } else { (bound(start, low), bound(stop, high)) };
    let span = if step < 0 { start - stop } else { stop - start };
    let number = if span > 0 { (span - 1) / step.saturating_abs() + 1 } else { 0 };
    // All of these lie between 0 and `count`.
    (0..number as usize).map(move |i| (start + i as i128 * step) as usize)
}

/// A slice of a text by its characters.
pub(super) fn slice_text(text: &str, bounds: [Option<i128>; 3]) -> String {
    if text.is_ascii() && matches!(bounds[2], None | Some(1)) {
        let taken = indices(text.len(), bounds);
        let (count, first) = (taken.len(), taken.into_iter().next().unwrap_or(0));
        return text[first..first + count].to_owned();
    }
    let chars: Vec<char> = text.chars().collect();
    indices(chars.len(), bounds).map(|i| chars[i]).collect()
}
