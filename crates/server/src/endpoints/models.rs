//! `GET /v1/models` and `/v1/models/{id}`.

use crate::answer;
use crate::error::ApiError;
use crate::json::shorten;
use crate::state::{App, Model};
use axum::extract::{Path, State};
use axum::response::Response;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn list(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let model = app.model()?;
    Ok(answer::json(&json!({ "object": "list", "data": [describe(&app, &model)] })))
}

pub(super) async fn one(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Response, ApiError> {
    let model = app.model()?;
    if !app.options.is_ours(&id) {
        return Err(ApiError::no_model(&shorten(&id)));
    }
    Ok(answer::json(&describe(&app, &model)))
}

fn describe(app: &App, model: &Model) -> Value {
    let info = &model.info;
    json!({
        "id": app.options.model,
        "object": "model",
        "created": app.started,
        "owned_by": "1bit",
        "aliases": app.options.aliases,
        "meta": {
            "architecture": info.architecture,
            "n_vocab": model.engine.tokenizer().len(),
            "n_ctx": model.engine.context(),
            "n_ctx_train": info.trained_context,
            "n_embd": info.embedding,
            "n_params": info.parameters,
            "size": info.bytes,
            "weight_types": info.weight_types,
            "vision": model.tower.is_some(),
        },
    })
}
