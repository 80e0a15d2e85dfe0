//! What templates store in variables and namespaces.
//!
//! Namespaces are the only values that change after they were made, so only through them can a value come to hold itself.
//! And what was stored can be stored again, twice over or one level deeper: a short template makes values of a size or depth that
//! nothing holds. `minijinja` 3.1 has no guard there: to print or compare such values takes for ever, or the whole stack, which ends
//! the process. So `{% set x = value %}`, also with attributes, and `{% with x = value %}` are rewritten to pass the value through a
//! filter that bounds its depth and items, and refuses namespaces within what goes into a namespace.

use minijinja::{
    Error, ErrorKind, Value,
    machinery::{Token, tokenize},
    syntax::SyntaxConfig,
    value::ValueKind,
};
use std::{borrow::Cow, cell::Cell};

/// Most levels of a stored value.
const DEPTH: usize = 64;
/// Most items, of all levels, that the values stored in one rendering may have. A template that stores the rest of the messages for each
/// of a thousand needs some millions.
const ITEMS: u64 = 8_000_000;
/// What errors about stored values say.
pub(super) const REFUSED: &str = "cannot be stored";
/// The filter for what goes into a namespace, in templates.
pub(super) const NAMESPACE_FILTER: &str = "storable";
/// The filter for what goes into a variable.
pub(super) const VARIABLE_FILTER: &str = "bounded";

thread_local! {
    /// Items that the rendering of this thread may still store.
    static LEFT: Cell<u64> = const { Cell::new(ITEMS) };
}

/// A rendering begins on this thread.
pub(super) fn begin() {
    LEFT.set(ITEMS);
}

/// `source` with each value that is stored passed through its filter. What is no template is left to the parser.
pub(super) fn guard<'a>(source: &'a str, syntax: &SyntaxConfig) -> Cow<'a, str> {
    let mut out = String::new();
    let mut copied = 0;
    let mut insert = |at: u32, text: &str| {
        out.push_str(&source[copied..at as usize]);
        out.push_str(text);
        copied = at as usize;
    };
    /// Where a tag is.
    #[derive(Clone, Copy)]
    enum At {
        Begin,
        /// Among what is assigned to, with its filter, and whether commas part assignments.
        Target(&'static str, bool),
        /// In a value, with its filter, whether a comma ends it, and open brackets.
        Value(&'static str, bool, usize),
        /// In the filters of `{% set x | filter %}`.
        Filters(&'static str),
        Elsewhere,
    }
    let mut at = At::Elsewhere;
    for (token, span) in tokenize(source, false, syntax.clone()).map_while(Result::ok) {
        at = match (at, &token) {
            (At::Value(filter, ..), Token::BlockEnd) => {
                insert(span.start_offset, &format!(")|{filter} "));
                At::Elsewhere
            }
            (At::Filters(filter), Token::BlockEnd) => {
                insert(span.start_offset, &format!("|{filter} "));
                At::Elsewhere
            }
            (_, Token::BlockStart) => At::Begin,
            (At::Begin, Token::Ident("set")) => At::Target(VARIABLE_FILTER, false),
            (At::Begin, Token::Ident("with")) => At::Target(VARIABLE_FILTER, true),
            (At::Target(_, several), Token::Dot) => At::Target(NAMESPACE_FILTER, several),
            (At::Target(filter, several), Token::Assign) => {
                insert(span.end_offset, "(");
                At::Value(filter, several, 0)
            }
            (At::Target(filter, false), Token::Pipe) => At::Filters(filter),
            (At::Value(filter, true, 0), Token::Comma) => {
                insert(span.start_offset, &format!(")|{filter}"));
                At::Target(VARIABLE_FILTER, true)
            }
            (At::Value(filter, several, open), Token::ParenOpen | Token::BracketOpen | Token::BraceOpen) => {
                At::Value(filter, several, open + 1)
            }
            (At::Value(filter, several, open), Token::ParenClose | Token::BracketClose | Token::BraceClose) => {
                At::Value(filter, several, open.saturating_sub(1))
            }
            (At::Target(..), Token::BlockEnd) | (At::Begin, _) => At::Elsewhere,
            (at, _) => at,
        };
    }
    if copied == 0 {
        return Cow::Borrowed(source);
    }
    out.push_str(&source[copied..]);
    Cow::Owned(out)
}

/// The value itself, where a namespace may store it.
pub(super) fn storable(value: Value) -> Result<Value, Error> {
    look(&value, DEPTH, false)?;
    put_together(value)
}

/// The value itself, where a variable may store it.
pub(super) fn bounded(value: Value) -> Result<Value, Error> {
    look(&value, DEPTH, true)?;
    put_together(value)
}

/// `a + b` of lists as one list: `minijinja` leaves it as two, so that each further `+` makes going through it slower.
fn put_together(value: Value) -> Result<Value, Error> {
    if value.as_object().is_some_and(|o| o.type_name().ends_with("::MergeSeq")) {
        return Ok(value.try_iter()?.collect::<Vec<_>>().into());
    }
    Ok(value)
}

/// Looks at a value and all that it holds. What namespaces hold was looked at when they were given it.
fn look(value: &Value, depth: usize, namespaces: bool) -> Result<(), Error> {
    let refused = |what: &str| Err(Error::new(ErrorKind::InvalidOperation, format!("{what} {REFUSED}")));
    match LEFT.get().checked_sub(1) {
        Some(left) => LEFT.set(left),
        None => return Err(Error::from(ErrorKind::OutOfFuel)),
    }
    let kind = value.kind();
    if !matches!(kind, ValueKind::Seq | ValueKind::Map | ValueKind::Iterable) {
        return Ok(());
    }
    if value.as_object().is_some_and(|o| o.type_name().ends_with("::Namespace")) {
        return if namespaces { Ok(()) } else { refused("a namespace within a namespace") };
    }
    if depth == 0 {
        return refused(&format!("a value of more than {DEPTH} levels"));
    }
    for item in value.try_iter()? {
        look(&item, depth - 1, namespaces)?;
        if kind == ValueKind::Map {
            look(&value.get_item(&item)?, depth - 1, namespaces)?;
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
    fn what_is_stored_is_guarded() {
        for same in ["a", "{{ x.y }}", "{% if a.b %}{% set x %}{% endset %}", "{% raw %}{% set a.b = c %}{% endraw %}"] {
            assert_eq!(guarded(same), same);
        }
        assert_eq!(guarded("{%- set a.b = c, d -%}e"), "{%- set a.b =( c, d )|storable -%}e");
        assert_eq!(guarded("{% set x = ns.y %}"), "{% set x =( ns.y )|bounded %}");
        assert_eq!(guarded("{% with %}{% with a = f(1, b=2), c=[3] %}"), "{% with %}{% with a =( f(1, b=2))|bounded, c=([3] )|bounded %}");
        assert_eq!(guarded("{% set a, b.c = d %}{% set e.f = g %}"), "{% set a, b.c =( d )|storable %}{% set e.f =( g )|storable %}");
        assert_eq!(guarded("{% set a.b | upper %}x{% endset %}"), "{% set a.b | upper |storable %}x{% endset %}");
        assert_eq!(guarded("{% set a.b %}x{% endset %}"), "{% set a.b %}x{% endset %}");
        assert_eq!(guarded("{% set a.b = c"), "{% set a.b =( c");
    }
}
