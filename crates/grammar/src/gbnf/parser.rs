//! Reads the notation.

use super::{Expr, Rules, Set};
use crate::GrammarError;
use std::collections::HashMap;

/// Groups within one another.
const DEPTH: usize = 64;
/// The most that a repetition may count to, as in llama.cpp.
const MOST: u32 = 2000;

pub(super) fn parse(text: &str) -> Result<Rules, GrammarError> {
    let mut parser = Parser { text, rest: text, names: Vec::new(), by_name: HashMap::new(), bodies: Vec::new() };
    parser.rules()?;
    parser.finish()
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    names: Vec<String>,
    by_name: HashMap<&'a str, usize>,
    /// Of the rules that were named, those that were given.
    bodies: Vec<Option<Expr>>,
}

impl<'a> Parser<'a> {
    fn rules(&mut self) -> Result<(), GrammarError> {
        self.skip_space(true);
        while !self.rest.is_empty() {
            let name = self.name().ok_or_else(|| self.error("a rule's name was expected"))?;
            self.skip_space(false);
            if !self.skip("::=") {
                return Err(self.error("`::=` was expected"));
            }
            self.skip_space(true);
            let body = self.choice(0)?;
            let index = self.index(name);
            if self.bodies[index].replace(body).is_some() {
                return Err(GrammarError::Invalid(format!("the rule `{name}` is given twice")));
            }
            if !self.rest.is_empty() && !self.rest.starts_with(['\n', '\r']) {
                return Err(self.error("a line break was expected after the rule"));
            }
            self.skip_space(true);
        }
        Ok(())
    }

    fn finish(self) -> Result<Rules, GrammarError> {
        let root = self.by_name.get("root").copied();
        let root = root.ok_or_else(|| GrammarError::Invalid("there is no rule `root`, with which a grammar begins".into()))?;
        let Self { names, bodies, .. } = self;
        let bodies = bodies.into_iter().zip(&names);
        let bodies: Result<_, _> = bodies
            .map(|(body, name)| body.ok_or_else(|| GrammarError::Invalid(format!("the rule `{name}` is used, but not given"))))
            .collect();
        Ok(Rules { bodies: bodies?, root })
    }

    fn choice(&mut self, depth: usize) -> Result<Expr, GrammarError> {
        if depth > DEPTH {
            return Err(GrammarError::TooDeep { limit: DEPTH });
        }
        let mut choices = vec![self.sequence(depth)?];
        while self.skip("|") {
            self.skip_space(true);
            choices.push(self.sequence(depth)?);
        }
        Ok(if choices.len() == 1 { choices.remove(0) } else { Expr::Choice(choices) })
    }

    fn sequence(&mut self, depth: usize) -> Result<Expr, GrammarError> {
        let mut parts = Vec::new();
        loop {
            self.skip_space(depth > 0);
            let Some(atom) = self.atom(depth)? else { break };
            self.skip_space(depth > 0);
            parts.push(self.repeated(atom)?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Expr::Sequence(parts) })
    }

    fn atom(&mut self, depth: usize) -> Result<Option<Expr>, GrammarError> {
        match self.rest.chars().next() {
            Some('"') => self.literal().map(Some),
            Some('[') => self.class().map(Some),
            Some('.') => {
                self.skip(".");
                Ok(Some(Expr::One(Set::all())))
            }
            Some('(') => {
                self.skip("(");
                let inner = self.choice(depth + 1)?;
                self.skip_space(true);
                if self.skip(")") { Ok(Some(inner)) } else { Err(self.error("`)` was expected")) }
            }
            Some('<' | '!') => self.token().map(Some),
            _ => Ok(self.name().map(|name| Expr::Rule(self.index(name)))),
        }
    }

    /// Any number of operators after an item.
    fn repeated(&mut self, mut item: Expr) -> Result<Expr, GrammarError> {
        loop {
            let (least, most) = match self.rest.as_bytes().first() {
                Some(b'*') => (0, None),
                Some(b'+') => (1, None),
                Some(b'?') => (0, Some(1)),
                Some(b'{') => {
                    self.skip("{");
                    let bounds = self.bounds()?;
                    item = Expr::Repeat(Box::new(item), bounds.0, bounds.1);
                    continue;
                }
                _ => return Ok(item),
            };
            self.rest = &self.rest[1..];
            item = Expr::Repeat(Box::new(item), least, most);
        }
    }

    /// `m}`, `m,}`, `m,n}` or `,n}`.
    fn bounds(&mut self) -> Result<(u32, Option<u32>), GrammarError> {
        let (inner, rest) = self.rest.split_once('}').ok_or_else(|| self.error("`}` was expected"))?;
        let number = |text: &str| match text.trim().parse() {
            Ok(n) if n <= MOST => Ok(n),
            _ => Err(self.error(&format!("a repetition counts from 0 to {MOST}"))),
        };
        let bounds = match inner.split_once(',') {
            None => (number(inner)?, Some(number(inner)?)),
            Some((least, "")) => (number(least)?, None),
            Some(("", most)) => (0, Some(number(most)?)),
            Some((least, most)) if most.trim().is_empty() => (number(least)?, None),
            Some((least, most)) => (number(least)?, Some(number(most)?)),
        };
        if bounds.1.is_some_and(|most| most < bounds.0) {
            return Err(self.error("a repetition's bounds are the wrong way round"));
        }
        self.rest = rest;
        Ok(bounds)
    }

    fn literal(&mut self) -> Result<Expr, GrammarError> {
        self.skip("\"");
        let mut text = String::new();
        while !self.skip("\"") {
            text.push(self.character()?);
        }
        Ok(Expr::Text(text))
    }

    fn class(&mut self) -> Result<Expr, GrammarError> {
        self.skip("[");
        let negated = self.skip("^");
        let mut ranges = Vec::new();
        while !self.skip("]") {
            let first = self.character()?;
            let last = if self.rest.starts_with('-') && !self.rest.starts_with("-]") {
                self.skip("-");
                self.character()?
            } else {
                first
            };
            if last < first {
                return Err(self.error("a range of characters is the wrong way round"));
            }
            ranges.push((first, last));
        }
        let set = Set::of(ranges);
        let set = if negated { set.inverse() } else { set };
        if set.is_empty() { Err(self.error("a set of characters is empty")) } else { Ok(Expr::One(set)) }
    }

    /// `<[id]>`, or with `!` before it any other token.
    fn token(&mut self) -> Result<Expr, GrammarError> {
        let is_this = !self.skip("!");
        let id = self.rest.strip_prefix("<[").and_then(|rest| rest.split_once("]>")).and_then(|(id, rest)| Some((id.parse().ok()?, rest)));
        let Some((id, rest)) = id else {
            return Err(self.error("tokens are named by their ids: `<[1000]>`"));
        };
        self.rest = rest;
        Ok(Expr::Token(id, is_this))
    }

    /// A character of a literal or set, perhaps escaped.
    fn character(&mut self) -> Result<char, GrammarError> {
        let c = self.next().ok_or_else(|| self.error("the grammar ends within a literal"))?;
        if c != '\\' {
            return Ok(c);
        }
        let escape = self.next().ok_or_else(|| self.error("the grammar ends within an escape"))?;
        let digits = match escape {
            'n' => return Ok('\n'),
            'r' => return Ok('\r'),
            't' => return Ok('\t'),
            '\\' | '"' | '[' | ']' | '-' | '^' => return Ok(escape),
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => return Err(self.error("an escape is none of \\n \\r \\t \\\\ \\\" \\[ \\] \\xHH \\uHHHH \\UHHHHHHHH")),
        };
        let code = self.rest.get(..digits).and_then(|hex| u32::from_str_radix(hex, 16).ok()).and_then(char::from_u32);
        let code = code.ok_or_else(|| self.error("an escape is not the number of a character"))?;
        self.rest = &self.rest[digits..];
        Ok(code)
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn name(&mut self) -> Option<&'a str> {
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_').unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(name).filter(|name| !name.is_empty())
    }

    fn index(&mut self, name: &'a str) -> usize {
        if let Some(index) = self.by_name.get(name) {
            return *index;
        }
        self.names.push(name.to_owned());
        self.bodies.push(None);
        self.by_name.insert(name, self.names.len() - 1);
        self.names.len() - 1
    }

    fn skip(&mut self, what: &str) -> bool {
        let rest = self.rest.strip_prefix(what);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Over space and comments; over line breaks, too, where a rule does not end with them.
    fn skip_space(&mut self, breaks: bool) {
        loop {
            self.rest = self.rest.trim_start_matches(|c| matches!(c, ' ' | '\t') || (breaks && matches!(c, '\n' | '\r')));
            if !self.rest.starts_with('#') {
                return;
            }
            self.rest = &self.rest[self.rest.find(['\n', '\r']).unwrap_or(self.rest.len())..];
        }
    }

    fn error(&self, message: &str) -> GrammarError {
        let line = self.text[..self.text.len() - self.rest.len()].matches('\n').count() + 1;
        GrammarError::Invalid(format!("line {line}: {message}"))
    }
}
