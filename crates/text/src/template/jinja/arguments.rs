//! What functions are given.

use super::fault::Fault;
use super::value::Value;
use std::sync::Arc;

/// The arguments of one call.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    pub(super) positional: Vec<Value>,
    pub(super) named: Vec<(Arc<str>, Value)>,
}

impl Arguments {
    /// The arguments by the names of the parameters of `function`, of which the first `required` must be there.
    pub(super) fn bind<const N: usize>(self, function: &str, names: [&str; N], required: usize) -> Result<[Option<Value>; N], Fault> {
        let given = self.positional.len();
        if given > N {
            return Fault::values(format!("{function}() takes at most {N} arguments ({given} given)"));
        }
        let mut bound = [const { None }; N];
        for (place, value) in bound.iter_mut().zip(self.positional) {
            *place = Some(value);
        }
        for (name, value) in self.named {
            let Some(i) = names.iter().position(|n| **n == *name) else {
                return Fault::values(format!("{function}() got an unexpected keyword argument '{name}'"));
            };
            if bound[i].replace(value).is_some() {
                return Fault::values(format!("{function}() got multiple values for argument '{name}'"));
            }
        }
        match bound.iter().take(required).position(Option::is_none) {
            Some(i) => Fault::values(format!("{function}() missing required argument '{}'", names[i])),
            None => Ok(bound),
        }
    }

    /// Takes a named argument out.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        let i = self.named.iter().position(|(n, _)| **n == *name)?;
        Some(self.named.remove(i).1)
    }

    /// Takes the first positional argument out, if there is one.
    pub(super) fn shift(&mut self) -> Option<Value> {
        if self.positional.is_empty() { None } else { Some(self.positional.remove(0)) }
    }
}

/// An argument that is an integer.
pub(super) fn integer(value: &Value) -> Result<i128, Fault> {
    match value {
        Value::Int(n) => Ok(*n),
        Value::Bool(yes) => Ok((*yes).into()),
        Value::Undefined(why) => Fault::values(why.to_string()),
        other => Fault::values(format!("'{}' object cannot be interpreted as an integer", other.type_name())),
    }
}

/// An argument that is an integer, or `default` if it is not there or `None`.
pub(super) fn integer_or(value: Option<&Value>, default: i128) -> Result<i128, Fault> {
    match value {
        None | Some(Value::None) => Ok(default),
        Some(value) => integer(value),
    }
}

/// An argument that is a string.
pub(super) fn text(value: &Value) -> Result<Arc<str>, Fault> {
    match value {
        Value::Str(text) => Ok(text.clone()),
        Value::Undefined(why) => Fault::values(why.to_string()),
        other => Fault::values(format!("must be str, not {}", other.type_name())),
    }
}
