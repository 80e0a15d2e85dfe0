//! What renders: fuel, the heap, and scopes.

use super::fault::{Fault, Kind};
use super::value::{Dict, Heap, Id, Key, Missing, Scope, Value};
use super::{Template, globals, value};
use serde_json::{Map, Value as Json};
use std::sync::Arc;
use std::time::SystemTime;

/// What a rendering may cost: nodes of the tree, or 64 bytes each that are made or looked through. It bounds time (about a second) and
/// memory (256 MB). A thousand messages cost some hundred thousand.
pub(crate) const FUEL: u64 = 4_000_000;
/// Most expressions, blocks and calls within one another.
const DEPTH: usize = 400;
/// Most levels of a value that is printed, compared or ordered.
pub(super) const VALUE_DEPTH: usize = 200;

/// Renders one template once.
pub(crate) struct Machine {
    pub(super) heap: Heap,
    /// The time for `strftime_now`.
    pub(super) now: SystemTime,
    fuel: u64,
    depth: usize,
    /// What templates see as variables: globals, and around nothing.
    root: Id,
}

impl Machine {
    pub(crate) fn new(now: SystemTime) -> Self {
        let mut heap = Heap::default();
        let variables = globals::variables();
        let root = heap.add_scope(Scope { variables, outer: None });
        Self { heap, now, fuel: FUEL, depth: 0, root }
    }

    /// Sets a variable that the template sees.
    pub(crate) fn set(&mut self, name: &str, value: Value) {
        let variables = &mut self.heap.scope_mut(self.root).variables;
        variables.retain(|(n, _)| **n != *name);
        variables.push((name.into(), value));
    }

    /// A JSON value as templates see it. (Nesting is as deep as the JSON's, which its parser limits.)
    pub(crate) fn json(&mut self, json: &Json) -> Value {
        match json {
            Json::Null => Value::None,
            Json::Bool(yes) => Value::Bool(*yes),
            Json::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(integer), _) => Value::Int(integer.into()),
                (None, Some(integer)) => Value::Int(integer.into()),
                _ => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => text.as_str().into(),
            Json::Array(items) => {
                let items = items.iter().map(|item| self.json(item)).collect();
                Value::Sequence(value::Kind::List, self.heap.add_sequence(items))
            }
            Json::Object(fields) => self.object(fields),
        }
    }

    /// A JSON object; its fields stay in order.
    pub(crate) fn object(&mut self, fields: &Map<String, Json>) -> Value {
        let dict = fields.iter().map(|(name, field)| (Key::from(name.as_str()), self.json(field))).collect();
        Value::Dict(self.heap.add_dict(dict))
    }

    /// The text of a template.
    pub(crate) fn render(&mut self, template: &Template) -> Result<String, Fault> {
        let scope = self.scope(self.root)?;
        let mut out = String::new();
        self.body(&template.body, scope, &mut out)?;
        Ok(out)
    }

    /// Takes this much fuel.
    pub(super) fn spend(&mut self, steps: usize) -> Result<(), Fault> {
        match self.fuel.checked_sub(steps as u64) {
            Some(left) => {
                self.fuel = left;
                Ok(())
            }
            None => {
                self.fuel = 0;
                Fault::template(format!("it did more work than is allowed ({FUEL} steps), and was stopped"))
            }
        }
    }

    /// Takes fuel for bytes that are made or looked through.
    pub(super) fn spend_bytes(&mut self, bytes: usize) -> Result<(), Fault> {
        self.spend(bytes / 64 + 1)
    }

    /// Takes fuel for items that are copied, 32 bytes each.
    pub(super) fn spend_items(&mut self, items: usize) -> Result<(), Fault> {
        self.spend(items / 2 + 1)
    }

    /// Runs something one level deeper.
    pub(super) fn deeper<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        self.spend(1)?;
        if self.depth == DEPTH {
            return Fault::template(format!(
                "maximum recursion depth exceeded: more than {DEPTH} expressions, blocks and calls within one another"
            ));
        }
        self.depth += 1;
        let result = run(self);
        self.depth -= 1;
        result
    }

    /// An error for a value that is nested deeper than is looked at.
    pub(super) fn check_depth(depth: usize) -> Result<(), Fault> {
        if depth > VALUE_DEPTH { Err(Fault::new(Kind::Template, format!("a value has more than {VALUE_DEPTH} levels"))) } else { Ok(()) }
    }

    pub(super) fn text(&mut self, text: impl Into<Arc<str>> + AsRef<str>) -> Result<Value, Fault> {
        self.spend_bytes(text.as_ref().len())?;
        Ok(Value::Str(text.into()))
    }

    pub(super) fn sequence(&mut self, kind: value::Kind, items: Vec<Value>) -> Result<Value, Fault> {
        self.spend_items(items.len())?;
        Ok(Value::Sequence(kind, self.heap.add_sequence(items)))
    }

    pub(super) fn list(&mut self, items: Vec<Value>) -> Result<Value, Fault> {
        self.sequence(value::Kind::List, items)
    }

    pub(super) fn dict(&mut self, dict: Dict) -> Result<Value, Fault> {
        self.spend_items(dict.len() * 3)?;
        Ok(Value::Dict(self.heap.add_dict(dict)))
    }

    /// What a dictionary has under a key.
    pub(super) fn found(&mut self, dict: Id, key: &Value) -> Result<Option<Value>, Fault> {
        match key {
            // Python has keys of these kinds, too; ours are never such.
            Value::Undefined(_) => Ok(None),
            Value::Sequence(kind, _) if kind.is_tuple() => Ok(None),
            key => {
                let key = self.key(key)?;
                Ok(self.heap.dict(dict).get(&key).cloned())
            }
        }
    }

    /// A value as a key of dictionaries.
    pub(super) fn key(&mut self, value: &Value) -> Result<Key, Fault> {
        if let Value::Str(text) = value {
            self.spend(text.len() / 64)?;
        }
        Key::new(value)
    }

    /// A new scope within another; with its variables it takes some hundred bytes.
    pub(super) fn scope(&mut self, outer: Id) -> Result<Id, Fault> {
        self.spend(4)?;
        Ok(self.heap.add_scope(Scope { variables: Vec::new(), outer: Some(outer) }))
    }

    pub(super) fn look_up(&mut self, scope: Id, name: &Arc<str>) -> Result<Value, Fault> {
        let (mut scope, mut passed) = (self.heap.scope(scope), name.len());
        let value = loop {
            passed += scope.variables.len();
            if let Some((_, value)) = scope.variables.iter().find(|(n, _)| n == name) {
                break value.clone();
            }
            match scope.outer {
                Some(outer) => scope = self.heap.scope(outer),
                None => break Value::undefined(Missing::Name(name.clone())),
            }
        };
        self.spend(1 + passed / 64)?;
        Ok(value)
    }

    pub(super) fn assign(&mut self, scope: Id, name: &Arc<str>, value: Value) -> Result<(), Fault> {
        self.spend((name.len() + self.heap.scope(scope).variables.len()) / 64)?;
        let variables = &mut self.heap.scope_mut(scope).variables;
        match variables.iter_mut().find(|(n, _)| n == name) {
            Some((_, old)) => *old = value,
            None => variables.push((name.clone(), value)),
        }
        Ok(())
    }
}
