//! Arguments that are written one by one, each between marks: strings as they are, others as JSON or literals.

use super::literals::Writer;
use super::rules::Rules;
use super::schema::{Kind, Schema};
use crate::GrammarError;
use onebit_text::parse::written::Each;
use serde_json::{Value, json};

/// References and choices that lead from one to the next.
const DEPTH: usize = 32;

/// A value in one form: what kind it is said to be, and its text with the mark that ends it.
struct Form {
    kind: &'static str,
    text: String,
}

/// A rule for the arguments of a function.
pub(super) fn arguments(each: &Each, schema: &Schema, rules: &mut Rules<'_>) -> Result<String, GrammarError> {
    let members = schema.members(schema.root())?;
    let mut out = Vec::new();
    for (name, part, required) in &members.named {
        let usable = !name.is_empty() && name.trim() == name && !name.contains(['<', '>', '"', '\n', '·', '⟨', '⟩']);
        if !usable {
            if *required || schema.strict {
                return Err(GrammarError::Invalid(format!("the parameter {name:?} has a name that this model cannot write")));
            }
            continue;
        }
        let entry = entry(each, Some(name), part, schema, rules)?;
        out.push(if *required { entry } else { format!("({entry})?") });
    }
    if let Some(part) = &members.more {
        let entry = entry(each, None, part, schema, rules)?;
        out.push(format!("({entry})*"));
    }
    Ok(rules.rule(&out.join(" ")))
}

fn entry(each: &Each, name: Option<&str>, part: &Value, schema: &Schema, rules: &mut Rules<'_>) -> Result<String, GrammarError> {
    let forms = forms(each, part, schema, rules, 0)?;
    let (before, after) = each.open.split_once("⟨key⟩").unwrap_or((each.open, ""));
    let mut out = Vec::with_capacity(forms.len());
    for Form { kind, text } in forms {
        let after = after.replace("⟨kind⟩", kind);
        let open = match name {
            Some(name) => rules.text(&[before, name, &after].concat()),
            None => format!("{} /[A-Za-z_][A-Za-z0-9_.-]{{0,63}}/ {}", rules.text(before), rules.text(&after)),
        };
        out.push(format!("{open} {text} {}", rules.text(each.after)));
    }
    Ok(rules.rule(&out.join(" | ")))
}

/// The forms that a value may have.
fn forms(each: &Each, part: &Value, schema: &Schema, rules: &mut Rules<'_>, depth: usize) -> Result<Vec<Form>, GrammarError> {
    if depth > DEPTH {
        return Err(GrammarError::TooDeep { limit: DEPTH });
    }
    let tells_kinds = (each.kind)("string") != (each.kind)("object");
    Ok(match schema.kind(part)? {
        Kind::Reference(reference) => forms(each, schema.at(&reference)?, schema, rules, depth + 1)?,
        Kind::AnyOf(parts) => {
            let mut all = Vec::new();
            for part in &parts {
                all.extend(forms(each, part, schema, rules, depth + 1)?);
            }
            all
        }
        Kind::OneOf(values) => values.iter().map(|value| literal(each, value, schema, rules)).collect::<Result<_, _>>()?,
        Kind::Of("string") => text(each, part, schema, rules)?,
        Kind::Of(kind) => vec![other(each, kind, part, schema, rules)?],
        // Without marks for kinds any text is a value: it is read as JSON where it is that.
        Kind::Any if !tells_kinds => text(each, &json!({}), schema, rules)?,
        Kind::Any => {
            let mut all = text(each, &json!({}), schema, rules)?;
            for kind in ["number", "boolean", "null", "array", "object"] {
                all.push(other(each, kind, &json!({ "type": kind }), schema, rules)?);
            }
            all
        }
    })
}

/// A string.
fn text(each: &Each, part: &Value, schema: &Schema, rules: &mut Rules<'_>) -> Result<Vec<Form>, GrammarError> {
    let kind = (each.kind)("string");
    let limits = schema.text_limits(part)?;
    let Some((special, open, close)) = each.wrapped else {
        return Ok(vec![Form { kind, text: rules.raw(&limits, each.close.trim(), each.close) }]);
    };
    let mut plain = limits.clone();
    plain.terminals.push(crate::lark::regex(&format!("[^{}]*", crate::lark::escaped(special))));
    let bare = rules.raw(&plain, each.close.trim(), each.close);
    let wrapped = format!("{} {}", rules.text(open), rules.raw(&limits, close, &[close, each.close].concat()));
    Ok(vec![Form { kind, text: bare }, Form { kind, text: wrapped }])
}

/// A value of a type that is no string.
fn other(each: &Each, kind: &'static str, part: &Value, schema: &Schema, rules: &mut Rules<'_>) -> Result<Form, GrammarError> {
    let value = match each.others {
        None => rules.json(schema, part),
        Some(literals) => Writer::new(literals, schema).value(part, rules)?,
    };
    Ok(Form { kind: (each.kind)(kind), text: format!("{value} {}", rules.text(each.close)) })
}

/// One value that the schema names.
fn literal(each: &Each, value: &Value, schema: &Schema, rules: &mut Rules<'_>) -> Result<Form, GrammarError> {
    let close = rules.text(each.close);
    let Value::String(text) = value else {
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::Array(_) => "array",
            _ => "object",
        };
        let written = match each.others {
            None => Rules::plain(&value.to_string()),
            Some(literals) => Writer::new(literals, schema).literal(value, rules)?,
        };
        return Ok(Form { kind: (each.kind)(kind), text: format!("{written} {close}") });
    };
    let wrap = each.wrapped.filter(|(special, ..)| text.contains(|c| special.contains(c)));
    let forbidden = wrap.map_or(each.close.trim(), |(.., close)| close);
    if text.contains(forbidden) {
        return Err(schema.unsupported("a string with the mark that ends it"));
    }
    let text = wrap.map_or(text.clone(), |(_, open, close)| [open, text, close].concat());
    let text = if text.is_empty() { String::new() } else { Rules::plain(&text) };
    Ok(Form { kind: (each.kind)("string"), text: format!("{text} {close}") })
}
