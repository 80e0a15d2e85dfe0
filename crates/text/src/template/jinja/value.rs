//! Values, as Python has them.

use super::arguments::Arguments;
use super::ast::{For, Macro};
use super::fault::Fault;
use super::machine::Machine;
use indexmap::IndexMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A value. Texts are shared; what can be changed, or can hold itself, lies in the [`Heap`].
///
/// Integers have 128 bits; what exceeds them is refused.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Undefined(Arc<Missing>),
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Str(Arc<str>),
    Sequence(Kind, Id),
    Dict(Id),
    Namespace(Id),
    Loop(Id),
    Macro(Id),
    Function(Arc<Function>),
}

/// Where a value lies in its part of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Id(usize);

/// What kind of sequence a list of items is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    List,
    Tuple,
    Range,
    /// Gives its items once.
    Generator,
    Keys,
    Values,
    Items,
    /// Of `groupby`: a tuple whose parts have names, `grouper` and `list`.
    Group,
}

impl Kind {
    pub(super) fn is_tuple(self) -> bool {
        matches!(self, Self::Tuple | Self::Group)
    }
}

/// Why something is undefined.
#[derive(Debug, PartialEq)]
pub(crate) enum Missing {
    Name(Arc<str>),
    Attribute(&'static str, Arc<str>),
    Element(&'static str, String),
    Other(&'static str),
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => write!(f, "'{name}' is undefined"),
            Self::Attribute("NoneType", name) => write!(f, "'None' has no attribute '{name}'"),
            Self::Attribute(kind, name) => write!(f, "'{kind} object' has no attribute '{name}'"),
            Self::Element(kind, index) => write!(f, "{kind} object has no element {index}"),
            Self::Other(why) => f.write_str(why),
        }
    }
}

/// A function of Jinja2 or Python: what it is called on, and what it is given.
pub(crate) type Builtin = fn(&mut Machine, &Value, Arguments) -> Result<Value, Fault>;

/// Functions by name.
pub(super) type Table = &'static [(&'static str, Builtin)];

pub(super) fn find(table: Table, name: &str) -> Option<(&'static str, Builtin)> {
    table.iter().find(|(n, _)| *n == name).copied()
}

#[derive(Debug)]
pub(crate) struct Function {
    pub(super) name: &'static str,
    pub(super) run: Builtin,
    pub(super) receiver: Value,
}

/// A key of a dictionary; numbers that are equal are one key.
#[derive(Clone, Debug)]
pub(crate) struct Key(Value);

impl Key {
    pub(super) fn new(value: &Value) -> Result<Self, Fault> {
        match value {
            Value::None | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Str(_) => Ok(Self(value.clone())),
            Value::Undefined(why) => Fault::values(why.to_string()),
            // Python takes tuples, too; no template needs them.
            other => Fault::values(format!("unhashable type: '{}'", other.type_name())),
        }
    }

    pub(super) fn value(&self) -> &Value {
        &self.0
    }
}

impl From<&Arc<str>> for Key {
    fn from(name: &Arc<str>) -> Self {
        Self(Value::Str(name.clone()))
    }
}

impl From<&str> for Key {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Value::Str(a), Value::Str(b)) => a == b,
            (Value::None, Value::None) => true,
            (a, b) => matches!((a.number(), b.number()), (Some(a), Some(b)) if a == b),
        }
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match (&self.0, self.0.number()) {
            (Value::Str(text), _) => text.hash(state),
            (_, Some(Number::Int(n))) => (n as f64).to_bits().hash(state),
            (_, Some(Number::Float(n))) => (if n == 0.0 { 0.0 } else { n }).to_bits().hash(state),
            _ => {}
        }
    }
}

pub(crate) type Dict = IndexMap<Key, Value>;

/// A number; `True` is 1.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    pub(super) fn float(self) -> f64 {
        match self {
            Self::Int(n) => n as f64,
            Self::Float(n) => n,
        }
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(std::cmp::Ordering::Equal)
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(b)),
            (a, b) => a.float().partial_cmp(&b.float()),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Str(text.into())
    }
}
impl From<bool> for Value {
    fn from(yes: bool) -> Self {
        Self::Bool(yes)
    }
}
impl From<usize> for Value {
    fn from(n: usize) -> Self {
        Self::Int(n as i128)
    }
}

impl Value {
    pub(super) fn undefined(why: Missing) -> Self {
        Self::Undefined(Arc::new(why))
    }

    pub(super) fn is_undefined(&self) -> bool {
        matches!(self, Self::Undefined(_))
    }

    pub(super) fn number(&self) -> Option<Number> {
        match self {
            Self::Bool(yes) => Some(Number::Int((*yes).into())),
            Self::Int(n) => Some(Number::Int(*n)),
            Self::Float(n) => Some(Number::Float(*n)),
            _ => None,
        }
    }

    /// The name of its type.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Undefined(_) => "Undefined",
            Self::None => "NoneType",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Float(_) => "float",
            Self::Str(_) => "str",
            Self::Sequence(kind, _) => match kind {
                Kind::List => "list",
                Kind::Tuple | Kind::Group => "tuple",
                Kind::Range => "range",
                Kind::Generator => "generator",
                Kind::Keys => "dict_keys",
                Kind::Values => "dict_values",
                Kind::Items => "dict_items",
            },
            Self::Dict(_) => "dict",
            Self::Namespace(_) => "Namespace",
            Self::Loop(_) => "LoopContext",
            Self::Macro(_) => "Macro",
            Self::Function(_) => "builtin_function_or_method",
        }
    }
}

/// Variables, and the scope around them.
#[derive(Debug)]
pub(super) struct Scope {
    pub(super) variables: Vec<(Arc<str>, Value)>,
    pub(super) outer: Option<Id>,
}

/// A macro, and the scope in which it was defined.
#[derive(Clone, Debug)]
pub(super) struct Closure {
    pub(super) definition: Arc<Macro>,
    pub(super) scope: Id,
}

/// Where a loop is.
#[derive(Debug)]
pub(super) struct Loop {
    pub(super) definition: Arc<For>,
    pub(super) scope: Id,
    pub(super) items: Vec<Value>,
    pub(super) index: usize,
    pub(super) depth: usize,
    /// What `changed` was called with last.
    pub(super) seen: Option<Vec<Value>>,
}

/// All that can be changed or can hold itself. It grows while a template is rendered, and goes as a whole.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    sequences: Vec<Vec<Value>>,
    dicts: Vec<Dict>,
    scopes: Vec<Scope>,
    macros: Vec<Closure>,
    loops: Vec<Loop>,
}

/// The accessors of one part of the heap. An id was made by `add`, so there is something at it.
macro_rules! part {
    ($field:ident: $type:ty, $add:ident, $get:ident, $change:ident) => {
        pub(super) fn $add(&mut self, new: $type) -> Id {
            self.$field.push(new);
            Id(self.$field.len() - 1)
        }
        pub(super) fn $get(&self, id: Id) -> &$type {
            &self.$field[id.0]
        }
        #[allow(dead_code, reason = "not every part is changed")]
        pub(super) fn $change(&mut self, id: Id) -> &mut $type {
            &mut self.$field[id.0]
        }
    };
}

impl Heap {
    part!(sequences: Vec<Value>, add_sequence, sequence, sequence_mut);
    part!(dicts: Dict, add_dict, dict, dict_mut);
    part!(scopes: Scope, add_scope, scope, scope_mut);
    part!(macros: Closure, add_macro, closure, closure_mut);
    part!(loops: Loop, add_loop, loop_at, loop_mut);
}
