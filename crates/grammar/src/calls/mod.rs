//! Answers that are calls of tools, in the way in which a model's format writes them.
//!
//! How a format writes is data ([`Written`]); here it becomes rules in Lark's notation. Arguments in JSON are held to their schema by the
//! library, others by rules of their own (`each`, `literals`, `tree`), which know less of JSON Schema and refuse the rest by name.

mod each;
mod literals;
mod rules;
mod schema;
mod tree;

use crate::answer::Tokens;
use crate::source::check_schema;
use crate::{GrammarError, Limits};
use onebit_text::parse::written::{Arguments, Beside, Written};
use rules::Rules;
use serde_json::{Map, Value, json};

/// Calls that an answer may or must be.
#[derive(Clone, Debug)]
pub struct Calls {
    /// The functions that may be called.
    pub functions: Vec<Function>,
    /// The ways in which a call may be written, at least one.
    pub written: Vec<&'static Written>,
    /// There is no answer without a call.
    pub required: bool,
    /// There is no more than one call.
    pub single: bool,
}

/// A function that may be called.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Its name: letters, digits and `_-.:/`.
    pub name: String,
    /// The schema of its arguments, which are an object. Nothing stands for a function that has none.
    pub parameters: Option<Value>,
    /// Whether what of the schema cannot be enforced is refused; else it is passed over.
    pub strict: bool,
}

/// Where the ways are, whose addresses tell them apart.
impl PartialEq for Calls {
    fn eq(&self, other: &Self) -> bool {
        let same = |(a, b): (&&Written, &&Written)| std::ptr::eq::<Written>(*a, *b);
        self.functions == other.functions
            && (self.required, self.single) == (other.required, other.single)
            && self.written.len() == other.written.len()
            && self.written.iter().zip(&other.written).all(same)
    }
}

impl Calls {
    /// The rules `calls` and, where a text may be an answer too, `said`: a text, and calls after it as far as the format has that.
    pub(crate) fn lark(&self, tokens: Tokens<'_>, limits: &Limits) -> Result<String, GrammarError> {
        for function in &self.functions {
            check_name(&function.name)?;
            if let Some(schema) = &function.parameters {
                check_schema(schema, limits)?;
            }
        }
        let mut rules = Rules::new(tokens);
        let (mut calls, mut said) = (Vec::new(), Vec::new());
        for written in &self.written {
            if rules.ends_in(written.open) {
                continue;
            }
            let (alone, after_text) = self.way(written, &mut rules)?;
            calls.push(alone);
            said.extend(after_text);
        }
        if calls.is_empty() || self.functions.is_empty() {
            return Err(GrammarError::Invalid("there is no function that could be called".into()));
        }
        let mut out = format!("calls: {}\n", calls.join(" | "));
        if !self.required {
            let text = self.text(&mut rules);
            said.insert(0, text);
            out.push_str(&format!("said: {}\n", said.join(" | ")));
        }
        out.push_str(&rules.finish());
        Ok(out)
    }

    /// Calls in one way: alone, and after a text if that can be.
    fn way(&self, written: &Written, rules: &mut Rules<'_>) -> Result<(String, Option<String>), GrammarError> {
        let mut of_each = Vec::with_capacity(self.functions.len());
        for function in &self.functions {
            of_each.push(arguments(&written.arguments, function, rules)?);
        }
        // What all first calls have in common is the mark that ends a text.
        let head = [written.open, written.call].concat();
        let common = head.find(['·', '⟨']).unwrap_or(head.len());
        let tail = |rules: &mut Rules<'_>, from: &str| -> String {
            let each: Vec<String> = self.functions.iter().zip(&of_each).map(|(f, a)| rules.call(from, &f.name, a, written.id)).collect();
            rules.rule(&each.join(" | "))
        };
        let first = tail(rules, &head[common..]);
        let more = match written.between.filter(|between| !self.single && !rules.ends_in(between) && !rules.ends_in(written.call)) {
            None => String::new(),
            Some(between) => {
                let another = tail(rules, &[between, written.call].concat());
                format!("({another})*")
            }
        };
        let close = if rules.ends_in(written.call) { String::new() } else { rules.text(written.close) };
        let rest = rules.rule(&format!("{first} {more} {close}"));
        // Before a mark there may be white space, which is not part of a name.
        let space = if common > 0 { "CALL_SPACE?" } else { "" };
        let alone = format!("{space} {} {rest}", rules.text(&head[..common]));
        let after_text = match written.beside {
            Beside::Either => None,
            Beside::Before(joint) if rules.ends_in(joint) => None,
            Beside::Before(joint) => {
                let mark = [joint, &head[..common]].concat();
                Some(format!("{} {rest}", self.text_up_to(&mark, rules)))
            }
        };
        Ok((alone, after_text))
    }

    /// What of an answer is text, and no call in any of the ways.
    fn body(&self) -> String {
        use crate::lark::{escaped, regex};
        let mut body = String::from("/(?s:.+)/");
        for written in &self.written {
            let head = [written.open, written.call].concat();
            let mark = &head[..head.find(['·', '⟨']).unwrap_or(head.len())];
            match written.beside {
                // A text for the user that begins as a call does would be taken for one.
                Beside::Either if ["{", "["].contains(&mark) => body.push_str(r" & ~/(?s:\s*[\{\[].*)/"),
                Beside::Before(joint) if !joint.is_empty() || !mark.is_empty() => {
                    let mark = [joint, mark].concat();
                    body.push_str(&format!(" & ~{}", regex(&format!("(?s:.*){}(?s:.*)", escaped(&mark)))));
                }
                _ => {}
            }
        }
        body
    }

    /// A text for the user.
    fn text(&self, rules: &mut Rules<'_>) -> String {
        let text = rules.terminal(&self.body());
        let mut ends: Vec<String> = self.written.iter().map(|written| rules.text(written.text_end)).filter(|end| !end.is_empty()).collect();
        ends.dedup();
        if ends.is_empty() { text } else { format!("{text} ({})?", ends.join(" | ")) }
    }

    /// A text for the user that ends with a mark, which is not in it.
    fn text_up_to(&self, mark: &str, rules: &mut Rules<'_>) -> String {
        let (body, mark) = (self.body(), rules.text(mark));
        match mark.strip_prefix('"') {
            // One lexeme, as the beginning of the mark may be part of the text.
            Some(_) => rules.terminal(&format!("({body}) {mark}")),
            None => format!("{} {mark}", rules.terminal(&body)),
        }
    }
}

/// Names are written without quotation marks in most formats.
fn check_name(name: &str) -> Result<(), GrammarError> {
    if !name.is_empty() && name.len() <= 256 && name.chars().all(|c| c.is_alphanumeric() || "_-.:/".contains(c)) {
        return Ok(());
    }
    Err(GrammarError::Invalid(format!("a function that is to be called must have a name of letters, digits and `_-.:/`, unlike {name:?}")))
}

/// A rule for the arguments of a function.
fn arguments(arguments: &Arguments, function: &Function, rules: &mut Rules<'_>) -> Result<String, GrammarError> {
    let root = match &function.parameters {
        None => Map::from_iter([("properties".into(), json!({})), ("additionalProperties".into(), false.into())]),
        Some(Value::Object(map)) => map.clone(),
        Some(_) => return Err(GrammarError::Invalid("the schema of a function's arguments is an object".into())),
    };
    if root.get("type").is_some_and(|kind| kind != "object") {
        return Err(GrammarError::Invalid("a function's arguments are an object, so that their schema's `type` must be `object`".into()));
    }
    let mut root = root;
    root.insert("type".into(), "object".into());
    let schema = schema::Schema::new(&Value::Object(root), function.strict);
    match arguments {
        Arguments::Json => Ok(rules.json(&schema, schema.root())),
        Arguments::Each(each) => each::arguments(each, &schema, rules),
        Arguments::Keywords(literals) => literals::keywords(literals, &schema, rules),
        Arguments::Object(literals) => literals::object(literals, &schema, rules),
        Arguments::Tree(tag) => tree::arguments(tag, &schema, rules),
    }
}
