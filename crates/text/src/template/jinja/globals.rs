//! The functions that templates see as variables.

use super::super::time;
use super::arguments::{integer, text};
use super::containers::merged;
use super::fault::{Fault, Kind as FaultKind};
use super::value::{Function, Kind, Table, Value};
use std::sync::Arc;

/// The most items of a range, as in Jinja2's sandbox.
const RANGE: i128 = 100_000;

const ALL: Table = &[
    ("dict", |m, _, a| {
        let dict = merged(m, "dict", a)?;
        m.dict(dict)
    }),
    ("namespace", |m, _, a| {
        let dict = merged(m, "namespace", a)?;
        m.spend_items(dict.len() * 3)?;
        Ok(Value::Namespace(m.heap.add_dict(dict)))
    }),
    ("raise_exception", |m, _, a| {
        let [message] = a.bind("raise_exception", ["message"], 1)?;
        let message = m.str_of(&message.unwrap_or(Value::None))?;
        Err(Fault::new(FaultKind::Raised, &*message))
    }),
    ("range", |m, _, a| {
        let [first, second, step] = a.bind("range", ["start", "stop", "step"], 1)?;
        let first = integer(&first.unwrap_or(Value::None))?;
        let (start, stop) = second.as_ref().map_or(Ok((0, first)), |second| integer(second).map(|second| (first, second)))?;
        let step = step.as_ref().map_or(Ok(1), integer)?;
        let span = if step < 0 { start.checked_sub(stop) } else { stop.checked_sub(start) };
        let count = match span {
            _ if step == 0 => return Fault::values("range() arg 3 must not be zero"),
            Some(span) if span <= 0 => 0,
            Some(span) => (span - 1) / step.saturating_abs() + 1,
            None => i128::MAX,
        };
        if count > RANGE {
            return Fault::values(format!("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({RANGE})."));
        }
        m.sequence(Kind::Range, (0..count).map(|i| Value::Int(start + i * step)).collect())
    }),
    ("strftime_now", |m, _, a| {
        let [format] = a.bind("strftime_now", ["format"], 1)?;
        let format = text(&format.unwrap_or(Value::None))?;
        let now = time::strftime(m.now, &format).or_else(Fault::values)?;
        m.text(now)
    }),
];

/// All of them, as variables.
pub(super) fn variables() -> Vec<(Arc<str>, Value)> {
    let variable =
        |(name, run): &(&'static str, _)| ((*name).into(), Value::Function(Arc::new(Function { name, run: *run, receiver: Value::None })));
    ALL.iter().map(variable).collect()
}
