//! What an answer is to be held to: a JSON schema, a regular expression, choices, a grammar, in the fields in which OpenAI's,
//! llama-server's and vLLM's clients say so.

use crate::error::ApiError;
use crate::json::{Fields, kind_of, shorten, too_many, wrong_type};
use crate::options::Limits;
use crate::state::Model;
use onebit_grammar::{Answer, Grammar, GrammarError, Source};
use onebit_text::parse::Opening;
use serde_json::{Map, Value};

/// A form, and the field that asked for it.
#[derive(Debug, PartialEq)]
pub(crate) struct Form {
    pub(crate) source: Source,
    pub(crate) param: String,
}

impl Form {
    fn new(param: impl Into<String>, source: Source) -> Self {
        Self { source, param: param.into() }
    }

    /// The grammar of answers that begin with `opening`.
    pub(crate) fn compile(self, model: &Model, opening: Opening, limits: &Limits) -> Result<Grammar, ApiError> {
        let Self { source, param } = self;
        if model.engine.config().denoising.is_some() {
            let message =
                format!("`{param}` is not supported: the model does not write from left to right, so it cannot be held to a form");
            return Err(ApiError::unsupported(param, message));
        }
        model.compile(&Answer { source: Some(source), calls: None, opening }, &limits.grammar).map_err(|error| refused(&param, &error))
    }
}

/// 400 for a form that cannot be had.
pub(crate) fn refused(param: &str, error: &GrammarError) -> ApiError {
    ApiError::invalid(param, format!("Invalid value for `{param}`: {error}"))
}

/// Takes the form that a request asks for. No more than one may be asked for.
pub(crate) fn take(fields: &mut Fields, limits: &Limits) -> Result<Option<Form>, ApiError> {
    let forms = [
        response_format(fields)?,
        fields.value("json_schema").map(|schema| Form::new("json_schema", strict(schema))),
        fields.string("grammar")?.filter(|text| !text.is_empty()).map(|text| Form::new("grammar", Source::grammar(text))),
        guided(fields, limits)?,
        structured_outputs(fields, limits)?,
    ];
    let mut forms = forms.into_iter().flatten();
    match (forms.next(), forms.next()) {
        (Some(one), Some(other)) => {
            let message = format!("`{}` and `{}` must not both be given: an answer has one form", other.param, one.param);
            Err(ApiError::invalid(other.param, message))
        }
        (one, _) => Ok(one),
    }
}

fn strict(schema: Value) -> Source {
    Source::JsonSchema { schema, lenient: false }
}

/// OpenAI's `response_format`, also with the schema where llama-server has it.
fn response_format(fields: &mut Fields) -> Result<Option<Form>, ApiError> {
    const NAME: &str = "response_format";
    let mut format = match fields.value(NAME) {
        None => return Ok(None),
        Some(Value::Object(format)) => format,
        Some(other) => return Err(wrong_type(NAME, "an object", &other)),
    };
    let kind = match take_of(&mut format, "type") {
        Some(Value::String(kind)) => kind,
        Some(other) => return Err(wrong_type("response_format.type", "a string", &other)),
        None => return Err(ApiError::invalid("response_format.type", "`response_format.type` is missing")),
    };
    let form = match kind.as_str() {
        "text" => None,
        "json_object" => match take_of(&mut format, "schema") {
            None => Some(Form::new(NAME, Source::JsonObject)),
            Some(schema) => Some(Form::new("response_format.schema", strict(schema))),
        },
        "json_schema" => Some(match (take_of(&mut format, "json_schema"), take_of(&mut format, "schema")) {
            (Some(Value::Object(described)), None) => described_schema(described)?,
            (Some(other), None) => return Err(wrong_type("response_format.json_schema", "an object", &other)),
            (None, Some(schema)) => Form::new("response_format.schema", strict(schema)),
            (None, None) => return Err(ApiError::invalid("response_format.json_schema", "`response_format.json_schema` is missing")),
            (Some(_), Some(_)) => {
                let message = "`response_format.schema` and `response_format.json_schema` must not both be given";
                return Err(ApiError::invalid("response_format.schema", message));
            }
        }),
        other => {
            let message = format!("`response_format.type` is `{}`; it must be one of text, json_object, json_schema", shorten(other));
            return Err(ApiError::invalid("response_format.type", message));
        }
    };
    nothing_left(NAME, format)?;
    Ok(form)
}

/// `{"name", "description", "schema", "strict"}`. What of the schema cannot be enforced is passed over unless it is strict, as OpenAI has it.
fn described_schema(mut described: Map<String, Value>) -> Result<Form, ApiError> {
    const AT: &str = "response_format.json_schema";
    for name in ["name", "description"] {
        if let Some(other) = take_of(&mut described, name).filter(|v| !v.is_string()) {
            return Err(wrong_type(&format!("{AT}.{name}"), "a string", &other));
        }
    }
    let lenient = match take_of(&mut described, "strict") {
        None => true,
        Some(Value::Bool(strict)) => !strict,
        Some(other) => return Err(wrong_type(&format!("{AT}.strict"), "a boolean", &other)),
    };
    let form = match take_of(&mut described, "schema") {
        None => Form::new(AT, Source::JsonObject),
        Some(schema) => Form::new(format!("{AT}.schema"), Source::JsonSchema { schema, lenient }),
    };
    nothing_left(AT, described)?;
    Ok(form)
}

/// vLLM's fields until 2025.
fn guided(fields: &mut Fields, limits: &Limits) -> Result<Option<Form>, ApiError> {
    // Which library does it; there is one here.
    fields.pass_over(&["guided_decoding_backend"]);
    fields.only("guided_whitespace_pattern", |_| false, "the white space of JSON is bounded by the server")?;
    let mut values = Map::new();
    for name in ["json", "regex", "choice", "grammar", "json_object"] {
        values.extend(fields.value(&format!("guided_{name}")).map(|value| (name.to_owned(), value)));
    }
    one_of(values, |name| format!("guided_{name}"), limits)
}

/// vLLM's `structured_outputs`.
fn structured_outputs(fields: &mut Fields, limits: &Limits) -> Result<Option<Form>, ApiError> {
    const NAME: &str = "structured_outputs";
    let mut values = match fields.value(NAME) {
        None => return Ok(None),
        Some(Value::Object(values)) => values,
        Some(other) => return Err(wrong_type(NAME, "an object", &other)),
    };
    values.remove("disable_fallback");
    for name in ["disable_any_whitespace", "disable_additional_properties"] {
        if values.remove(name).is_some_and(|v| v != Value::Bool(false) && !v.is_null()) {
            let at = format!("{NAME}.{name}");
            return Err(ApiError::unsupported(&at, format!("`{at}` is not supported: say it in the schema")));
        }
    }
    one_of(values, |name| format!("{NAME}.{name}"), limits)
}

/// The one form among vLLM's fields.
fn one_of(values: Map<String, Value>, at: impl Fn(&str) -> String, limits: &Limits) -> Result<Option<Form>, ApiError> {
    let mut form: Option<Form> = None;
    for (name, value) in values.into_iter().filter(|(_, value)| !value.is_null()) {
        let param = at(&name);
        let source = match (name.as_str(), value) {
            ("json", Value::String(text)) => {
                let schema = serde_json::from_str(&text).map_err(|e| ApiError::invalid(&param, format!("`{param}` is not JSON: {e}")))?;
                strict(schema)
            }
            ("json", schema) => strict(schema),
            ("json_object", Value::Bool(true)) => Source::JsonObject,
            ("json_object", Value::Bool(false)) => continue,
            ("json_object", other) => return Err(wrong_type(&param, "a boolean", &other)),
            ("regex", Value::String(text)) => Source::Regex(text),
            ("grammar", Value::String(text)) => Source::grammar(text),
            ("regex" | "grammar", other) => return Err(wrong_type(&param, "a string", &other)),
            ("choice", Value::Array(choices)) => Source::Choice(texts(&param, choices, limits)?),
            ("choice", other) => return Err(wrong_type(&param, "an array of strings", &other)),
            (_, other) => return Err(ApiError::unsupported(&param, format!("`{param}` ({}) is not supported", kind_of(&other)))),
        };
        if let Some(one) = &form {
            let message = format!("`{param}` and `{}` must not both be given: an answer has one form", one.param);
            return Err(ApiError::invalid(param, message));
        }
        form = Some(Form::new(param, source));
    }
    Ok(form)
}

fn texts(param: &str, choices: Vec<Value>, limits: &Limits) -> Result<Vec<String>, ApiError> {
    if choices.len() > limits.form_choices {
        return Err(too_many(param, choices.len(), limits.form_choices));
    }
    let text = |(i, choice): (usize, Value)| match choice {
        Value::String(text) => Ok(text),
        other => Err(wrong_type(&format!("{param}[{i}]"), "a string", &other)),
    };
    choices.into_iter().enumerate().map(text).collect()
}

fn take_of(map: &mut Map<String, Value>, name: &str) -> Option<Value> {
    map.shift_remove(name).filter(|v| !v.is_null())
}

/// Refuses members that nobody knows.
fn nothing_left(at: &str, rest: Map<String, Value>) -> Result<(), ApiError> {
    match rest.into_iter().find(|(_, value)| !value.is_null()) {
        None => Ok(()),
        Some((name, _)) => {
            let param = format!("{at}.{}", shorten(&name));
            Err(ApiError::bad_request(format!("Unrecognized request argument supplied: {param}")).of(param).coded("unknown_parameter"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn form(body: Value) -> Result<Option<Form>, ApiError> {
        let limits = Limits { form_choices: 3, ..Limits::default() };
        let mut fields = crate::json::object(body.to_string().as_bytes(), &limits)?;
        let form = take(&mut fields, &limits)?;
        fields.finish()?;
        Ok(form)
    }

    #[test]
    fn each_spelling_is_read() {
        let schema = json!({ "type": "integer" });
        let lenient = |lenient| Source::JsonSchema { schema: schema.clone(), lenient };
        for (body, expected) in [
            (json!({ "response_format": { "type": "text" } }), None),
            (json!({ "response_format": { "type": "json_object" } }), Some(("response_format", Source::JsonObject))),
            (json!({ "response_format": { "type": "json_object", "schema": schema } }), Some(("response_format.schema", lenient(false)))),
            (json!({ "response_format": { "type": "json_schema", "schema": schema } }), Some(("response_format.schema", lenient(false)))),
            (
                json!({ "response_format": { "type": "json_schema", "json_schema": { "name": "n", "strict": true, "schema": schema } } }),
                Some(("response_format.json_schema.schema", lenient(false))),
            ),
            (
                json!({ "response_format": { "type": "json_schema", "json_schema": { "name": "n", "description": "d", "schema": schema } } }),
                Some(("response_format.json_schema.schema", lenient(true))),
            ),
            (json!({ "json_schema": schema }), Some(("json_schema", lenient(false)))),
            (json!({ "grammar": "" }), None),
            (json!({ "grammar": "root ::= \"a\"" }), Some(("grammar", Source::Gbnf("root ::= \"a\"".into())))),
            (json!({ "grammar": "start: \"a\"" }), Some(("grammar", Source::Lark("start: \"a\"".into())))),
            (json!({ "guided_json": "{\"type\":\"integer\"}" }), Some(("guided_json", lenient(false)))),
            (json!({ "guided_json": schema, "guided_decoding_backend": "x" }), Some(("guided_json", lenient(false)))),
            (json!({ "guided_regex": "a+" }), Some(("guided_regex", Source::Regex("a+".into())))),
            (json!({ "guided_choice": ["a", "b"] }), Some(("guided_choice", Source::Choice(vec!["a".into(), "b".into()])))),
            (json!({ "guided_grammar": "root ::= \"a\"" }), Some(("guided_grammar", Source::Gbnf("root ::= \"a\"".into())))),
            (json!({ "guided_json_object": true }), Some(("guided_json_object", Source::JsonObject))),
            (json!({ "structured_outputs": { "json": schema } }), Some(("structured_outputs.json", lenient(false)))),
            (
                json!({ "structured_outputs": { "json_object": true, "json": null } }),
                Some(("structured_outputs.json_object", Source::JsonObject)),
            ),
            (json!({ "structured_outputs": { "regex": "b" } }), Some(("structured_outputs.regex", Source::Regex("b".into())))),
        ] {
            let expected = expected.map(|(param, source)| Form::new(param, source));
            assert_eq!(form(body.clone()), Ok(expected), "{body}");
        }
    }

    #[test]
    fn refusals_name_the_field() {
        for (body, param) in [
            (json!({ "response_format": "json" }), "response_format"),
            (json!({ "response_format": {} }), "response_format.type"),
            (json!({ "response_format": { "type": 1 } }), "response_format.type"),
            (json!({ "response_format": { "type": "xml" } }), "response_format.type"),
            (json!({ "response_format": { "type": "text", "schema": {} } }), "response_format.schema"),
            (json!({ "response_format": { "type": "json_schema" } }), "response_format.json_schema"),
            (json!({ "response_format": { "type": "json_schema", "json_schema": 1 } }), "response_format.json_schema"),
            (json!({ "response_format": { "type": "json_schema", "json_schema": { "name": 1 } } }), "response_format.json_schema.name"),
            (json!({ "response_format": { "type": "json_schema", "json_schema": { "strict": 1 } } }), "response_format.json_schema.strict"),
            (json!({ "response_format": { "type": "json_schema", "json_schema": { "wat": 1 } } }), "response_format.json_schema.wat"),
            (json!({ "grammar": 1 }), "grammar"),
            (json!({ "json_schema": {}, "grammar": "root ::= \"a\"" }), "grammar"),
            (json!({ "guided_regex": "a", "guided_json": {} }), "guided_regex"),
            (json!({ "guided_regex": 1 }), "guided_regex"),
            (json!({ "guided_json": "{" }), "guided_json"),
            (json!({ "guided_choice": "a" }), "guided_choice"),
            (json!({ "guided_choice": [1] }), "guided_choice[0]"),
            (json!({ "guided_choice": ["a", "b", "c", "d"] }), "guided_choice"),
            (json!({ "guided_whitespace_pattern": " *" }), "guided_whitespace_pattern"),
            (json!({ "structured_outputs": 1 }), "structured_outputs"),
            (json!({ "structured_outputs": { "structural_tag": {} } }), "structured_outputs.structural_tag"),
            (json!({ "structured_outputs": { "json_object": 1 } }), "structured_outputs.json_object"),
            (json!({ "structured_outputs": { "disable_any_whitespace": true } }), "structured_outputs.disable_any_whitespace"),
            (json!({ "structured_outputs": { "json": {}, "regex": "a" } }), "structured_outputs.regex"),
        ] {
            assert_eq!(form(body.clone()).expect_err("refused").param.as_deref(), Some(param), "{body}");
        }
    }
}
