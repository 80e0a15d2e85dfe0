//! Comparisons, truth, and membership.

use super::ast::Comparison;
use super::fault::Fault;
use super::machine::Machine;
use super::value::{Kind, Value};
use std::cmp::Ordering;

impl Machine {
    pub(super) fn is_true(&self, value: &Value) -> bool {
        match value {
            Value::Undefined(_) | Value::None => false,
            Value::Bool(yes) => *yes,
            Value::Int(n) => *n != 0,
            Value::Float(n) => *n != 0.0,
            Value::Str(text) => !text.is_empty(),
            Value::Sequence(Kind::Generator, _) => true,
            Value::Sequence(_, id) => !self.heap.sequence(*id).is_empty(),
            Value::Dict(id) => !self.heap.dict(*id).is_empty(),
            Value::Loop(_) | Value::Namespace(_) | Value::Macro(_) | Value::Function(_) => true,
        }
    }

    pub(super) fn compare(&mut self, comparison: Comparison, left: &Value, right: &Value) -> Result<bool, Fault> {
        let sign = match comparison {
            Comparison::Equal => return self.equal(left, right, 0),
            Comparison::NotEqual => return Ok(!self.equal(left, right, 0)?),
            Comparison::In => return self.contains(right, left),
            Comparison::NotIn => return Ok(!self.contains(right, left)?),
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        };
        let order = self.order(left, right, sign, 0)?;
        Ok(match comparison {
            Comparison::Less => order == Some(Ordering::Less),
            Comparison::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Comparison::Greater => order == Some(Ordering::Greater),
            _ => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        })
    }

    pub(super) fn equal(&mut self, left: &Value, right: &Value, depth: usize) -> Result<bool, Fault> {
        self.spend(1)?;
        Self::check_depth(depth)?;
        if let (Some(left), Some(right)) = (left.number(), right.number()) {
            return Ok(left == right);
        }
        match (left, right) {
            (Value::Undefined(_), Value::Undefined(_)) | (Value::None, Value::None) => Ok(true),
            (Value::Str(a), Value::Str(b)) => {
                self.spend(a.len().min(b.len()) / 64)?;
                Ok(a == b)
            }
            (Value::Sequence(a, first), Value::Sequence(b, second)) if a == b || (a.is_tuple() && b.is_tuple()) => {
                if first == second {
                    return Ok(true);
                }
                let count = self.heap.sequence(*first).len();
                if *a == Kind::Generator || count != self.heap.sequence(*second).len() {
                    return Ok(false);
                }
                for i in 0..count {
                    let (a, b) = (self.heap.sequence(*first)[i].clone(), self.heap.sequence(*second)[i].clone());
                    if !self.equal(&a, &b, depth + 1)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (Value::Dict(a), Value::Dict(b)) => {
                let (a, b) = (*a, *b);
                if a == b {
                    return Ok(true);
                }
                if self.heap.dict(a).len() != self.heap.dict(b).len() {
                    return Ok(false);
                }
                self.spend_items(self.heap.dict(a).len())?;
                for (key, left) in self.heap.dict(a).clone() {
                    let Some(right) = self.heap.dict(b).get(&key).cloned() else { return Ok(false) };
                    if !self.equal(&left, &right, depth + 1)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => Ok(is_same(left, right)),
        }
    }

    /// The order of two values for the operator `sign`; none of numbers that are none.
    pub(super) fn order(&mut self, left: &Value, right: &Value, sign: &str, depth: usize) -> Result<Option<Ordering>, Fault> {
        self.spend(1)?;
        Self::check_depth(depth)?;
        if let (Some(left), Some(right)) = (left.number(), right.number()) {
            return Ok(left.partial_cmp(&right));
        }
        match (left, right) {
            (Value::Str(a), Value::Str(b)) => {
                self.spend(a.len().min(b.len()) / 64)?;
                Ok(Some(a.cmp(b)))
            }
            (Value::Sequence(a, first), Value::Sequence(b, second))
                if (*a == Kind::List && *b == Kind::List) || (a.is_tuple() && b.is_tuple()) =>
            {
                let counts = (self.heap.sequence(*first).len(), self.heap.sequence(*second).len());
                for i in 0..counts.0.min(counts.1) {
                    let (a, b) = (self.heap.sequence(*first)[i].clone(), self.heap.sequence(*second)[i].clone());
                    if !self.equal(&a, &b, depth + 1)? {
                        return self.order(&a, &b, sign, depth + 1);
                    }
                }
                Ok(Some(counts.0.cmp(&counts.1)))
            }
            (Value::Undefined(why), _) | (_, Value::Undefined(why)) => Fault::values(why.to_string()),
            _ => Fault::values(format!("'{sign}' not supported between instances of '{}' and '{}'", left.type_name(), right.type_name())),
        }
    }

    /// `value in container`.
    pub(super) fn contains(&mut self, container: &Value, value: &Value) -> Result<bool, Fault> {
        match (container, value) {
            (Value::Str(text), Value::Str(part)) => {
                self.spend_bytes(text.len())?;
                Ok(text.contains(&**part))
            }
            (Value::Str(_), Value::Undefined(why)) => Fault::values(why.to_string()),
            (Value::Str(_), other) => Fault::values(format!("'in <string>' requires string as left operand, not {}", other.type_name())),
            (Value::Dict(id), value) => Ok(self.found(*id, value)?.is_some()),
            (Value::Sequence(..) | Value::Undefined(_) | Value::Loop(_), value) => {
                for item in self.items(container)? {
                    if self.equal(&item, value, 0)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            (other, _) => Fault::values(format!("argument of type '{}' is not iterable", other.type_name())),
        }
    }
}

/// `left is right`, for what is not compared by what it holds.
pub(super) fn is_same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::None, Value::None) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::Float(a), Value::Float(b)) => a == b,
        (Value::Str(a), Value::Str(b)) => a == b,
        (Value::Sequence(_, a), Value::Sequence(_, b))
        | (Value::Dict(a), Value::Dict(b))
        | (Value::Namespace(a), Value::Namespace(b))
        | (Value::Loop(a), Value::Loop(b))
        | (Value::Macro(a), Value::Macro(b)) => a == b,
        (Value::Function(a), Value::Function(b)) => a.name == b.name && is_same(&a.receiver, &b.receiver),
        _ => false,
    }
}
