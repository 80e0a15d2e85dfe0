//! What templates store in namespaces.
//!
//! Namespaces are the only values that change after they were made, so only through them can a value come to hold itself, or
//! grow in depth from one pass of a loop to the next. `minijinja` 3.1 has no guard there: to print or compare such a value takes the
//! whole stack, which ends the process. So `{% set ns.x = value %}` is rewritten to pass the value through a filter that
//! refuses namespaces within it, and bounds its depth.

use minijinja::{
    Error, ErrorKind, Value,
    machinery::{Token, tokenize},
    syntax::SyntaxConfig,
    value::ValueKind,
};
use std::{borrow::Cow, cell::Cell};

/// Most levels of a stored value.
const DEPTH: usize = 64;
/// Most items, of all levels, that the values stored in one rendering may have: looking at one is a step of work.
const ITEMS: u64 = super::FUEL;
/// What errors about stored values say.
pub(super) const REFUSED: &str = "cannot be stored in a namespace";
/// The filter's name in templates.
pub(super) const FILTER: &str = "storable";

thread_local! {
    /// Items that the rendering of this thread may still store.
    static LEFT: Cell<u64> = const { Cell::new(ITEMS) };
}

/// A rendering begins on this thread.
pub(super) fn begin() {
    LEFT.set(ITEMS);
}

/// `source` with each value that is stored in a namespace passed through the filter. What is no template is left to the parser.
pub(super) fn guard<'a>(source: &'a str, syntax: &SyntaxConfig) -> Cow<'a, str> {
    let mut out = String::new();
    let mut copied = 0;
    let mut insert = |at: usize, text: &str| {
        out.push_str(&source[copied..at]);
        out.push_str(text);
        copied = at;
    };
    /// Where a tag is.
    enum At {
        Begin,
        /// Among what is assigned to, with whether an attribute was among it.
        Target(bool),
        /// In what is assigned to an attribute, which ends with this.
        Value(&'static str),
        Elsewhere,
    }
    let mut at = At::Elsewhere;
    for (token, span) in tokenize(source, false, syntax.clone()).map_while(Result::ok) {
        at = match (at, token) {
            (_, Token::BlockStart) => At::Begin,
            (At::Begin, Token::Ident("set")) => At::Target(false),
            (At::Target(_), Token::Dot) => At::Target(true),
            (At::Target(true), Token::Assign) => {
                insert(span.end_offset as usize, "(");
                At::Value(")|storable ")
            }
            (At::Target(true), Token::Pipe) => At::Value("|storable "),
            (At::Target(_), Token::Assign | Token::Pipe) => At::Elsewhere,
            (At::Target(attribute), _) => At::Target(attribute),
            (At::Value(end), Token::BlockEnd) => {
                insert(span.start_offset as usize, end);
                At::Elsewhere
            }
            (At::Value(end), _) => At::Value(end),
            _ => At::Elsewhere,
        };
    }
    if copied == 0 {
        return Cow::Borrowed(source);
    }
    out.push_str(&source[copied..]);
    Cow::Owned(out)
}

/// The value itself, where it may be stored.
pub(super) fn storable(value: Value) -> Result<Value, Error> {
    look(&value, DEPTH)?;
    Ok(value)
}

fn look(value: &Value, depth: usize) -> Result<(), Error> {
    let refused = |what: &str| Err(Error::new(ErrorKind::InvalidOperation, format!("{what} {REFUSED}")));
    match LEFT.get().checked_sub(1) {
        Some(left) => LEFT.set(left),
        None => return Err(Error::from(ErrorKind::OutOfFuel)),
    }
    if value.as_object().is_some_and(|o| o.type_name().ends_with("::Namespace")) {
        return refused("a namespace");
    }
    let kind = value.kind();
    if !matches!(kind, ValueKind::Seq | ValueKind::Map | ValueKind::Iterable) {
        return Ok(());
    }
    if depth == 0 {
        return refused(&format!("a value of more than {DEPTH} levels"));
    }
    for item in value.try_iter()? {
        look(&item, depth - 1)?;
        if kind == ValueKind::Map {
            look(&value.get_item(&item)?, depth - 1)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guarded(source: &str) -> Cow<'_, str> {
        guard(source, &SyntaxConfig::default())
    }

    #[test]
    fn only_what_goes_into_attributes_is_guarded() {
        for same in
            ["a", "{% set x = ns.y %}", "{{ x.y }}", "{% if a.b %}{% set x %}{% endset %}", "{% raw %}{% set a.b = c %}{% endraw %}"]
        {
            assert_eq!(guarded(same), same);
        }
        assert_eq!(guarded("{%- set a.b = c, d -%}e"), "{%- set a.b =( c, d )|storable -%}e");
        assert_eq!(guarded("{% set a, b.c = d %}{% set e.f = g %}"), "{% set a, b.c =( d )|storable %}{% set e.f =( g )|storable %}");
        assert_eq!(guarded("{% set a.b | upper %}x{% endset %}"), "{% set a.b | upper |storable %}x{% endset %}");
        assert_eq!(guarded("{% set a.b %}x{% endset %}"), "{% set a.b %}x{% endset %}");
        assert_eq!(guarded("{% set a.b = c"), "{% set a.b =( c");
    }
}
