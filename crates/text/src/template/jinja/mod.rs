//! Jinja, as Jinja2 3.1 renders it in the sandbox of `transformers`: the language of chat templates.
//!
//! A source goes through `lexer` and `parser` to the tree in `ast`, which `statements` and `expressions` walk. Values are Python's
//! (`value`), and so are operators (`operators`), comparisons (`compare`), texts of values (`print`), and the methods of strings
//! (`strings`), lists and dictionaries (`containers`). `filters`, `tests` and `globals` are Jinja2's own.
//!
//! Templates are not trusted. What they do is paid for with fuel, in [`Machine`]: a step for each node of the tree, and one for each 64
//! bytes that are made or looked through, so that fuel bounds time and memory. The depth of the tree and of calls is bounded, and
//! values that can hold themselves lie in one place that is let go as a whole.
//!
//! One difference is meant: Jinja2's sandbox refuses methods that change lists and dictionaries, with which some published templates
//! work only elsewhere; here they work as Python's.

mod access;
mod arguments;
mod ast;
mod compare;
mod containers;
mod expressions;
mod fault;
mod filters;
mod format;
mod globals;
mod json;
mod lexer;
mod machine;
mod operators;
mod parser;
mod print;
mod sequences;
mod statements;
mod strings;
mod tests;
mod unicode;
mod value;

pub(super) use fault::{Fault, Kind};
pub(super) use machine::Machine;

/// A template that was read.
#[derive(Debug)]
pub(super) struct Template {
    body: Vec<ast::Statement>,
}

impl Template {
    /// Reads a source.
    pub(super) fn new(source: &str) -> Result<Self, Fault> {
        Ok(Self { body: parser::parse(&lexer::tokens(source)?)? })
    }
}
