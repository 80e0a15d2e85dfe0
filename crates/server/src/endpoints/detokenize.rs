//! `POST /detokenize`, in llama-server's shape: the text of ids.

use super::{prepare, prompt};
use crate::answer;
use crate::error::ApiError;
use crate::json::wrong_type;
use crate::state::App;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn handle(State(app): State<Arc<App>>, body: Body) -> Result<Response, ApiError> {
    let work = prepare(&app, body, |_, model, mut fields| {
        let ids = match fields.value("tokens") {
            Some(Value::Array(list)) => prompt::ids("tokens", &list, model.engine.tokenizer())?,
            Some(other) => return Err(wrong_type("tokens", "an array of token ids", &other)),
            None => return Err(ApiError::invalid("tokens", "`tokens` is missing")),
        };
        fields.pass_over(&["model"]);
        fields.finish()?;
        Ok(model.engine.tokenizer().decode(&ids, false))
    });
    let (_, content) = work.await?;
    Ok(answer::json(&json!({ "content": content })))
}
