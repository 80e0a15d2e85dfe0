//! Tokens to the tree.

use super::ast::{Arguments, Body, Comparison, Expression, Filters, For, Kind, Macro, Name, Operator, Sign, Statement, Target};
use super::fault::Fault;
use super::lexer::Token;
use super::value::Value;
use std::sync::Arc;

/// Most brackets and blocks within one another.
const DEPTH: usize = 100;

/// The tree of a whole template.
pub(super) fn parse(tokens: &[(Token, usize)]) -> Result<Body, Fault> {
    let mut parser = Parser { tokens, at: 0, depth: 0, loops: 0 };
    let body = parser.body(&[]).map_err(|e| e.at(parser.line()))?;
    Ok(body)
}

struct Parser<'t> {
    tokens: &'t [(Token, usize)],
    at: usize,
    depth: usize,
    /// Open loops, for `break` and `continue`.
    loops: usize,
}

type Parsed<T> = Result<T, Fault>;

impl Parser<'_> {
    fn peek(&self) -> &Token {
        self.ahead(0)
    }

    fn ahead(&self, n: usize) -> &Token {
        self.tokens.get(self.at + n).map_or(&Token::End, |(token, _)| token)
    }

    fn line(&self) -> usize {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |(_, line)| *line)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn is_name(&self, name: &str) -> bool {
        matches!(self.peek(), Token::Name(n) if n == name)
    }

    fn skip_name(&mut self, name: &str) -> bool {
        let found = self.is_name(name);
        self.at += usize::from(found);
        found
    }

    fn is(&self, operator: &str) -> bool {
        matches!(self.peek(), Token::Operator(o) if *o == operator)
    }

    fn skip(&mut self, operator: &str) -> bool {
        let found = self.is(operator);
        self.at += usize::from(found);
        found
    }

    fn unexpected<T>(&self, wanted: &str) -> Parsed<T> {
        let found = match self.peek() {
            Token::End => "the end of the template".to_owned(),
            Token::BlockEnd => "'%}'".to_owned(),
            Token::PrintEnd => "'}}'".to_owned(),
            Token::Name(name) => format!("'{name}'"),
            Token::Operator(operator) => format!("'{operator}'"),
            Token::String(_) => "a string".to_owned(),
            Token::Integer(_) | Token::Float(_) => "a number".to_owned(),
            Token::Text(_) | Token::BlockBegin | Token::PrintBegin => "a tag's begin".to_owned(),
        };
        Fault::template(format!("unexpected {found}, expected {wanted}"))
    }

    fn expect(&mut self, operator: &str) -> Parsed<()> {
        if self.skip(operator) { Ok(()) } else { self.unexpected(&format!("'{operator}'")) }
    }

    fn expect_token(&mut self, token: &Token, wanted: &str) -> Parsed<()> {
        if self.peek() != token {
            return self.unexpected(wanted);
        }
        self.at += 1;
        Ok(())
    }

    fn name(&mut self) -> Parsed<Name> {
        match self.next() {
            Token::Name(name) => Ok(name.into()),
            _ => {
                self.at -= 1;
                self.unexpected("a name")
            }
        }
    }

    /// Runs `parse` one level deeper.
    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == DEPTH {
            return Fault::template(format!("more than {DEPTH} brackets and blocks lie within one another"));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// Statements up to a tag that begins with one of these words; the word comes next. Without words, up to the end.
    fn body(&mut self, ends: &[&str]) -> Parsed<Body> {
        let mut body = Vec::new();
        loop {
            let line = self.line();
            let kind = match self.next() {
                Token::Text(text) => Kind::Text(text.into()),
                Token::PrintBegin => {
                    let value = self.tuple(true)?;
                    self.expect_token(&Token::PrintEnd, "'}}'")?;
                    Kind::Print(value)
                }
                Token::BlockBegin => {
                    if matches!(self.peek(), Token::Name(name) if ends.contains(&name.as_str())) {
                        return Ok(body);
                    }
                    let kind = self.deeper(Self::statement)?;
                    self.expect_token(&Token::BlockEnd, "'%}'")?;
                    kind
                }
                Token::End if ends.is_empty() => return Ok(body),
                _ => {
                    self.at -= 1;
                    return self.unexpected(&format!("one of {}", ends.join(", ")));
                }
            };
            body.push(Statement { line, kind });
        }
    }

    /// What a block holds: after the tag's end, up to a tag with the word `end`, which is taken.
    fn block(&mut self, end: &str) -> Parsed<Body> {
        self.expect_token(&Token::BlockEnd, "'%}'")?;
        let body = self.body(&[end])?;
        self.at += 1;
        Ok(body)
    }

    fn statement(&mut self) -> Parsed<Kind> {
        let word = self.name()?;
        match &*word {
            "if" => self.conditional(),
            "for" => self.for_loop(),
            "set" => self.set(),
            "with" => self.with(),
            "macro" => {
                let name = self.name()?;
                self.expect("(")?;
                let parameters = self.parameters()?;
                Ok(Kind::Macro(self.macro_body(name, parameters, "endmacro")?))
            }
            "call" => self.call_block(),
            "filter" => Ok(Kind::Filter(self.filters(true)?, self.block("endfilter")?)),
            "print" => match self.tuple(true)? {
                Expression::Tuple(values) => Ok(Kind::Print(Expression::Concat(values))),
                value => Ok(Kind::Print(value)),
            },
            "generation" => Ok(Kind::Scope(self.block("endgeneration")?)),
            "block" => {
                let name = self.name()?;
                while self.skip_name("scoped") || self.skip_name("required") {}
                let body = self.block("endblock")?;
                self.skip_name(&name);
                Ok(Kind::Scope(body))
            }
            "autoescape" => match self.expression()? {
                Expression::Constant(Value::Bool(false)) => Ok(Kind::Scope(self.block("endautoescape")?)),
                _ => Fault::template("`autoescape` is not supported: prompts are no HTML"),
            },
            "break" | "continue" if self.loops > 0 => Ok(if &*word == "break" { Kind::Break } else { Kind::Continue }),
            "break" | "continue" => Fault::template(format!("'{word}' outside of a loop")),
            "include" | "import" | "from" | "extends" => {
                Fault::template(format!("'{word}' is not supported: there are no other templates"))
            }
            other => Fault::template(format!("Encountered unknown tag '{other}'")),
        }
    }

    /// Takes the word that ends a block which has no `else`.
    fn without_else(&mut self) -> Body {
        self.at += 1;
        Vec::new()
    }

    fn conditional(&mut self) -> Parsed<Kind> {
        let mut branches = Vec::new();
        loop {
            let condition = self.tuple(false)?;
            self.expect_token(&Token::BlockEnd, "'%}'")?;
            branches.push((condition, self.body(&["elif", "else", "endif"])?));
            if self.skip_name("elif") {
                continue;
            }
            let otherwise = if self.skip_name("else") { self.block("endif")? } else { self.without_else() };
            return Ok(Kind::If(branches, otherwise));
        }
    }

    fn for_loop(&mut self) -> Parsed<Kind> {
        let target = self.target(false)?;
        if !self.skip_name("in") {
            return self.unexpected("'in'");
        }
        let over = self.tuple(false)?;
        let condition = if self.skip_name("if") { Some(self.expression()?) } else { None };
        let recursive = self.skip_name("recursive");
        self.expect_token(&Token::BlockEnd, "'%}'")?;
        self.loops += 1;
        let body = self.body(&["endfor", "else"]);
        self.loops -= 1;
        let body = body?;
        let otherwise = if self.skip_name("else") { self.block("endfor")? } else { self.without_else() };
        Ok(Kind::For(Arc::new(For { target, over, condition, recursive, body, otherwise })))
    }

    fn set(&mut self) -> Parsed<Kind> {
        let target = self.target(true)?;
        if self.skip("=") {
            return Ok(Kind::Set(target, self.tuple(true)?));
        }
        Ok(Kind::SetBlock(target, self.filters(false)?, self.block("endset")?))
    }

    fn with(&mut self) -> Parsed<Kind> {
        let mut values = Vec::new();
        while *self.peek() != Token::BlockEnd {
            if !values.is_empty() {
                self.expect(",")?;
            }
            let target = self.single_target(false)?;
            self.expect("=")?;
            values.push((target, self.expression()?));
        }
        Ok(Kind::With(values, self.block("endwith")?))
    }

    fn call_block(&mut self) -> Parsed<Kind> {
        let parameters = if self.skip("(") { self.parameters()? } else { Vec::new() };
        let call = self.expression()?;
        if !matches!(call, Expression::Call(..)) {
            return Fault::template("expected a call");
        }
        let body = self.macro_body("caller".into(), parameters, "endcall")?;
        Ok(Kind::Call(call, body))
    }

    fn macro_body(&mut self, name: Name, parameters: Vec<(Name, Option<Expression>)>, end: &str) -> Parsed<Arc<Macro>> {
        // A loop around the definition is none around the body.
        let (start, loops) = (self.at, std::mem::take(&mut self.loops));
        let body = self.block(end);
        self.loops = loops;
        let speaks_of =
            |name: &str| self.tokens[start..self.at.min(self.tokens.len())].iter().any(|(t, _)| matches!(t, Token::Name(n) if n == name));
        Ok(Arc::new(Macro { name, parameters, takes: (speaks_of("varargs"), speaks_of("kwargs")), body: body? }))
    }

    /// Names with or without a default, up to the closing bracket.
    fn parameters(&mut self) -> Parsed<Vec<(Name, Option<Expression>)>> {
        let mut parameters: Vec<(Name, Option<Expression>)> = Vec::new();
        while !self.skip(")") {
            if !parameters.is_empty() {
                self.expect(",")?;
                if self.skip(")") {
                    break;
                }
            }
            let name = self.name()?;
            let default = if self.skip("=") { Some(self.expression()?) } else { None };
            if default.is_none() && parameters.last().is_some_and(|(_, default)| default.is_some()) {
                return Fault::template("non-default argument follows default argument");
            }
            parameters.push((name, default));
        }
        Ok(parameters)
    }

    /// One target, or several with commas between them.
    fn target(&mut self, with_namespaces: bool) -> Parsed<Target> {
        let first = self.single_target(with_namespaces)?;
        if !self.is(",") {
            return Ok(first);
        }
        let mut targets = vec![first];
        while self.skip(",") {
            if matches!(self.peek(), Token::Name(_)) && !self.is_name("in") || self.is("(") {
                targets.push(self.single_target(with_namespaces)?);
            }
        }
        Ok(Target::Tuple(targets))
    }

    fn single_target(&mut self, with_namespaces: bool) -> Parsed<Target> {
        if self.skip("(") {
            let inner = self.deeper(|p| p.target(with_namespaces))?;
            self.expect(")")?;
            return Ok(inner);
        }
        let name = self.name()?;
        if matches!(&*name, "true" | "false" | "none" | "True" | "False" | "None") {
            return Fault::template(format!("can't assign to '{name}'"));
        }
        if with_namespaces && self.skip(".") {
            return Ok(Target::Attribute(name, self.name()?));
        }
        Ok(Target::Name(name))
    }

    /// Filters: `name(arguments) | name`, or with a `|` before the first one.
    fn filters(&mut self, begins: bool) -> Parsed<Filters> {
        let mut filters = Vec::new();
        while (begins && filters.is_empty()) || self.skip("|") {
            let name = self.dotted_name()?;
            let arguments = if self.skip("(") { self.arguments()? } else { Arguments::default() };
            filters.push((name, arguments));
        }
        Ok(filters)
    }

    fn dotted_name(&mut self) -> Parsed<Name> {
        let mut name = self.name()?.to_string();
        while self.skip(".") {
            name = format!("{name}.{}", self.name()?);
        }
        Ok(name.into())
    }

    /// An expression, or a tuple of such without brackets.
    fn tuple(&mut self, with_conditions: bool) -> Parsed<Expression> {
        let one = |p: &mut Self| if with_conditions { p.expression() } else { p.deeper(Self::or) };
        let first = one(self)?;
        if !self.is(",") {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.skip(",") {
            if matches!(self.peek(), Token::PrintEnd | Token::BlockEnd) || self.is(")") || self.is_name("recursive") {
                break;
            }
            items.push(one(self)?);
        }
        Ok(Expression::Tuple(items))
    }

    fn expression(&mut self) -> Parsed<Expression> {
        self.deeper(|p| {
            let mut value = p.or()?;
            while p.skip_name("if") {
                let condition = p.or()?;
                let otherwise = if p.skip_name("else") { Some(Box::new(p.expression()?)) } else { None };
                value = Expression::If(Box::new([value, condition]), otherwise);
            }
            Ok(value)
        })
    }

    fn or(&mut self) -> Parsed<Expression> {
        let mut left = self.and()?;
        while self.skip_name("or") {
            left = Expression::Or(Box::new(left), Box::new(self.and()?));
        }
        Ok(left)
    }

    fn and(&mut self) -> Parsed<Expression> {
        let mut left = self.not()?;
        while self.skip_name("and") {
            left = Expression::And(Box::new(left), Box::new(self.not()?));
        }
        Ok(left)
    }

    fn not(&mut self) -> Parsed<Expression> {
        if self.skip_name("not") {
            return Ok(Expression::Not(Box::new(self.deeper(Self::not)?)));
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Parsed<Expression> {
        let first = self.sum()?;
        let mut rest = Vec::new();
        loop {
            let operator = match self.peek() {
                Token::Operator("==") => Comparison::Equal,
                Token::Operator("!=") => Comparison::NotEqual,
                Token::Operator("<") => Comparison::Less,
                Token::Operator("<=") => Comparison::LessOrEqual,
                Token::Operator(">") => Comparison::Greater,
                Token::Operator(">=") => Comparison::GreaterOrEqual,
                Token::Name(name) if name == "in" => Comparison::In,
                Token::Name(name) if name == "not" && matches!(self.ahead(1), Token::Name(name) if name == "in") => {
                    self.at += 1;
                    Comparison::NotIn
                }
                _ => break,
            };
            self.at += 1;
            rest.push((operator, self.sum()?));
        }
        Ok(if rest.is_empty() { first } else { Expression::Compare(Box::new(first), rest) })
    }

    /// Operands with these operators between them.
    fn binary(&mut self, operators: &[(&str, Operator)], operand: fn(&mut Self) -> Parsed<Expression>) -> Parsed<Expression> {
        let mut left = operand(self)?;
        while let Some((_, operator)) = operators.iter().find(|(text, _)| self.is(text)) {
            self.at += 1;
            left = Expression::Binary(*operator, Box::new(left), Box::new(operand(self)?));
        }
        Ok(left)
    }

    fn sum(&mut self) -> Parsed<Expression> {
        self.binary(&[("+", Operator::Add), ("-", Operator::Subtract)], Self::concatenation)
    }

    fn concatenation(&mut self) -> Parsed<Expression> {
        let first = self.product()?;
        if !self.is("~") {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.skip("~") {
            parts.push(self.product()?);
        }
        Ok(Expression::Concat(parts))
    }

    fn product(&mut self) -> Parsed<Expression> {
        let operators = [("*", Operator::Multiply), ("/", Operator::Divide), ("//", Operator::FloorDivide), ("%", Operator::Modulo)];
        self.binary(&operators, Self::power)
    }

    fn power(&mut self) -> Parsed<Expression> {
        self.binary(&[("**", Operator::Power)], |p| p.unary(true))
    }

    fn unary(&mut self, with_filters: bool) -> Parsed<Expression> {
        let sign = if self.skip("-") {
            Some(Sign::Minus)
        } else if self.skip("+") {
            Some(Sign::Plus)
        } else {
            None
        };
        let mut value = match sign {
            Some(sign) => Expression::Sign(sign, Box::new(self.deeper(|p| p.unary(false))?)),
            None => self.primary()?,
        };
        value = self.postfix(value)?;
        if with_filters { self.filtered(value) } else { Ok(value) }
    }

    fn primary(&mut self) -> Parsed<Expression> {
        Ok(match self.next() {
            Token::Name(name) => match name.as_str() {
                "true" | "True" => Expression::Constant(Value::Bool(true)),
                "false" | "False" => Expression::Constant(Value::Bool(false)),
                "none" | "None" => Expression::Constant(Value::None),
                _ => Expression::Name(name.into()),
            },
            Token::String(mut text) => {
                while let Token::String(more) = self.peek() {
                    text.push_str(more);
                    self.at += 1;
                }
                Expression::Constant(Value::Str(text.into()))
            }
            Token::Integer(n) => Expression::Constant(Value::Int(n)),
            Token::Float(n) => Expression::Constant(Value::Float(n)),
            Token::Operator("(") if self.skip(")") => Expression::Tuple(Vec::new()),
            Token::Operator("(") => {
                let inner = self.tuple(true)?;
                self.expect(")")?;
                inner
            }
            Token::Operator("[") => Expression::List(self.items("]", Self::expression)?),
            Token::Operator("{") => Expression::Dict(self.items("}", |p| {
                let key = p.expression()?;
                p.expect(":")?;
                Ok((key, p.expression()?))
            })?),
            _ => {
                self.at -= 1;
                return self.unexpected("an expression");
            }
        })
    }

    /// Items with commas between them, up to what closes them.
    fn items<T>(&mut self, close: &str, item: fn(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        while !self.skip(close) {
            if !items.is_empty() {
                self.expect(",")?;
                if self.skip(close) {
                    break;
                }
            }
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn postfix(&mut self, mut value: Expression) -> Parsed<Expression> {
        loop {
            if self.skip(".") {
                value = match self.next() {
                    Token::Name(name) => Expression::Attribute(Box::new(value), name.into()),
                    Token::Integer(n) => Expression::Item(Box::new(value), Box::new(Expression::Constant(Value::Int(n)))),
                    _ => {
                        self.at -= 1;
                        return self.unexpected("a name");
                    }
                };
            } else if self.skip("[") {
                value = self.subscript(value)?;
            } else if self.skip("(") {
                value = Expression::Call(Box::new(value), self.arguments()?);
            } else {
                return Ok(value);
            }
        }
    }

    /// `value[...]`, after the bracket.
    fn subscript(&mut self, value: Expression) -> Parsed<Expression> {
        let mut parts: [Option<Expression>; 3] = [None, None, None];
        let mut colons = 0;
        while !self.skip("]") {
            if self.skip(":") && colons < 2 {
                colons += 1;
            } else if parts[colons].is_none() {
                parts[colons] = Some(self.tuple(true)?);
            } else {
                return self.unexpected("']'");
            }
        }
        let value = Box::new(value);
        match parts {
            [Some(index), None, None] if colons == 0 => Ok(Expression::Item(value, Box::new(index))),
            _ if colons == 0 => Fault::template("expected subscript expression"),
            parts => Ok(Expression::Slice(value, Box::new(parts))),
        }
    }

    /// Filters, tests and calls after a value.
    fn filtered(&mut self, mut value: Expression) -> Parsed<Expression> {
        loop {
            if self.is("|") {
                for (name, arguments) in self.filters(false)? {
                    value = Expression::Filter(Box::new(value), name, arguments);
                }
            } else if self.skip_name("is") {
                value = self.test(value)?;
            } else if self.skip("(") {
                value = Expression::Call(Box::new(value), self.arguments()?);
            } else {
                return Ok(value);
            }
        }
    }

    fn test(&mut self, value: Expression) -> Parsed<Expression> {
        let negated = self.skip_name("not");
        let name = self.dotted_name()?;
        let arguments = if self.skip("(") {
            self.arguments()?
        } else {
            let has_one = match self.peek() {
                Token::Name(name) if name == "is" => return Fault::template("You cannot chain multiple tests with is"),
                Token::Name(name) => !matches!(name.as_str(), "else" | "or" | "and"),
                Token::String(_) | Token::Integer(_) | Token::Float(_) => true,
                Token::Operator(operator) => matches!(*operator, "[" | "{"),
                _ => false,
            };
            let mut arguments = Arguments::default();
            if has_one {
                let value = self.primary()?;
                arguments.positional.push(self.postfix(value)?);
            }
            arguments
        };
        let test = Expression::Test(Box::new(value), name, arguments);
        Ok(if negated { Expression::Not(Box::new(test)) } else { test })
    }

    /// Arguments of a call, after the bracket.
    fn arguments(&mut self) -> Parsed<Arguments> {
        let mut arguments = Arguments::default();
        let mut begun = false;
        while !self.skip(")") {
            if begun {
                self.expect(",")?;
                if self.skip(")") {
                    break;
                }
            }
            begun = true;
            if self.skip("**") {
                arguments.more_named = Some(Box::new(self.expression()?));
            } else if self.skip("*") {
                arguments.more = Some(Box::new(self.expression()?));
            } else if matches!((self.peek(), self.ahead(1)), (Token::Name(_), Token::Operator("="))) {
                let name = self.name()?;
                self.at += 1;
                arguments.named.push((name, self.expression()?));
            } else if arguments.named.is_empty() && arguments.more_named.is_none() {
                arguments.positional.push(self.expression()?);
            } else {
                return Fault::template("invalid syntax for function call expression");
            }
        }
        Ok(arguments)
    }
}
