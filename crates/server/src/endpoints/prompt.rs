//! Prompts that are given as text or as token ids.

use crate::error::ApiError;
use crate::json::{Fields, as_integer, too_many, wrong_type};
use onebit_text::{Encode, Tokenizer};
use serde_json::Value;

/// A prompt, and the text that it stands for.
#[derive(Debug, PartialEq)]
pub(super) struct Prompt {
    pub(super) ids: Vec<u32>,
    /// As given; absent where ids were.
    pub(super) text: Option<String>,
}

impl Prompt {
    /// The tokens that the vocabulary puts before a text are added, and special tokens in it are read as such: whoever sends a
    /// bare prompt writes the model's format themselves. Ids are taken as they are.
    fn of_text(text: String, tokenizer: &Tokenizer) -> Self {
        let ids = tokenizer.encode(&text, Encode { add_special: true, parse_special: true });
        Self { ids, text: Some(text) }
    }

    /// The text, for `echo`.
    pub(super) fn text(&self, tokenizer: &Tokenizer) -> String {
        self.text.clone().unwrap_or_else(|| tokenizer.decode(&self.ids, false))
    }
}

/// One prompt: a string or an array of ids.
pub(super) fn single(name: &str, value: Value, tokenizer: &Tokenizer) -> Result<Prompt, ApiError> {
    match value {
        Value::String(text) => Ok(Prompt::of_text(text, tokenizer)),
        Value::Array(list) => Ok(Prompt { ids: ids(name, &list, tokenizer)?, text: None }),
        other => Err(wrong_type(name, "a string or an array of token ids", &other)),
    }
}

/// One or several prompts: as [`single`], or an array of such.
pub(super) fn several(name: &str, value: Value, tokenizer: &Tokenizer, limit: usize) -> Result<Vec<Prompt>, ApiError> {
    match value {
        Value::Array(list) if !list.first().is_some_and(Value::is_number) => {
            if list.is_empty() {
                return Err(ApiError::invalid(name, format!("`{name}` is empty")));
            }
            if list.len() > limit {
                return Err(too_many(name, list.len(), limit));
            }
            list.into_iter().enumerate().map(|(i, value)| single(&format!("{name}[{i}]"), value, tokenizer)).collect()
        }
        one => Ok(vec![single(name, one, tokenizer)?]),
    }
}

/// Takes `answer_start`: text or ids that answers of a model with an encoder begin with.
pub(crate) fn answer_start(fields: &mut Fields, tokenizer: &Tokenizer) -> Result<Vec<u32>, ApiError> {
    const NAME: &str = "answer_start";
    match fields.value(NAME) {
        None => Ok(vec![]),
        Some(Value::String(text)) => Ok(tokenizer.encode(&text, Encode { add_special: false, parse_special: true })),
        Some(Value::Array(list)) => ids(NAME, &list, tokenizer),
        Some(other) => Err(wrong_type(NAME, "a string or an array of token ids", &other)),
    }
}

/// An array of ids that the vocabulary has.
pub(super) fn ids(name: &str, list: &[Value], tokenizer: &Tokenizer) -> Result<Vec<u32>, ApiError> {
    let id = |(i, value): (usize, &Value)| {
        let number = as_integer(value).ok_or_else(|| wrong_type(&format!("{name}[{i}]"), "a token id", value))?;
        u32::try_from(number).ok().filter(|id| (*id as usize) < tokenizer.len()).ok_or_else(|| {
            let message = format!("`{name}[{i}]` is {value}, but the vocabulary has {} tokens", tokenizer.len());
            ApiError::invalid(format!("{name}[{i}]"), message)
        })
    };
    list.iter().enumerate().map(id).collect()
}
