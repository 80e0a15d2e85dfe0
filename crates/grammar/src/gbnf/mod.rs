//! Grammars in the notation of llama.cpp (`grammars/README.md`): rules of literals, ranges of characters, groups and repetitions, which
//! match letter by letter.
//!
//! `llguidance` reads a text as lexemes, each as long as can be. A grammar that does not recurse becomes a single one. Of others, the parts
//! that do not recurse become lexemes if the next character always tells what comes next ([`shape`]); else each character is a lexeme, which
//! is slower and always right.

mod emit;
mod parser;
mod set;
mod shape;

use crate::GrammarError;
use set::Set;

/// What a rule stands for.
#[derive(Clone, Debug, PartialEq)]
enum Expr {
    /// These characters in a row.
    Text(String),
    /// One of these characters.
    One(Set),
    /// The rule of this index.
    Rule(usize),
    /// A token by its id, or with `false` any other.
    Token(u32, bool),
    Sequence(Vec<Expr>),
    Choice(Vec<Expr>),
    /// So many times, at least and at most.
    Repeat(Box<Expr>, u32, Option<u32>),
}

#[derive(Debug)]
struct Rules {
    bodies: Vec<Expr>,
    root: usize,
}

/// The same in the notation of Lark.
pub(crate) fn to_lark(text: &str) -> Result<String, GrammarError> {
    let rules = parser::parse(text)?;
    Ok(emit::lark(&rules, &shape::Shape::of(&rules)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
