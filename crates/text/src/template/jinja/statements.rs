//! Runs statements.

use super::ast::{Body, Filters, For, Kind, Statement, Target};
use super::fault::Fault;
use super::machine::Machine;
use super::value::{Closure, Id, Key, Loop, Value};
use std::sync::Arc;

/// How a body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Through,
    Break,
    Continue,
}

impl Machine {
    /// Runs statements, and writes what they print.
    pub(super) fn body(&mut self, body: &[Statement], scope: Id, out: &mut String) -> Result<Flow, Fault> {
        for statement in body {
            match self.deeper(|m| m.statement(&statement.kind, scope, out)).map_err(|e| e.at(statement.line))? {
                Flow::Through => {}
                other => return Ok(other),
            }
        }
        Ok(Flow::Through)
    }

    fn write(&mut self, text: &str, out: &mut String) -> Result<(), Fault> {
        self.spend_bytes(text.len())?;
        out.push_str(text);
        Ok(())
    }

    fn statement(&mut self, kind: &Kind, scope: Id, out: &mut String) -> Result<Flow, Fault> {
        match kind {
            Kind::Text(text) => self.write(text, out)?,
            Kind::Print(value) => {
                let value = self.value(value, scope)?;
                let text = self.str_of(&value)?;
                self.write(&text, out)?;
            }
            Kind::If(branches, otherwise) => {
                for (condition, body) in branches {
                    let condition = self.value(condition, scope)?;
                    if self.is_true(&condition) {
                        return self.body(body, scope, out);
                    }
                }
                return self.body(otherwise, scope, out);
            }
            Kind::For(definition) => {
                let over = self.value(&definition.over, scope)?;
                self.run_loop(definition, &over, scope, 0, out)?;
            }
            Kind::Set(target, value) => {
                let value = self.value(value, scope)?;
                self.assign_to(target, value, scope)?;
            }
            Kind::SetBlock(target, filters, body) => {
                let value = self.captured(body, filters, scope)?;
                self.assign_to(target, value, scope)?;
            }
            Kind::With(values, body) => {
                let inner = self.scope(scope)?;
                for (target, value) in values {
                    let value = self.value(value, scope)?;
                    self.assign_to(target, value, inner)?;
                }
                return self.body(body, inner, out);
            }
            Kind::Scope(body) => {
                let inner = self.scope(scope)?;
                return self.body(body, inner, out);
            }
            Kind::Filter(filters, body) => {
                let value = self.captured(body, filters, scope)?;
                let text = self.str_of(&value)?;
                self.write(&text, out)?;
            }
            Kind::Macro(definition) => {
                let closure = Closure { definition: definition.clone(), scope };
                let value = Value::Macro(self.heap.add_macro(closure));
                self.assign(scope, &definition.name, value)?;
            }
            Kind::Call(call, body) => {
                let caller = Value::Macro(self.heap.add_macro(Closure { definition: body.clone(), scope }));
                let value = self.call_expression(call, Some(caller), scope)?;
                let text = self.str_of(&value)?;
                self.write(&text, out)?;
            }
            Kind::Break => return Ok(Flow::Break),
            Kind::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Through)
    }

    /// What a body prints, through filters.
    fn captured(&mut self, body: &Body, filters: &Filters, scope: Id) -> Result<Value, Fault> {
        let inner = self.scope(scope)?;
        let mut text = String::new();
        self.body(body, inner, &mut text)?;
        let mut value = self.text(text)?;
        for (name, arguments) in filters {
            let arguments = self.arguments(arguments, scope)?;
            value = self.filter(name, &value, arguments)?;
        }
        Ok(value)
    }

    pub(super) fn assign_to(&mut self, target: &Target, value: Value, scope: Id) -> Result<(), Fault> {
        match target {
            Target::Name(name) => self.assign(scope, name, value)?,
            Target::Attribute(name, attribute) => {
                let Value::Namespace(id) = self.look_up(scope, name)? else {
                    return Fault::values("cannot assign attribute on non-namespace object");
                };
                self.spend(3)?;
                self.heap.dict_mut(id).insert(Key::from(attribute), value);
            }
            Target::Tuple(targets) => {
                let items = self.items(&value)?;
                let (wanted, got) = (targets.len(), items.len());
                if got < wanted {
                    return Fault::values(format!("not enough values to unpack (expected {wanted}, got {got})"));
                }
                if got > wanted {
                    return Fault::values(format!("too many values to unpack (expected {wanted})"));
                }
                for (target, item) in targets.iter().zip(items) {
                    self.assign_to(target, item, scope)?;
                }
            }
        }
        Ok(())
    }

    /// Runs a loop over the items of a value. `scope` is what is around it.
    pub(super) fn run_loop(&mut self, definition: &Arc<For>, over: &Value, scope: Id, depth: usize, out: &mut String) -> Result<(), Fault> {
        let mut items = self.items(over)?;
        if let Some(condition) = &definition.condition {
            let mut kept = Vec::new();
            for item in items {
                let inner = self.scope(scope)?;
                self.assign_to(&definition.target, item.clone(), inner)?;
                let condition = self.value(condition, inner)?;
                if self.is_true(&condition) {
                    kept.push(item);
                }
            }
            items = kept;
        }
        let count = items.len();
        let state = Loop { definition: definition.clone(), scope, items, index: 0, depth, seen: None };
        let id = self.heap.add_loop(state);
        // As in Jinja2, a body that never came to its end counts as none.
        let mut completed = false;
        for index in 0..count {
            let inner = self.scope(scope)?;
            let state = self.heap.loop_mut(id);
            state.index = index;
            let item = state.items[index].clone();
            self.assign_to(&definition.target, item, inner)?;
            self.assign(inner, &"loop".into(), Value::Loop(id))?;
            match self.body(&definition.body, inner, out)? {
                Flow::Through => completed = true,
                Flow::Break => break,
                Flow::Continue => {}
            }
        }
        if !completed {
            let inner = self.scope(scope)?;
            self.body(&definition.otherwise, inner, out)?;
        }
        Ok(())
    }
}
