//! Arithmetic, and what Python's operators do to strings and lists.

use super::arguments::integer;
use super::ast::Operator;
use super::fault::{self, Fault};
use super::format;
use super::machine::Machine;
use super::value::{Kind, Number, Value};

pub(super) const TOO_LARGE: &str = "integers of more than 128 bits are not supported";

/// `left operator right`.
pub(super) fn binary(machine: &mut Machine, operator: Operator, left: &Value, right: &Value) -> Result<Value, Fault> {
    if let (Some(left), Some(right)) = (left.number(), right.number()) {
        return arithmetic(operator, left, right);
    }
    match (operator, left, right) {
        (Operator::Modulo, Value::Str(text), values) => format::printf(machine, text, values),
        (_, Value::Undefined(why), _) | (_, _, Value::Undefined(why)) => Fault::values(why.to_string()),
        (Operator::Add, Value::Str(a), Value::Str(b)) => {
            machine.spend_bytes(a.len() + b.len())?;
            machine.text(format!("{a}{b}"))
        }
        (Operator::Add, Value::Sequence(a, first), Value::Sequence(b, second)) if is_joined(*a, *b) => {
            let count = machine.heap.sequence(*first).len() + machine.heap.sequence(*second).len();
            machine.spend_items(count)?;
            let items = [machine.heap.sequence(*first).as_slice(), machine.heap.sequence(*second)].concat();
            machine.sequence(if *a == Kind::List { Kind::List } else { Kind::Tuple }, items)
        }
        (Operator::Multiply, value, times) if matches!(times, Value::Int(_) | Value::Bool(_)) => repeated(machine, value, times),
        (Operator::Multiply, times, value) if matches!(times, Value::Int(_) | Value::Bool(_)) => repeated(machine, value, times),
        _ => mismatch(operator, left, right),
    }
}

/// Two lists or two tuples.
fn is_joined(a: Kind, b: Kind) -> bool {
    (a == Kind::List && b == Kind::List) || (a.is_tuple() && b.is_tuple())
}

fn repeated(machine: &mut Machine, value: &Value, times: &Value) -> Result<Value, Fault> {
    let count = usize::try_from(integer(times)?.max(0)).unwrap_or(usize::MAX);
    match value {
        Value::Str(text) => {
            machine.spend_bytes(text.len().saturating_mul(count))?;
            machine.text(text.repeat(count))
        }
        Value::Sequence(kind, id) if *kind == Kind::List || kind.is_tuple() => {
            machine.spend_items(machine.heap.sequence(*id).len().saturating_mul(count))?;
            let items = machine.heap.sequence(*id);
            let all = items.iter().cycle().take(items.len() * count).cloned().collect();
            machine.sequence(*kind, all)
        }
        other => mismatch(Operator::Multiply, other, times),
    }
}

fn mismatch<T>(operator: Operator, left: &Value, right: &Value) -> Result<T, Fault> {
    let sign = match operator {
        Operator::Add => "+",
        Operator::Subtract => "-",
        Operator::Multiply => "*",
        Operator::Divide => "/",
        Operator::FloorDivide => "//",
        Operator::Modulo => "%",
        Operator::Power => "** or pow()",
    };
    let (a, b) = (left.type_name(), right.type_name());
    Fault::values(match (operator, left) {
        (Operator::Add, Value::Str(_) | Value::Sequence(Kind::List | Kind::Tuple, _)) => {
            format!("can only concatenate {a} (not \"{b}\") to {a}")
        }
        _ => format!("unsupported operand type(s) for {sign}: '{a}' and '{b}'"),
    })
}

fn arithmetic(operator: Operator, left: Number, right: Number) -> Result<Value, Fault> {
    let by_zero = || Fault::new(fault::Kind::Values, "division by zero");
    let is_division = matches!(operator, Operator::Divide | Operator::FloorDivide | Operator::Modulo);
    if is_division && right.float() == 0.0 {
        return Err(by_zero());
    }
    if let (Number::Int(a), Number::Int(b)) = (left, right) {
        let exact = match operator {
            Operator::Add => a.checked_add(b),
            Operator::Subtract => a.checked_sub(b),
            Operator::Multiply => a.checked_mul(b),
            Operator::FloorDivide => a.checked_div_euclid(b).map(|q| if b < 0 && a.rem_euclid(b) != 0 { q - 1 } else { q }),
            Operator::Modulo => a.checked_rem(b).map(|r| if r != 0 && (r < 0) != (b < 0) { r + b } else { r }),
            Operator::Power if b >= 0 => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
            Operator::Divide => return Ok(Value::Float(a as f64 / b as f64)),
            Operator::Power if a == 0 => return Err(by_zero()),
            Operator::Power => return Ok(Value::Float((a as f64).powf(b as f64))),
        };
        return exact.map(Value::Int).ok_or_else(|| Fault::new(fault::Kind::Values, TOO_LARGE));
    }
    let (a, b) = (left.float(), right.float());
    Ok(Value::Float(match operator {
        Operator::Add => a + b,
        Operator::Subtract => a - b,
        Operator::Multiply => a * b,
        Operator::Divide => a / b,
        Operator::FloorDivide => (a - modulo(a, b)) / b,
        Operator::Modulo => modulo(a, b),
        Operator::Power if a == 0.0 && b < 0.0 => return Err(by_zero()),
        Operator::Power if a < 0.0 && b.fract() != 0.0 => return Fault::values("complex numbers are not supported"),
        Operator::Power => a.powf(b),
    }))
}

/// The remainder, with the sign of `b`.
fn modulo(a: f64, b: f64) -> f64 {
    let rest = a % b;
    if rest == 0.0 {
        0.0f64.copysign(b)
    } else if (rest < 0.0) != (b < 0.0) {
        rest + b
    } else {
        rest
    }
}
