//! A source as tokens, with white space around tags taken away as `trim_blocks`, `lstrip_blocks`, `-` and `+` say.

use super::fault::{Fault, Kind};
use super::unicode::is_space;
use std::borrow::Cow;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Text(String),
    /// `{%`.
    BlockBegin,
    /// `%}`.
    BlockEnd,
    /// `{{`.
    PrintBegin,
    /// `}}`.
    PrintEnd,
    Name(String),
    String(String),
    Integer(i128),
    Float(f64),
    Operator(&'static str),
    End,
}

/// Tokens with their lines.
pub(super) type Tokens = Vec<(Token, usize)>;

/// Operators; where one begins as another does, the longer one comes first.
const OPERATORS: [&str; 26] = [
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";",
];

/// Most tokens of one tag, which bounds how deep its tree is. Tags of known templates have up to some hundred.
const TAG_TOKENS: usize = 1000;

/// The tokens of a source; the last one is [`Token::End`].
pub(super) fn tokens(source: &str) -> Result<Tokens, Fault> {
    let mut source = Cow::Borrowed(source);
    if source.contains('\r') {
        source = source.replace("\r\n", "\n").replace('\r', "\n").into();
    }
    let source = source.strip_suffix('\n').unwrap_or(&source);
    let mut lexer = Lexer { rest: source, line: 1, at_line_start: true, out: Vec::new() };
    while !lexer.rest.is_empty() {
        lexer.next().map_err(|e| e.at(lexer.line))?;
    }
    let line = lexer.line;
    lexer.out.push((Token::End, line));
    Ok(lexer.out)
}

struct Lexer<'s> {
    rest: &'s str,
    line: usize,
    /// What was taken last ended in a line break.
    at_line_start: bool,
    out: Tokens,
}

fn syntax<T>(text: impl Into<String>) -> Result<T, Fault> {
    Fault::template(text)
}

impl<'s> Lexer<'s> {
    /// Takes this many bytes.
    fn take(&mut self, len: usize) -> &'s str {
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        self.line += taken.matches('\n').count();
        if !taken.is_empty() {
            self.at_line_start = taken.ends_with('\n');
        }
        taken
    }

    fn take_space(&mut self) -> &'s str {
        self.take(self.rest.len() - self.rest.trim_start_matches(is_space).len())
    }

    fn push(&mut self, token: Token) {
        self.out.push((token, self.line));
    }

    /// Text up to the next tag, and the tag.
    fn next(&mut self) -> Result<(), Fault> {
        let mut start = 0;
        let tag = loop {
            match self.rest[start..].find('{') {
                None => break None,
                Some(at) => match self.rest.as_bytes().get(start + at + 1) {
                    Some(kind @ (b'%' | b'{' | b'#')) => break Some((start + at, *kind)),
                    _ => start += at + 1,
                },
            }
        };
        let Some((at, kind)) = tag else {
            let text = self.take(self.rest.len());
            self.push(Token::Text(text.to_owned()));
            return Ok(());
        };
        let sign = self.rest.as_bytes().get(at + 2).copied().filter(|sign| matches!(sign, b'-' | b'+'));
        let line_start = self.at_line_start;
        let line = self.line;
        let text = trimmed_end(self.take(at), sign, kind != b'{', line_start);
        if !text.is_empty() {
            self.out.push((Token::Text(text.to_owned()), line));
        }
        self.take(2 + usize::from(sign.is_some()));
        match kind {
            b'#' => self.comment(),
            b'{' => {
                self.push(Token::PrintBegin);
                self.tag("}}", &Token::PrintEnd)
            }
            _ if self.raw_begins() => self.raw(),
            _ => {
                self.push(Token::BlockBegin);
                self.tag("%}", &Token::BlockEnd)
            }
        }
    }

    fn comment(&mut self) -> Result<(), Fault> {
        let Some(end) = self.rest.find("#}") else { return syntax("Missing end of comment tag") };
        // The sign before the end is part of the comment otherwise.
        let sign = self.rest[..end].ends_with(['-', '+']).then(|| self.rest.as_bytes()[end - 1]);
        self.take(end + 2);
        self.after_tag(sign);
        Ok(())
    }

    /// White space after a tag's end with this sign.
    fn after_tag(&mut self, sign: Option<u8>) {
        match sign {
            Some(b'-') => drop(self.take_space()),
            None if self.rest.starts_with('\n') => drop(self.take(1)),
            _ => {}
        }
    }

    /// `raw` and the end of the tag come next.
    fn raw_begins(&self) -> bool {
        let word = self.rest.trim_start_matches(is_space).strip_prefix("raw").map(|rest| rest.trim_start_matches(is_space));
        word.is_some_and(|rest| rest.starts_with("%}") || rest.starts_with("-%}"))
    }

    fn raw(&mut self) -> Result<(), Fault> {
        let end = self.rest.find("%}").unwrap_or(0);
        let trims = self.rest[..end].ends_with('-');
        self.take(end + 2);
        if trims {
            self.take_space();
        }
        let mut from = 0;
        while let Some(at) = self.rest[from..].find("{%").map(|at| from + at) {
            from = at + 2;
            let (sign, tag) = signed(&self.rest[from..]);
            let Some(after) = tag.trim_start_matches(is_space).strip_prefix("endraw") else { continue };
            let (end_sign, after) = signed(after.trim_start_matches(is_space));
            let Some(after) = after.strip_prefix("%}") else { continue };
            let (len, line, line_start) = (self.rest.len() - after.len(), self.line, self.at_line_start);
            let text = trimmed_end(&self.take(len)[..at], sign, true, line_start);
            self.out.push((Token::Text(text.to_owned()), line));
            self.after_tag(end_sign);
            return Ok(());
        }
        syntax("Missing end of raw directive")
    }

    /// The tokens of a tag up to its end.
    fn tag(&mut self, end: &str, end_token: &Token) -> Result<(), Fault> {
        let mut open: Vec<&str> = Vec::new();
        for _ in 0..TAG_TOKENS {
            self.take_space();
            if open.is_empty() {
                let sign = self.rest.as_bytes().first().copied().filter(|sign| *sign == b'-' || (*sign == b'+' && end == "%}"));
                if self.rest[usize::from(sign.is_some())..].starts_with(end) {
                    self.push(end_token.clone());
                    self.take(end.len() + usize::from(sign.is_some()));
                    if end == "%}" || sign.is_some() {
                        self.after_tag(sign);
                    }
                    return Ok(());
                }
            }
            let Some(first) = self.rest.chars().next() else { return syntax(format!("unexpected end of template, expected `{end}`")) };
            if first.is_ascii_digit() {
                self.number()?;
            } else if first == '_' || first.is_alphanumeric() {
                let len = self.rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(self.rest.len());
                let name = self.take(len).to_owned();
                self.push(Token::Name(name));
            } else if matches!(first, '\'' | '"') {
                let line = self.line;
                let text = self.string(first)?;
                self.out.push((Token::String(text), line));
            } else {
                let Some(operator) = OPERATORS.into_iter().find(|operator| self.rest.starts_with(operator)) else {
                    return syntax(format!("unexpected char {first:?}"));
                };
                match operator {
                    "(" => open.push(")"),
                    "[" => open.push("]"),
                    "{" => open.push("}"),
                    ")" | "]" | "}" if open.pop() != Some(operator) => return syntax(format!("unexpected '{operator}'")),
                    _ => {}
                }
                self.push(Token::Operator(operator));
                self.take(operator.len());
            }
        }
        syntax(format!("a tag has more than {TAG_TOKENS} tokens"))
    }

    fn number(&mut self) -> Result<(), Fault> {
        let radix = match self.rest.get(..2).unwrap_or_default() {
            "0x" | "0X" => 16,
            "0o" | "0O" => 8,
            "0b" | "0B" => 2,
            _ => 10,
        };
        let after_dot = matches!(self.out.last(), Some((Token::Operator("."), _)));
        let digits = |text: &str, radix: u32| text.find(|c: char| c != '_' && !c.is_digit(radix)).unwrap_or(text.len());
        let prefix = if radix == 10 { 0 } else { 2 };
        let whole = prefix + digits(&self.rest[prefix..], radix);
        let mut len = whole;
        if radix == 10 && !after_dot {
            let fraction = |len: usize| self.rest[len..].strip_prefix('.').map(|rest| 1 + digits(rest, 10)).filter(|n| *n > 1);
            len += fraction(len).unwrap_or(0);
            if let Some(exponent) = self.rest[len..].strip_prefix(['e', 'E']) {
                let sign = usize::from(exponent.starts_with(['+', '-']));
                let n = digits(&exponent[sign..], 10);
                len += if n > 0 { 1 + sign + n } else { 0 };
            }
        }
        let text = self.take(len).replace('_', "");
        let wrong = || Fault::new(Kind::Template, format!("`{text}` is no number, or one of more than 128 bits"));
        let token = if len > whole {
            Token::Float(text.parse().map_err(|_| wrong())?)
        } else {
            Token::Integer(i128::from_str_radix(&text[prefix..], radix).map_err(|_| wrong())?)
        };
        self.push(token);
        Ok(())
    }

    /// A string, with the escapes of Python's.
    fn string(&mut self, quote: char) -> Result<String, Fault> {
        let mut out = String::new();
        let mut chars = self.rest[1..].char_indices();
        while let Some((i, c)) = chars.next() {
            if c == quote {
                self.take(i + 2);
                return Ok(out);
            }
            if c != '\\' {
                out.push(c);
                continue;
            }
            let Some((_, c)) = chars.next() else { break };
            let mut number = |radix: u32, most: usize, first: Option<char>| -> Option<char> {
                let mut code = first.map_or(0, |c| c.to_digit(radix).unwrap_or(0));
                for n in 0..most {
                    let Some(digit) = chars.clone().next().and_then(|(_, c)| c.to_digit(radix)) else {
                        // Octal numbers may be shorter.
                        return if radix == 8 { char::from_u32(code) } else { None }.filter(|_| n > 0 || first.is_some());
                    };
                    chars.next();
                    code = code.checked_mul(radix)?.checked_add(digit)?;
                }
                char::from_u32(code)
            };
            let escaped = match c {
                '\n' => continue,
                'n' => Some('\n'),
                't' => Some('\t'),
                'r' => Some('\r'),
                'a' => Some('\u{7}'),
                'b' => Some('\u{8}'),
                'f' => Some('\u{c}'),
                'v' => Some('\u{b}'),
                '\\' | '\'' | '"' => Some(c),
                'x' => number(16, 2, None),
                'u' => number(16, 4, None),
                'U' => number(16, 8, None),
                '0'..='7' => number(8, 2, Some(c)),
                'N' => None,
                // Python leaves what it does not know.
                other => {
                    out.push('\\');
                    Some(other)
                }
            };
            out.push(escaped.map_or_else(|| syntax(format!("a string has an escape that stands for no character: `\\{c}`")), Ok)?);
        }
        syntax("a string has no end")
    }
}

/// A `-` or `+` at the start of what follows.
fn signed(text: &str) -> (Option<u8>, &str) {
    match text.as_bytes().first() {
        Some(sign @ (b'-' | b'+')) => (Some(*sign), &text[1..]),
        _ => (None, text),
    }
}

/// Text before a tag: without the white space that the tag's sign takes, or without what is before the tag on its line.
fn trimmed_end(text: &str, sign: Option<u8>, is_block: bool, line_start: bool) -> &str {
    match sign {
        Some(b'-') => text.trim_end_matches(is_space),
        None if is_block => {
            let line = text.rfind('\n').map_or(0, |at| at + 1);
            let is_blank = text[line..].chars().all(is_space);
            if is_blank && (line > 0 || line_start) { &text[..line] } else { text }
        }
        _ => text,
    }
}
