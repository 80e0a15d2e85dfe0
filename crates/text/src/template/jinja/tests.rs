//! The tests: `value is name`.

use super::arguments::Arguments;
use super::ast::{Comparison, Operator};
use super::compare::is_same;
use super::fault::Fault;
use super::machine::Machine;
use super::operators::binary;
use super::value::{Kind, Table, Value, find};
use super::{filters, strings};

pub(super) const ALL: Table = &[
    ("boolean", |_, v, a| plain(a, matches!(v, Value::Bool(_)))),
    ("callable", |_, v, a| plain(a, matches!(v, Value::Function(_) | Value::Macro(_) | Value::Loop(_) | Value::Undefined(_)))),
    ("defined", |_, v, a| plain(a, !v.is_undefined())),
    ("divisibleby", |m, v, a| {
        let [by] = a.bind("divisibleby", ["num"], 1)?;
        is_remainder(m, v, &by.unwrap_or(Value::None), 0)
    }),
    ("escaped", |_, _, a| plain(a, false)),
    ("even", |m, v, _| is_remainder(m, v, &Value::Int(2), 0)),
    ("false", |_, v, a| plain(a, matches!(v, Value::Bool(false)))),
    ("filter", |_, v, a| plain(a, matches!(v, Value::Str(name) if find(filters::ALL, name).is_some()))),
    ("float", |_, v, a| plain(a, matches!(v, Value::Float(_)))),
    ("in", |m, v, a| compared(m, v, a, Comparison::In)),
    ("integer", |_, v, a| plain(a, matches!(v, Value::Int(_)))),
    ("iterable", |_, v, a| {
        plain(a, matches!(v, Value::Str(_) | Value::Sequence(..) | Value::Dict(_) | Value::Undefined(_) | Value::Loop(_)))
    }),
    ("lower", |m, v, _| m.str_of(v).map(|text| strings::is_lower(&text).into())),
    ("mapping", |_, v, a| plain(a, matches!(v, Value::Dict(_)))),
    ("none", |_, v, a| plain(a, matches!(v, Value::None))),
    ("number", |_, v, a| plain(a, v.number().is_some())),
    ("odd", |m, v, _| is_remainder(m, v, &Value::Int(2), 1)),
    ("sameas", |_, v, a| {
        let [other] = a.bind("sameas", ["other"], 1)?;
        Ok(is_same(v, &other.unwrap_or(Value::None)).into())
    }),
    ("sequence", |_, v, a| {
        let is_indexed = |kind: Kind| kind.is_tuple() || matches!(kind, Kind::List | Kind::Range);
        plain(
            a,
            match v {
                Value::Sequence(kind, _) => is_indexed(*kind),
                other => matches!(other, Value::Str(_) | Value::Dict(_) | Value::Undefined(_)),
            },
        )
    }),
    ("string", |_, v, a| plain(a, matches!(v, Value::Str(_)))),
    ("test", |_, v, a| plain(a, matches!(v, Value::Str(name) if find(ALL, name).is_some()))),
    ("true", |_, v, a| plain(a, matches!(v, Value::Bool(true)))),
    ("undefined", |_, v, a| plain(a, v.is_undefined())),
    ("upper", |m, v, _| m.str_of(v).map(|text| strings::is_upper(&text).into())),
    ("eq", |m, v, a| compared(m, v, a, Comparison::Equal)),
    ("equalto", |m, v, a| compared(m, v, a, Comparison::Equal)),
    ("==", |m, v, a| compared(m, v, a, Comparison::Equal)),
    ("ne", |m, v, a| compared(m, v, a, Comparison::NotEqual)),
    ("!=", |m, v, a| compared(m, v, a, Comparison::NotEqual)),
    ("lt", |m, v, a| compared(m, v, a, Comparison::Less)),
    ("lessthan", |m, v, a| compared(m, v, a, Comparison::Less)),
    ("<", |m, v, a| compared(m, v, a, Comparison::Less)),
    ("le", |m, v, a| compared(m, v, a, Comparison::LessOrEqual)),
    ("<=", |m, v, a| compared(m, v, a, Comparison::LessOrEqual)),
    ("gt", |m, v, a| compared(m, v, a, Comparison::Greater)),
    ("greaterthan", |m, v, a| compared(m, v, a, Comparison::Greater)),
    (">", |m, v, a| compared(m, v, a, Comparison::Greater)),
    ("ge", |m, v, a| compared(m, v, a, Comparison::GreaterOrEqual)),
    (">=", |m, v, a| compared(m, v, a, Comparison::GreaterOrEqual)),
];

fn plain(a: Arguments, holds: bool) -> Result<Value, Fault> {
    let [] = a.bind("test", [], 0)?;
    Ok(holds.into())
}

fn compared(m: &mut Machine, value: &Value, a: Arguments, comparison: Comparison) -> Result<Value, Fault> {
    let [other] = a.bind("test", ["other"], 1)?;
    m.compare(comparison, value, &other.unwrap_or(Value::None)).map(Value::Bool)
}

/// Whether `value % by` is `rest`.
fn is_remainder(m: &mut Machine, value: &Value, by: &Value, rest: i128) -> Result<Value, Fault> {
    let got = binary(m, Operator::Modulo, value, by)?;
    m.equal(&got, &Value::Int(rest), 0).map(Value::Bool)
}
