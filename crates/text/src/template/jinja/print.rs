//! Values as text: Python's `str` and `repr`.

use super::fault::Fault;
use super::machine::Machine;
use super::unicode::is_printable;
use super::value::{Kind, Value};
use std::fmt::Write;
use std::sync::Arc;

impl Machine {
    /// `str(value)`.
    pub(super) fn str_of(&mut self, value: &Value) -> Result<Arc<str>, Fault> {
        match value {
            Value::Str(text) => Ok(text.clone()),
            Value::Undefined(_) => Ok("".into()),
            other => self.repr_of(other).map(Into::into),
        }
    }

    /// `repr(value)`.
    pub(super) fn repr_of(&mut self, value: &Value) -> Result<String, Fault> {
        let mut out = String::new();
        self.repr(value, 0, &mut out)?;
        Ok(out)
    }

    fn repr(&mut self, value: &Value, depth: usize, out: &mut String) -> Result<(), Fault> {
        Self::check_depth(depth)?;
        self.spend(1)?;
        let start = out.len();
        match value {
            Value::Undefined(_) => out.push_str("Undefined"),
            Value::None => out.push_str("None"),
            Value::Bool(yes) => out.push_str(if *yes { "True" } else { "False" }),
            Value::Int(n) => _ = write!(out, "{n}"),
            Value::Float(n) => out.push_str(&float(*n)),
            Value::Str(text) => quote(text, out),
            Value::Sequence(kind, id) => {
                let (open, close) = match kind {
                    Kind::List => ("[", "]"),
                    Kind::Tuple | Kind::Group => ("(", ")"),
                    Kind::Keys => ("dict_keys([", "])"),
                    Kind::Values => ("dict_values([", "])"),
                    Kind::Items => ("dict_items([", "])"),
                    Kind::Range => return self.repr_of_range(self.heap.sequence(*id).clone(), out),
                    Kind::Generator => {
                        out.push_str("<generator object>");
                        return Ok(());
                    }
                };
                out.push_str(open);
                let count = self.heap.sequence(*id).len();
                for i in 0..count {
                    out.push_str(if i > 0 { ", " } else { "" });
                    let item = self.heap.sequence(*id)[i].clone();
                    self.repr(&item, depth + 1, out)?;
                }
                out.push_str(if kind.is_tuple() && count == 1 { "," } else { "" });
                out.push_str(close);
                return Ok(());
            }
            Value::Dict(id) => return self.repr_of_dict(*id, depth, out),
            Value::Namespace(id) => {
                out.push_str("<Namespace ");
                self.repr_of_dict(*id, depth, out)?;
                out.push('>');
            }
            Value::Loop(id) => {
                let state = self.heap.loop_at(*id);
                let _ = write!(out, "<LoopContext {}/{}>", state.index + 1, state.items.len());
            }
            Value::Macro(id) => {
                let _ = write!(out, "<Macro '{}'>", self.heap.closure(*id).definition.name);
            }
            Value::Function(function) => _ = write!(out, "<built-in function {}>", function.name),
        }
        self.spend_bytes(out.len() - start)
    }

    fn repr_of_dict(&mut self, id: super::value::Id, depth: usize, out: &mut String) -> Result<(), Fault> {
        out.push('{');
        for i in 0..self.heap.dict(id).len() {
            let Some((key, value)) = self.heap.dict(id).get_index(i) else { break };
            let (key, value) = (key.value().clone(), value.clone());
            out.push_str(if i > 0 { ", " } else { "" });
            self.repr(&key, depth + 1, out)?;
            out.push_str(": ");
            self.repr(&value, depth + 1, out)?;
        }
        out.push('}');
        Ok(())
    }

    /// A range by its first and last item; where it would have ended further on is not kept.
    fn repr_of_range(&mut self, items: Vec<Value>, out: &mut String) -> Result<(), Fault> {
        let at = |i: usize| match items.get(i) {
            Some(Value::Int(n)) => *n,
            _ => 0,
        };
        let step = if items.len() > 1 { at(1) - at(0) } else { 1 };
        let end = if items.is_empty() { 0 } else { at(items.len() - 1) + step };
        let _ = write!(out, "range({}, {end}", at(0));
        if step != 1 {
            let _ = write!(out, ", {step}");
        }
        out.push(')');
        Ok(())
    }
}

/// A string in quotation marks, with escapes where it is not printable.
fn quote(text: &str, out: &mut String) {
    let mark = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(mark);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == mark => out.extend(['\\', c]),
            c if is_printable(c) => out.push(c),
            c => {
                let code = u32::from(c);
                let _ = match code {
                    0..=0xff => write!(out, "\\x{code:02x}"),
                    0x100..=0xffff => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
            }
        }
    }
    out.push(mark);
}

/// A float as Python's `repr` writes it.
pub(super) fn float(value: f64) -> String {
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.into();
    }
    // Rust turns to exponents at the same sizes, but writes them without sign and padding.
    let text = format!("{value:?}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |e| ('-', e));
            format!("{digits}e{sign}{exponent:0>2}")
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    /// From Python's `repr`.
    #[test]
    fn floats() {
        for (value, want) in [
            (1.0, "1.0"),
            (-3.5, "-3.5"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (0.1 + 0.2, "0.30000000000000004"),
            (-0.0, "-0.0"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(super::float(value), want);
        }
    }
}
