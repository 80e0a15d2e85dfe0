//! What an answer may be held to, in the forms in which clients write it.

use crate::lark::quoted;
use crate::{GrammarError, Limits, gbnf};
use llguidance::api::GrammarWithLexer;
use serde_json::{Map, Value, json};

/// What an answer, or a part of one, must be.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A JSON object, whatever is in it.
    JsonObject,
    /// A JSON value that a schema allows. What of the schema cannot be enforced is refused, or with `lenient` passed over.
    JsonSchema {
        /// The schema.
        schema: Value,
        /// Whether keywords that cannot be enforced are passed over.
        lenient: bool,
    },
    /// A text that a regular expression matches from its beginning to its end.
    Regex(String),
    /// One of these texts.
    Choice(Vec<String>),
    /// A text of a grammar in Lark's notation, whose first rule is `start`.
    Lark(String),
    /// A text of a grammar in llama.cpp's notation, whose first rule is `root`.
    Gbnf(String),
}

/// Between the values of JSON: nothing, a space, or one or two line breaks and an indentation. Without a bound a model can lose itself in
/// white space.
const SPACE: &str = r" |\n{1,2}[ \t]{0,20}";

impl Source {
    /// A grammar in either notation, told by how its rules are written.
    pub fn grammar(text: String) -> Self {
        if text.contains("::=") { Self::Gbnf(text) } else { Self::Lark(text) }
    }

    /// In the library's terms.
    pub(crate) fn compile(&self, limits: &Limits) -> Result<GrammarWithLexer, GrammarError> {
        Ok(match self {
            Self::JsonObject => GrammarWithLexer::from_json_schema(spaced(json!({ "type": "object" }), false)),
            Self::JsonSchema { schema, lenient } => {
                check_schema(schema, limits)?;
                GrammarWithLexer::from_json_schema(spaced(schema.clone(), *lenient))
            }
            Self::Regex(text) => {
                check_text(text, limits)?;
                let inner = without_anchors(text);
                if inner.is_empty() {
                    return Err(GrammarError::Invalid("it matches nothing but the empty text".into()));
                }
                GrammarWithLexer::from_regex(inner)
            }
            Self::Choice(texts) => {
                let bytes = texts.iter().map(String::len).sum();
                if bytes > limits.bytes {
                    return Err(GrammarError::TooLarge { bytes, limit: limits.bytes });
                }
                if texts.is_empty() || texts.iter().any(String::is_empty) {
                    return Err(GrammarError::Invalid("it needs at least one choice, and none may be empty".into()));
                }
                let choices = texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(" | ");
                GrammarWithLexer::from_lark(format!("start: CHOICE\nCHOICE: {choices}\n"))
            }
            Self::Lark(text) => {
                check_text(text, limits)?;
                GrammarWithLexer::from_lark(text.clone())
            }
            Self::Gbnf(text) => {
                check_text(text, limits)?;
                GrammarWithLexer::from_lark(gbnf::to_lark(text)?)
            }
        })
    }
}

/// As [`spaced`], and letters may be written as `\u00fc`: some templates write all but ASCII so.
pub(crate) fn with_escapes(schema: Value, lenient: bool) -> Value {
    let mut schema = spaced(schema, lenient);
    if let Some(settings) = schema.get_mut("x-guidance").and_then(Value::as_object_mut) {
        settings.entry("json_allow_general_unicode_escapes").or_insert(true.into());
    }
    schema
}

/// The schema with our settings, where it does not bring its own.
fn spaced(schema: Value, lenient: bool) -> Value {
    let settings = json!({ "whitespace_pattern": SPACE, "whitespace_flexible": true, "lenient": lenient });
    let mut schema = match schema {
        Value::Object(map) => map,
        // `true` and `false` are schemas, too.
        other => Map::from_iter([("allOf".to_owned(), json!([other]))]),
    };
    schema.entry("x-guidance").or_insert(settings);
    Value::Object(schema)
}

pub(crate) fn check_schema(schema: &Value, limits: &Limits) -> Result<(), GrammarError> {
    if !schema.is_object() && !schema.is_boolean() {
        return Err(GrammarError::Invalid("a schema is a JSON object".into()));
    }
    let bytes = schema.to_string().len();
    if bytes > limits.bytes {
        return Err(GrammarError::TooLarge { bytes, limit: limits.bytes });
    }
    if depth(schema) > limits.depth { Err(GrammarError::TooDeep { limit: limits.depth }) } else { Ok(()) }
}

/// Objects and arrays within one another. The recursion is as deep as the value, which was read by a parser that has a bound.
fn depth(value: &Value) -> usize {
    let within: Option<usize> = match value {
        Value::Array(list) => list.iter().map(depth).max().or(Some(0)),
        Value::Object(map) => map.values().map(depth).max().or(Some(0)),
        _ => None,
    };
    within.map_or(0, |depth| depth + 1)
}

/// Bytes, and brackets within one another: parsers of such texts recurse.
fn check_text(text: &str, limits: &Limits) -> Result<(), GrammarError> {
    if text.len() > limits.bytes {
        return Err(GrammarError::TooLarge { bytes: text.len(), limit: limits.bytes });
    }
    let (mut depth, mut deepest) = (0usize, 0);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    if deepest > limits.depth { Err(GrammarError::TooDeep { limit: limits.depth }) } else { Ok(()) }
}

/// A match is of the whole text, so that an anchor at either end says nothing more.
fn without_anchors(regex: &str) -> &str {
    let regex = regex.strip_prefix('^').unwrap_or(regex);
    match regex.strip_suffix('$') {
        // An escaped `$` is a letter.
        Some(before) if before.bytes().rev().take_while(|b| *b == b'\\').count() % 2 == 0 => before,
        _ => regex,
    }
}
