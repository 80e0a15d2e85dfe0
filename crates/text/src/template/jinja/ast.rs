//! The tree of a template.

use super::value::Value;
use std::sync::Arc;

pub(super) type Name = Arc<str>;

/// A part of a template, and the line where it begins.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) line: usize,
    pub(super) kind: Kind,
}

pub(super) type Body = Vec<Statement>;

#[derive(Debug)]
pub(super) enum Kind {
    /// Text outside of tags.
    Text(Name),
    /// `{{ ... }}`.
    Print(Expression),
    /// `if`, `elif` and `else`, each with what it holds.
    If(Vec<(Expression, Body)>, Body),
    For(Arc<For>),
    Set(Target, Expression),
    /// `{% set x | filters %}...{% endset %}`.
    SetBlock(Target, Filters, Body),
    With(Vec<(Target, Expression)>, Body),
    /// What has a scope of its own and is nothing else: `{% generation %}`, `{% block %}`.
    Scope(Body),
    Filter(Filters, Body),
    Macro(Arc<Macro>),
    /// `{% call %}`: the call, and the macro that is its `caller`.
    Call(Expression, Arc<Macro>),
    Break,
    Continue,
}

/// Filters one after another, each with its arguments besides the value.
pub(super) type Filters = Vec<(Name, Arguments)>;

#[derive(Debug)]
pub(super) struct For {
    pub(super) target: Target,
    pub(super) over: Expression,
    pub(super) condition: Option<Expression>,
    pub(super) recursive: bool,
    pub(super) body: Body,
    pub(super) otherwise: Body,
}

#[derive(Debug)]
pub(super) struct Macro {
    pub(super) name: Name,
    pub(super) parameters: Vec<(Name, Option<Expression>)>,
    /// Whether the body speaks of `varargs` and of `kwargs`.
    pub(super) takes: (bool, bool),
    pub(super) body: Body,
}

/// What can be assigned to.
#[derive(Debug)]
pub(super) enum Target {
    Name(Name),
    /// Of a namespace.
    Attribute(Name, Name),
    Tuple(Vec<Target>),
}

#[derive(Debug)]
pub(super) enum Expression {
    Constant(Value),
    Name(Name),
    List(Vec<Expression>),
    Tuple(Vec<Expression>),
    Dict(Vec<(Expression, Expression)>),
    Not(Box<Expression>),
    Sign(Sign, Box<Expression>),
    Binary(Operator, Box<Expression>, Box<Expression>),
    And(Box<Expression>, Box<Expression>),
    Or(Box<Expression>, Box<Expression>),
    /// `a ~ b ~ c`.
    Concat(Vec<Expression>),
    /// `a < b <= c`.
    Compare(Box<Expression>, Vec<(Comparison, Expression)>),
    /// `then if condition else otherwise`.
    If(Box<[Expression; 2]>, Option<Box<Expression>>),
    Attribute(Box<Expression>, Name),
    Item(Box<Expression>, Box<Expression>),
    Slice(Box<Expression>, Box<[Option<Expression>; 3]>),
    Call(Box<Expression>, Arguments),
    Filter(Box<Expression>, Name, Arguments),
    Test(Box<Expression>, Name, Arguments),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Plus,
    Minus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Modulo,
    Power,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    NotIn,
}

/// What a call is given.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    pub(super) positional: Vec<Expression>,
    pub(super) named: Vec<(Name, Expression)>,
    /// `*these`.
    pub(super) more: Option<Box<Expression>>,
    /// `**these`.
    pub(super) more_named: Option<Box<Expression>>,
}
