//! `POST /infill`, in llama-server's shape: fills the gap between two texts.

use super::completion::{self, Parsed};
use super::{prepare, prompt};
use crate::error::ApiError;
use crate::infill::{Infill, plain};
use crate::json::{Fields, wrong_type};
use crate::state::{App, Model};
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use serde_json::Value;
use std::sync::Arc;

pub(super) async fn handle(State(app): State<Arc<App>>, body: Body) -> Result<Response, ApiError> {
    let (model, parsed) = prepare(&app, body, parse).await?;
    completion::answer(&model, parsed).await
}

/// `input_prefix`, and `prompt` after it, come before the gap, `input_suffix` comes after it.
fn parse(app: &App, model: &Model, mut fields: Fields) -> Result<Parsed, ApiError> {
    let tokenizer = model.engine.tokenizer();
    let infill = Infill::of(tokenizer, "input_suffix")?;
    let text = |fields: &mut Fields, name: &str| -> Result<String, ApiError> {
        fields.string(name)?.ok_or_else(|| ApiError::invalid(name, format!("`{name}` is missing")))
    };
    let (before, after) = (text(&mut fields, "input_prefix")?, text(&mut fields, "input_suffix")?);
    let mut before = plain(&before, tokenizer);
    if let Some(prompt) = fields.value("prompt") {
        match prompt {
            Value::String(text) => before.extend(plain(&text, tokenizer)),
            Value::Array(list) => before.extend(prompt::ids("prompt", &list, tokenizer)?),
            other => return Err(wrong_type("prompt", "a string or an array of token ids", &other)),
        }
    }
    let mut ids = Vec::new();
    for (i, extra) in extras(&mut fields)?.into_iter().enumerate() {
        let at = format!("input_extra[{i}]");
        let member = |name: &str| {
            let text = extra.get(name).and_then(Value::as_str);
            text.ok_or_else(|| ApiError::invalid(format!("{at}.{name}"), format!("`{at}.{name}` should be a string")))
        };
        let file = infill.file(member("filename")?, member("text")?, tokenizer).ok_or_else(|| {
            let message = "`input_extra` is not supported with this model: its vocabulary has no mark between files";
            ApiError::unsupported("input_extra", message)
        })?;
        ids.extend(file);
    }
    let prompt = infill.prompt(&before, &plain(&after, tokenizer), tokenizer);
    // Other files come first, and the one with the gap is marked as they are.
    if let Some(mark) = infill.file.filter(|_| !ids.is_empty()) {
        ids.push(mark);
    }
    ids.extend(prompt);
    let mut parsed = completion::parameters(app, model, fields)?;
    parsed.request.prompt = ids;
    Ok(parsed)
}

/// Texts of other files.
fn extras(fields: &mut Fields) -> Result<Vec<Value>, ApiError> {
    match fields.value("input_extra") {
        None => Ok(vec![]),
        Some(Value::Array(list)) => Ok(list),
        Some(other) => Err(wrong_type("input_extra", "an array of objects", &other)),
    }
}
