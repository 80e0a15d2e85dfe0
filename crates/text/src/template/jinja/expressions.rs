//! Values of expressions, and calls.

use super::arguments::Arguments;
use super::ast::{self, Expression, Sign};
use super::fault::{Fault, Kind};
use super::machine::Machine;
use super::operators;
use super::value::{self, Dict, Id, Key, Missing, Number, Value, find};
use super::{filters, tests};

impl Machine {
    /// The value of an expression.
    pub(super) fn value(&mut self, expression: &Expression, scope: Id) -> Result<Value, Fault> {
        match expression {
            Expression::Constant(value) => Ok(value.clone()),
            Expression::Name(name) => self.look_up(scope, name),
            other => self.deeper(|m| m.compound(other, scope)),
        }
    }

    fn compound(&mut self, expression: &Expression, scope: Id) -> Result<Value, Fault> {
        match expression {
            Expression::Constant(_) | Expression::Name(_) => self.value(expression, scope),
            Expression::List(items) => {
                let items = self.values(items, scope)?;
                self.list(items)
            }
            Expression::Tuple(items) => {
                let items = self.values(items, scope)?;
                self.sequence(value::Kind::Tuple, items)
            }
            Expression::Dict(pairs) => self.dict_of(pairs, scope),
            Expression::Not(value) => {
                let value = self.value(value, scope)?;
                Ok((!self.is_true(&value)).into())
            }
            Expression::Sign(sign, value) => {
                let value = self.value(value, scope)?;
                signed(*sign, &value)
            }
            Expression::Binary(operator, left, right) => {
                let (left, right) = (self.value(left, scope)?, self.value(right, scope)?);
                operators::binary(self, *operator, &left, &right)
            }
            Expression::And(left, right) => {
                let left = self.value(left, scope)?;
                if self.is_true(&left) { self.value(right, scope) } else { Ok(left) }
            }
            Expression::Or(left, right) => {
                let left = self.value(left, scope)?;
                if self.is_true(&left) { Ok(left) } else { self.value(right, scope) }
            }
            Expression::Concat(parts) => self.concatenated(parts, scope),
            Expression::Compare(first, rest) => self.compared(first, rest, scope),
            Expression::If(both, otherwise) => {
                let [then, condition] = &**both;
                let condition = self.value(condition, scope)?;
                match otherwise {
                    _ if self.is_true(&condition) => self.value(then, scope),
                    Some(otherwise) => self.value(otherwise, scope),
                    None => {
                        Ok(Value::undefined(Missing::Other("the inline if-expression evaluated to false and no else section was defined.")))
                    }
                }
            }
            Expression::Attribute(value, name) => {
                let value = self.value(value, scope)?;
                self.attribute(&value, name)
            }
            Expression::Item(value, index) => {
                let (value, index) = (self.value(value, scope)?, self.value(index, scope)?);
                self.item(&value, &index)
            }
            Expression::Slice(value, parts) => self.sliced(value, parts, scope),
            Expression::Call(..) => self.call_expression(expression, None, scope),
            Expression::Filter(value, name, arguments) => {
                let value = self.value(value, scope)?;
                let arguments = self.arguments(arguments, scope)?;
                self.filter(name, &value, arguments)
            }
            Expression::Test(value, name, arguments) => {
                let value = self.value(value, scope)?;
                let arguments = self.arguments(arguments, scope)?;
                self.test(name, &value, arguments).map(Value::Bool)
            }
        }
    }

    fn values(&mut self, expressions: &[Expression], scope: Id) -> Result<Vec<Value>, Fault> {
        expressions.iter().map(|expression| self.value(expression, scope)).collect()
    }

    fn dict_of(&mut self, pairs: &[(Expression, Expression)], scope: Id) -> Result<Value, Fault> {
        let mut dict = Dict::new();
        for (key, value) in pairs {
            let key = self.value(key, scope)?;
            let key = self.key(&key)?;
            dict.insert(key, self.value(value, scope)?);
        }
        self.dict(dict)
    }

    fn concatenated(&mut self, parts: &[Expression], scope: Id) -> Result<Value, Fault> {
        let mut text = String::new();
        for part in parts {
            let part = self.value(part, scope)?;
            let part = self.str_of(&part)?;
            self.spend_bytes(part.len())?;
            text.push_str(&part);
        }
        self.text(text)
    }

    fn compared(&mut self, first: &Expression, rest: &[(ast::Comparison, Expression)], scope: Id) -> Result<Value, Fault> {
        let mut left = self.value(first, scope)?;
        for (comparison, right) in rest {
            let right = self.value(right, scope)?;
            if !self.compare(*comparison, &left, &right)? {
                return Ok(false.into());
            }
            left = right;
        }
        Ok(true.into())
    }

    fn sliced(&mut self, value: &Expression, parts: &[Option<Expression>; 3], scope: Id) -> Result<Value, Fault> {
        let value = self.value(value, scope)?;
        let mut bounds = [const { None }; 3];
        for (bound, part) in bounds.iter_mut().zip(parts) {
            if let Some(part) = part {
                *bound = Some(self.value(part, scope)?);
            }
        }
        self.slice(&value, &bounds)
    }

    pub(super) fn filter(&mut self, name: &str, value: &Value, arguments: Arguments) -> Result<Value, Fault> {
        match find(filters::ALL, name) {
            Some((_, filter)) => filter(self, value, arguments),
            None => Fault::template(format!("No filter named '{name}'.")),
        }
    }

    pub(super) fn test(&mut self, name: &str, value: &Value, arguments: Arguments) -> Result<bool, Fault> {
        let Some((_, test)) = find(tests::ALL, name) else { return Fault::template(format!("No test named '{name}'.")) };
        let result = test(self, value, arguments)?;
        Ok(self.is_true(&result))
    }

    pub(super) fn arguments(&mut self, arguments: &ast::Arguments, scope: Id) -> Result<Arguments, Fault> {
        let mut out = Arguments { positional: self.values(&arguments.positional, scope)?, named: Vec::new() };
        for (name, value) in &arguments.named {
            let value = self.value(value, scope)?;
            out.named.push((name.clone(), value));
        }
        if let Some(more) = &arguments.more {
            let more = self.value(more, scope)?;
            out.positional.extend(self.items(&more)?);
        }
        if let Some(more) = &arguments.more_named {
            let Value::Dict(id) = self.value(more, scope)? else { return Fault::values("argument after ** must be a mapping") };
            self.spend_items(self.heap.dict(id).len())?;
            for (key, value) in self.heap.dict(id) {
                let Value::Str(name) = key.value() else { return Fault::values("keywords must be strings") };
                out.named.push((name.clone(), value.clone()));
            }
        }
        Ok(out)
    }

    /// A call; `caller` is what a `{% call %}` block gives it.
    pub(super) fn call_expression(&mut self, call: &Expression, caller: Option<Value>, scope: Id) -> Result<Value, Fault> {
        let Expression::Call(callee, arguments) = call else { return Fault::template("expected a call") };
        let callee = self.value(callee, scope)?;
        let mut arguments = self.arguments(arguments, scope)?;
        arguments.named.extend(caller.map(|caller| ("caller".into(), caller)));
        self.call(&callee, arguments)
    }

    pub(super) fn call(&mut self, callee: &Value, arguments: Arguments) -> Result<Value, Fault> {
        match callee {
            Value::Function(function) => (function.run)(self, &function.receiver, arguments),
            Value::Macro(id) => self.call_macro(*id, arguments),
            Value::Loop(id) => {
                let [over] = arguments.bind("loop", ["iterable"], 1)?;
                let state = self.heap.loop_at(*id);
                let (definition, scope, depth) = (state.definition.clone(), state.scope, state.depth);
                if !definition.recursive {
                    return Fault::values("The loop must have the 'recursive' marker to be called recursively.");
                }
                let mut out = String::new();
                self.run_loop(&definition, &over.unwrap_or(Value::None), scope, depth + 1, &mut out)?;
                self.text(out)
            }
            Value::Undefined(why) => Fault::values(why.to_string()),
            other => Fault::values(format!("'{}' object is not callable", other.type_name())),
        }
    }

    fn call_macro(&mut self, id: Id, mut arguments: Arguments) -> Result<Value, Fault> {
        let closure = self.heap.closure(id).clone();
        let (definition, name) = (&closure.definition, &closure.definition.name);
        let scope = self.scope(closure.scope)?;
        let caller = arguments.take("caller");
        self.assign(scope, &"caller".into(), caller.unwrap_or_else(|| Value::undefined(Missing::Other("No caller defined"))))?;
        let mut positional = arguments.positional.into_iter();
        for (parameter, default) in &definition.parameters {
            let named = arguments.named.iter().position(|(n, _)| n == parameter).map(|i| arguments.named.remove(i).1);
            let value = match (positional.next(), named, default) {
                (Some(_), Some(_), _) => return Fault::values(format!("macro '{name}' got multiple values for argument '{parameter}'")),
                (Some(value), ..) | (None, Some(value), _) => value,
                // Defaults may speak of the parameters before them.
                (None, None, Some(default)) => self.value(default, scope)?,
                (None, None, None) => Value::undefined(Missing::Other("a parameter was not provided")),
            };
            self.assign(scope, parameter, value)?;
        }
        let more: Vec<Value> = positional.collect();
        let (takes_more, takes_named) = definition.takes;
        if takes_more {
            let more = self.sequence(value::Kind::Tuple, more)?;
            self.assign(scope, &"varargs".into(), more)?;
        } else if !more.is_empty() {
            return Fault::values(format!("macro '{name}' takes not more than {} argument(s)", definition.parameters.len()));
        }
        if takes_named {
            let named = arguments.named.into_iter().map(|(name, value)| (Key::from(&name), value)).collect();
            let named = self.dict(named)?;
            self.assign(scope, &"kwargs".into(), named)?;
        } else if let Some((unknown, _)) = arguments.named.first() {
            return Fault::values(format!("macro '{name}' takes no keyword argument '{unknown}'"));
        }
        let mut out = String::new();
        self.body(&definition.body, scope, &mut out)?;
        self.text(out)
    }
}

fn signed(sign: Sign, value: &Value) -> Result<Value, Fault> {
    match (sign, value.number()) {
        (Sign::Plus, Some(Number::Int(n))) => Ok(Value::Int(n)),
        (Sign::Plus, Some(Number::Float(n))) => Ok(Value::Float(n)),
        (Sign::Minus, Some(Number::Int(n))) => {
            n.checked_neg().map(Value::Int).ok_or_else(|| Fault::new(Kind::Values, operators::TOO_LARGE))
        }
        (Sign::Minus, Some(Number::Float(n))) => Ok(Value::Float(-n)),
        (_, None) => match value {
            Value::Undefined(why) => Fault::values(why.to_string()),
            other => {
                Fault::values(format!("bad operand type for unary {}: '{}'", if sign == Sign::Plus { '+' } else { '-' }, other.type_name()))
            }
        },
    }
}
